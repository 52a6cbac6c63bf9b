// The stage: two lanes in real time, the headline, and one cycle with its tree and its time. It plays
// what it is given; run.js brings the visitor's runs.
import { add, button, calm, el, many, modified, OWN } from "../common/static/dom.js";
import { inClass, stepOf } from "../common/static/page.js";
import { Lane, together } from "../common/race/lane.js";
import { Player } from "../common/race/player.js";
import { sample } from "../common/tokens/view.js";
import { Charts } from "./charts.js";
import { Cycle, depths } from "./cycle.js";
import { ahead, busy, costs, headline, plainly, remarks, rivalry } from "./headline.js";
import { Levels, Ran } from "./ran.js";

const [DRAFTED, ALONE] = ["With a drafter", "Plain: the target alone"];
const ALONE_NOW = "The connection is cut: no call of the target, so no cycle.";
const WAITING = "Waiting for the first token.";
const EARLY = 15; // cycles: their text fits on a lesson's first step
const TREE = 300; // ms that a tree is shown at least while a text is written: each takes time from a run
const LATER = "Runs next, alone, so that neither slows the other.";

// What a reader asks where more tokens per call are no more speed.
function level([ours, rival]) {
  if (!rival?.tau || !ours.tau || ours.tau <= rival.tau || ours.points.at(-1)[1] < 0.97 * rival.points.at(-1)[1]) return "";
  return `. A call of ${ours.label} brings more tokens than one of ${rival.label}, but takes longer`;
}

export class Stage {
  #treeAt = 0; // when the shown tree came

  /** chosen: told of the cycle of a pressed word. */
  constructor(root, { chosen = () => {} } = {}) {
    Object.assign(this, { root, frame: root.closest("#stage") ?? root, live: false, stale: "", whose: "" });
    this.player = new Player((at) => this.#draw(at));
    this.headline = el("p", "headline", "", { role: "status" });
    this.costs = el("p", "costs");
    this.said = el("p", "said");
    this.actions = el("div", "actions");
    const pointed = (cycle) => this.#point(cycle);
    const pressed = (cycle) => {
      this.held = cycle === this.held ? null : cycle;
      this.#point(cycle);
      chosen(cycle);
    };
    this.drafter = new Lane("drafter", DRAFTED, { pointed, chosen: pressed });
    this.plain = new Lane("plain", "Plain");
    this.plain.title.textContent = ALONE;
    this.both = [this.drafter, this.plain];
    this.lanes = { drafter: this.drafter, plain: this.plain };
    this.cycle = new Cycle(() => this.#slowly());
    this.charts = new Charts();
    [this.ran, this.levels] = [new Ran(), new Levels()];
    add(root, add(el("div", "top"), this.headline, this.actions, add(el("div", "why"), this.costs, this.said)));
    add(root, add(el("div", "lanes"), this.drafter.root, this.plain.root, this.ran.root, this.levels.root), this.#bar());
    add(root, add(el("div", "below"), this.cycle.root, this.charts.root));
    document.addEventListener("keydown", (event) => this.#keyed(event));
    together(this.both);
    this.veil(inClass && (stepOf() ?? "drafting") === "drafting");
    this.empty();
  }

  /** Hides the target's verdicts: a lesson's first question asks for them. */
  veil(on) {
    this.root.classList.toggle("veiled", on);
    this.cycle.veil(on);
    if (on && !this.live && this.pinned === null && this.drafter.ended) this.#show(this.#best);
    this.#name();
  }

  #bar() {
    const press = (words, ariaLabel, act) => button("quiet-button", words, act, { ariaLabel });
    this.back = press("‹", "Previous cycle", () => this.#step(-1));
    this.play = press("▶", "Play", () => this.#toggle());
    this.on = press("›", "Next cycle", () => this.#step(1));
    this.count = el("span", "count", "", { title: "A cycle: the drafter guesses, and one model call checks." });
    const rejected = this.rejected = press("Show", "Show rejected guesses", () => {
      const verb = this.drafter.root.classList.toggle("with-rejected") ? "Hide" : "Show";
      Object.assign(rejected, { textContent: verb, ariaLabel: `${verb} rejected guesses` });
      this.tell();
    });
    rejected.title = "In the text: of each model call, the likeliest guesses that were wrong";
    const seen = (place) => () => this.drafter.view.text.querySelectorAll(place).length;
    this.key = [
      ["accepted", seen(".accepted:not(.confirmed)")], ["rejected", () => this.#wrong],
      ["plain", seen(".first, .bonus:not(.confirmed)")], ["offline", seen(".offline")],
      ["confirmed", seen(".confirmed")], ["changed", seen(".changed")],
    ].map(([kind, counted]) => [add(sample(kind), " ", el("b")), counted]);
    const [right, wrong, own, ...alone] = this.key.map(([node]) => node);
    this.rest = el("small", "", " mostly alternatives", { title: "For each place, at most one guess can be right." });
    add(wrong, this.rest, rejected);
    this.edge = add(el("li", "ends"), el("span", "edge"), " ends a model call");
    const legend = add(el("ul", "legend"), right, wrong, own, this.edge, ...alone);
    return add(el("div", "pacer"), add(el("div", "steps"), this.back, this.play, this.on, this.count), legend);
  }

  // ---- runs come ----

  empty() {
    this.player.pause();
    const { alone, outcome } = this.drafter.view;
    if (alone && outcome) this.mended = outcome; // for a lesson's end, as the next
    if (this.frame.dataset.run === "done" && ahead(this.drafter)) this.ahead = `In your rows of guesses: ${ahead(this.drafter).replace(/^F/, "f")}`;
    Object.assign(this, { measured: null, live: false, shown: null, how: "done", pinned: null, held: null, earlier: 0, mean: "" });
    this.root.dataset.alone = "";
    this.drafter.empty("Press Run: the text appears here.");
    this.plain.empty();
    this.cycle.clear();
    this.#state("empty");
    this.tell();
  }

  /** Plays whole runs: {drafter, plain: lines, measured}. badge: whose they are; at: where to begin;
   *  earlier: calls of the run that it replaces; mean: the gain on other prompts, in words. */
  load({ drafter, plain = [], measured = null }, { badge = "", at = 0, state = "recorded", earlier = 0, mean = "" } = {}) {
    this.empty();
    Object.assign(this, { earlier, mean });
    for (const [name, [head, ...lines]] of Object.entries({ drafter, plain }))
      if (head) this.begin(name, head, { badge, lines });
    this.measured = measured;
    if (state === "recorded") this.rivalry = rivalry(this).replace(/^./, `In the recording, ${this.drafter.head?.label} a`);
    this.#state(state);
    this.player.seek(calm.matches ? Infinity : at);
    if (measured || this.both.every(({ head, ended, whole }) => !head || (ended && whole))) this.#chart();
    else this.charts.clear(this.player.at < Infinity ? "" : "No charts: this run is not complete.");
    if (this.player.at < Infinity) this.player.play();
    else this.#show(this.#best);
    this.tell();
  }

  begin(name, head, how) {
    const { label, method } = head;
    this.lanes[name].begin(head, how);
    if (name === "plain") this.plain.title.textContent = ALONE;
    if (name !== "drafter") return;
    this.#name();
    this.root.dataset.alone = method === "vanilla" ? "yes" : "";
    this.cycle.clear(`${label.split(" N")[0]} is reading the prompt.`);
  }

  // In a lesson, N has a step of its own.
  #name() {
    const { head, title } = this.drafter;
    if (head && head.method !== "vanilla") title.textContent = `${DRAFTED}: ${inClass && stepOf() !== "tli" ? head.label.split(" N=")[0] : head.label}`;
  }

  /** A new run of the visitor's; its lines are shown as they come. most: its tokens at most; coming:
   *  what is said until the first one is there; earlier: calls of the same run before. */
  start(most, { coming = WAITING, earlier = 0 } = {}) {
    this.empty();
    this.outdate("");
    Object.assign(this, { live: true, most, coming, earlier });
    this.player.at = 0;
    this.plain.empty(LATER);
    this.drafter.empty(coming);
    this.drafter.title.textContent = DRAFTED; // whose it is comes with the first line
    this.levels.show([], [], true);
    this.charts.wait("Of the run before: the new charts follow the run.");
    this.#state("live");
    this.tell();
  }

  /** All of a run that is over, and its best cycle. */
  whole() {
    if (this.drafter.root.classList.contains("with-rejected")) this.rejected.click();
    if (this.live || !this.drafter.head) return;
    this.#still();
    this.pinned = this.held = null;
    this.player.seek(Infinity);
    this.#show(this.#best);
    this.#upwards();
    this.#buttons();
  }

  /** A lesson's step begins, with a table of its own. */
  step() {
    this.ran.clear();
    if (!this.live && this.drafter.head) this.levels.show(this.drafter.cycles, this.drafter.all);
  }

  /** A run waits for its turn: said in the headline until its first token, so that nothing moves. */
  waits(words) {
    this.coming = words;
    this.tell();
  }

  /** The connection was cut, or restored: before the first token, only these words tell. */
  turned(cut) {
    this.coming = cut ? "Cut before the first token: the drafter has nothing to go on. Restore it, and cut once words appear." : WAITING;
    this.tell();
  }

  /** A line of a run that is under way. */
  hear(name, line) {
    const lane = this.lanes[name];
    lane.add(line);
    if (!("first" in line) && lane.lines.length > 1) return;
    lane.offset = this.player.at - lane.lines[0].s;
    this.player.play();
  }

  /** Nothing more comes. how: done or stopped. */
  finish(how) {
    Object.assign(this, { live: false, how });
    if (how === "stopped") for (const lane of this.both) lane.draw(Infinity);
    this.#settle();
    this.player.play();
  }

  /** words: why what is shown is not of the present settings; "" for nothing. prompt: that of the box. */
  outdate(words, prompt) {
    this.stale = words;
    const own = this.drafter.head?.prompt;
    this.whose = own && own !== prompt ? `Below are the texts for “${own}”` : "";
    this.tell();
  }

  // ---- drawing ----

  #draw(at) {
    const before = this.drafter.next + this.plain.next;
    for (const lane of this.both) if (lane.head) lane.draw(at - lane.offset);
    if (this.drafter.next + this.plain.next !== before) this.#drawn();
    this.#settle();
    if (this.live || !this.#over) return true;
    if (this.frame.dataset.run === "live") this.#end();
    else if (this.player.playing) this.#upwards();
    if (this.player.playing && this.pinned === null) this.#show(this.#best);
    this.player.playing = false;
    this.#buttons();
    return false;
  }

  #settle() {
    for (const { view } of this.both) view.settle();
  }

  get #over() {
    return this.both.every((lane) => lane.over || (inClass && !lane.root.checkVisibility()));
  }

  // Texts that are over are shown from their start, to be compared; of one that was cut, the words
  // that the target changed stay in sight.
  #upwards() {
    for (const { view } of this.both) if (!view.link) view.text.scrollTop = 0;
    if (this.drafter.view.link) this.plain.view.text.scrollTop = this.drafter.view.text.scrollTop; // to be compared
  }

  #drawn() {
    const newest = this.drafter.cycles.at(-1);
    if (this.pinned === null && this.drafter.root.dataset.link === "lost") this.cycle.clear(ALONE_NOW);
    else if (this.pinned === null && (!this.player.playing || performance.now() - this.#treeAt > TREE)) {
      this.#treeAt = performance.now();
      this.#show(newest);
    }
    if (inClass) this.levels.show(this.drafter.cycles, this.drafter.all, this.live);
    if (inClass && this.live && this.drafter.ended && !this.plain.cycles.length) this.ran.add(this.drafter, null); // its plain run follows
    this.#buttons();
    this.tell();
  }

  #show(line) {
    const best = this.drafter.ended && this.pinned === null && line === this.#best && line?.tree?.path.length > 1 && !["drafting", "verifying"].includes(stepOf());
    const rough = busy(this);
    const plain = this.live || rough ? null : this.plain.ms; // while it runs, it changes
    this.cycle.rough = !this.live && rough;
    if (line) this.cycle.show(line, plain, best ? `Cycle ${line.cycle + 1} of ${this.drafter.all.length}, with the most right guesses.` : undefined);
    else if (this.drafter.head && !this.drafter.calls) this.cycle.clear(`${this.drafter.head.label} is reading the prompt.`);
    else this.cycle.clear();
    this.shown = line ?? null;
    const { text } = this.drafter.view;
    text.querySelector(".asked")?.classList.remove("asked");
    if (line) text.querySelector(`[data-cycle="${line.cycle}"]`)?.classList.add("asked");
  }

  #point(cycle) {
    this.pinned = cycle ?? this.held;
    const all = this.drafter.all;
    const rest = this.drafter.ended ? this.#best : this.drafter.cycles.at(-1);
    this.#show(this.pinned === null ? rest : all[this.pinned - 1]);
    this.#buttons();
  }

  #end() {
    this.#state(this.how);
    if (this.how === "done" && !this.measured) this.#chart();
    else if (!this.measured) this.charts.clear("No charts: this run is not complete.");
    if (this.how !== "done") this.#compare();
    this.#point(this.pinned);
    if (this.pinned === null) this.#upwards(); // else a word was pressed meanwhile
    this.tell();
  }

  // The first cycle of those that kept most guesses, words rather than signs. A lesson's first question is
  // asked of a deep tree, of which not all levels were right, the second of one with the fewest right guesses.
  get #best() {
    const count = ({ tree }) => tree?.path.length ?? Infinity;
    if (stepOf() === "verifying") return this.drafter.cycles.reduce((one, other) => (one && count(one) <= count(other) ? one : other), null);
    const unsure = ({ tree }) => tree?.path.length && tree.path.length < Math.max(...depths(tree));
    const size = ({ tree }) => Math.max(...depths(tree)) + tree.texts.length / 100;
    const early = stepOf() === "drafting" ? this.drafter.cycles.slice(0, EARLY).filter(unsure) : [];
    if (early.length) return early.reduce((one, other) => (size(other) > size(one) ? other : one));
    const kept = ({ tree }) => (tree?.path ?? []).reduce((sum, node) => sum + 1 + /\p{L}/u.test(tree.texts[node]) / 100, 0);
    return this.drafter.cycles.reduce((best, line) => (!best || kept(line) > kept(best) ? line : best), null);
  }

  #state(name) {
    this.frame.dataset.run = name;
    this.#buttons();
  }

  // A lesson compares runs.
  #compare() {
    if (inClass && this.frame.dataset.run !== "recorded" && this.drafter.whole) this.ran.add(this.drafter, busy(this) || this.plain.ms === null);
  }

  #chart() {
    for (const lane of this.both) lane.hush(busy(this));
    this.#compare();
    if (this.measured) {
      const { lanes, about, runs } = this.measured;
      const whose = this.frame.dataset.run === "recorded" ? "Recorded" : "Measured";
      this.charts.show(lanes, `${whose}, median of ${runs} runs each${level(lanes)} · ${about}`);
      return;
    }
    const lanes = this.both.filter(({ head }) => head).map(({ head, tau, points, pause }) => ({ ...head, tau, points, pause }));
    const rival = this.drafter.head?.method === "eagle2" ? "MoA" : "EAGLE\u20112";
    const rough = busy(this) ? " The machine was busy: times are rough." : "";
    this.charts.show(lanes, `One run each, on your prompt.${rough} Measure speed adds ${rival}.`);
  }

  // ---- words ----

  // How many guesses were wrong, and of these, how many the text shows.
  get #wrong() {
    const all = this.drafter.guesses[1];
    const shown = this.drafter.view.text.querySelectorAll(".with-rejected .token.rejected").length;
    return shown && shown < all ? `${shown} of ${all} shown` : all;
  }

  get complete() {
    return this.both.every(({ ended, whole }) => ended && whole);
  }

  /** Whether a drafter that is alone has come to its end, or to the most tokens of the run. */
  get written() {
    return this.drafter.root.dataset.link === "lost" && this.drafter.done(this.most);
  }

  tell() {
    const parts = this.stale ? [this.stale] : headline(this);
    if (this.headline.textContent !== plainly(parts)) this.headline.replaceChildren(...parts);
    this.headline.classList.toggle("before", Boolean(this.stale));
    this.root.classList.toggle("stale", Boolean(this.stale)); // `:has` would cost much at each token
    this.costs.textContent = this.stale ? "" : costs(this);
    const small = this.stale ? [this.whose] : remarks(this);
    this.said.textContent = this.said.title = small.join(" · ");
    const counts = this.key.map(([, counted]) => counted());
    const [, , , alone, , changed] = counts;
    this.key.forEach(([node], at) => {
      node.querySelector("b").textContent = String(counts[at] || "");
      node.hidden = at > 2 && !counts[at];
    });
    // After a cut, the key still has one row.
    const branched = ({ tree }) => tree && new Set(tree.parents).size < tree.parents.length;
    this.rest.hidden = counts.slice(3).some(Boolean) || !this.drafter.cycles.some(branched);
    this.key[1][0].hidden = Boolean(alone || (inClass && changed));
    this.edge.hidden = Boolean(changed);
  }

  // ---- the player ----

  // The cycle that is shown: steps go on from it.
  get #where() {
    return this.shown ? this.shown.cycle + 1 : this.drafter.cycles.length;
  }

  #still() {
    this.player.pause();
    for (const lane of this.both) lane.offset = 0;
  }

  #step(by) {
    const all = this.drafter.all;
    const wanted = Math.min(this.#where + by, all.length);
    this.#still();
    this.pinned = this.held = null;
    if (wanted < 1) this.player.seek(this.drafter.lines[0]?.s ?? 0);
    else this.player.seek(by > 0 && wanted === all.length ? Math.max(...this.seconds) : all[wanted - 1].s);
    this.#drawn();
  }

  #toggle() {
    if (this.player.playing) {
      this.#still();
      this.#drawn(); // the newest tree
    } else {
      this.pinned = this.held = null;
      if (this.#over) this.#still(), this.player.seek(0);
      this.player.play();
    }
    this.#buttons();
  }

  #slowly() {
    const { text } = this.drafter.view;
    const words = text.querySelector(`[data-cycle="${this.shown.cycle}"]`);
    if (words && !this.live) text.scrollTop = words.offsetTop - text.offsetTop - 40;
    const goesOn = this.player.playing && (() => this.#toggle());
    if (!this.live) this.#still();
    const veiled = stepOf() === "drafting"; // its words come with the verdict
    if (veiled) this.veil(true);
    this.cycle.veil(false);
    const after = veiled ? () => this.veil(false) : !this.live && goesOn;
    this.cycle.slowly(words, after);
    this.#buttons();
  }

  #buttons() {
    const all = this.drafter.all.length;
    const plays = this.player.playing;
    this.play.textContent = plays ? "❚❚" : "▶";
    this.play.ariaLabel = plays ? "Pause" : this.#over ? "Replay" : "Resume";
    this.back.disabled = !this.#where;
    this.on.disabled = this.#where >= all;
    this.play.disabled = !all;
    const shown = this.pinned === null && this.drafter.ended ? `${many(all + 1, "call")}: prompt + ${many(all, "cycle")}` : `cycle ${this.#where} of ${all}`;
    this.count.textContent = all ? shown : "";
  }

  #keyed(event) {
    const { key, target } = event;
    const made = { ArrowLeft: this.back, ArrowRight: this.on, " ": this.play }[key];
    if (!made || modified(event) || event.defaultPrevented || !this.headline.checkVisibility()) return;
    if (key !== " " && this.root.closest(".class-mode")) return; // there, they change the step
    if (target.closest?.(key === " " ? `${OWN}, button, a, summary` : OWN)) return;
    event.preventDefault();
    made.click();
  }

  get seconds() {
    return this.both.map(({ seconds }) => seconds);
  }
}
