// One drafter in this browser: its text, its figures.
import { add, el, many } from "../common/static/dom.js";
import { Lane, unfolding, unsteady } from "../common/race/lane.js";
import { ENDINGS, legendOf, reviewed } from "../common/tokens/view.js";
import { Device } from "../device/js/device.js";
import { join, show as showBar } from "./bar.js";

const median = (values) => [...values].sort((one, other) => one - other)[values.length >> 1];
const CUT = ["offline", "confirmed", "changed"]; // marks that only a cut brings
export const amount = (count) => count < 1e3 ? `${count.toFixed(0)} B` : (count < 1e6 ? `${(count / 1e3).toFixed(1)} kB` : `${(count / 1e6).toFixed(1)} MB`);

/** props.lane: its place; props.recorded: JSON of the lines of a run to begin with. */
export function mount({ element, props }) {
  const root = element.firstElementChild;
  const lane = new DeviceLane(root, props.lane);
  const edge = add(el("li"), el("span", "edge"), " ends a round trip");
  const { view } = lane.shown;
  add(lane.key, edge, add(el("li"), unfolding(root, "Show whole text", () => view.edge())));
  root.prepend(lane.shown.root, lane.key);
  join(lane, props.lane);
  const recorded = JSON.parse(props.recorded);
  if (recorded) lane.play(recorded);
}

class DeviceLane {
  constructor(box, place) {
    Object.assign(this, { box, state: "idle", said: "", share: null, sums: null, loaded: null });
    this.device = new Device((event) => this.#hear(event));
    this.shown = new Lane(place ? "rival" : "drafter", "Drafter");
    this.shown.unit = "round trip";
    this.key = legendOf("accepted", "plain", ...CUT);
    this.#explain();
    this.notes = new Map([...box.querySelectorAll("[data-figure]")].map((node) => [node, node.nextElementSibling.textContent]));
  }

  /** A recorded run, until the first press: its text and its figures over a link. */
  play([{ run, label, prompt }, ...lines]) {
    this.box.querySelector(".told span").textContent = prompt;
    this.shown.begin({ run, label }, { badge: "recorded, with a cut", lines });
    this.shown.draw(Infinity);
    this.box.classList.add("recorded");
    this.#explain();
    this.shown.view.settle();
    const { text } = this.shown.view;
    const healed = text.querySelector(".changed"); // what a cut does comes into sight, below whole lines
    new ResizeObserver((_, watcher) => {
      if (!text.clientHeight) return; // its tab is not open
      watcher.disconnect();
      const line = parseFloat(getComputedStyle(text).lineHeight);
      if (healed?.isConnected) text.scrollTop = line * Math.round((healed.offsetTop - text.offsetTop) / line - 3);
    }).observe(text);
    const { alone, confirmed, changed } = this.#offline;
    this.#figure("tau", (this.shown.tau ?? 0).toFixed(2), "in this run, with its cut, after the prompt");
    this.#figure("alone", String(alone), `recorded; ${confirmed} kept, ${changed} replaced`);
  }

  choose(name, title) {
    if (name === this.device.name) return;
    this.#settle();
    Object.assign(this, { title, state: "idle", said: "", share: null });
    if (this.shown.head && this.shown.head.label !== title) this.#clear();
    this.shown.title.textContent = title;
    this.device.choose(name);
  }

  /** It is seen no more: its drafter ends, and a run with it. */
  leave() {
    this.#settle();
    this.device.leave();
  }

  // Of the marks of a cut, those that are in the text.
  #explain() {
    for (const kind of CUT)
      this.key.querySelector(`.${kind}`).closest("li").hidden = !this.shown.view.text.querySelector(`.${kind}`);
  }

  #clear() {
    this.shown.empty(); // the style sheet says what comes here
    this.box.classList.remove("recorded");
    this.#explain();
    for (const [node, note] of this.notes) [node.textContent, node.nextElementSibling.textContent] = ["–", note];
  }

  /** Resolves when the drafter is here, or cannot be. */
  load() {
    const { device } = this;
    if (device.ready || !device.name) return null;
    return new Promise((done) => {
      this.loaded = done;
      device.load();
    });
  }

  #settle() {
    this.loaded?.();
    this.loaded = null;
  }

  start(asked) {
    Object.assign(this, { state: "running", patience: asked.patience / 1000, most: asked.count });
    this.sums = { trips: [], works: [], target: 0, levels: [], first: null, bytes: null };
    this.#clear();
    this.shown.begin({ run: String(performance.now()), label: this.title }, { arrival: true });
    this.device.tell("run", asked);
    this.#say("The target reads the prompt.");
  }

  #hear(data) {
    if (data.line) {
      this.shown.add(data.line);
      this.shown.draw(Infinity);
      this.#explain();
      this.shown.view.settle();
    }
    this[`on_${data.type.replace(" ", "_")}`]?.(data);
  }

  on_facts() {
    if (this.loaded) this.device.load(); // it was asked for before it was known
    showBar();
  }

  on_progress({ bytes }) {
    this.#say(`Downloading the drafter: ${amount(bytes)} of ${amount(this.device.bytes)}.`, this.device.share);
  }

  on_ready() {
    this.#say("");
    this.#settle();
  }

  on_failed({ words }) {
    this.state = "failed";
    this.#settle();
    if (this.sums) this.shown.root.dataset.state = "done";
    this.#say(words);
  }

  on_prefilled({ bytes, seconds, worked }) {
    Object.assign(this.sums, { first: bytes, bytes, target: worked });
    this.sums.trips.push(1000 * Math.max(seconds - worked, 0));
    this.#say("");
  }

  on_drafted({ seconds, levels, offline }) {
    if (!offline) this.sums.levels.push((1000 * seconds) / levels);
  }

  on_verified({ seconds, worked, bytes }) {
    const { sums } = this;
    sums.works.push(worked);
    sums.target += worked;
    if (this.state === "running") sums.trips.push(1000 * Math.max(seconds - worked, 0));
    sums.bytes = bytes;
    if (!this.#offline.waits) {
      if (this.state === "back") this.#say(this.#healed);
      this.state = "running";
    }
    this.#tell();
  }

  // Tokens written offline, and what became of them.
  get #offline() {
    const sum = (of) => this.shown.drawn.reduce((total, line) => total + (of(line) ?? 0), 0);
    const [alone, confirmed, changed] = [sum((line) => "offline" in line), sum((line) => line.confirmed), sum((line) => line.changed)];
    return { alone, confirmed, changed, waits: alone - confirmed - changed };
  }

  on_link_down() {
    this.state = "lost";
    this.#say("The connection is cut: the drafter writes on alone. Restore it, and the target checks this text.");
    clearInterval(this.ticks);
    this.ticks = setInterval(() => this.#wait(), 500);
  }

  /** The switch is on again: the link is still to come. */
  mend() {
    clearInterval(this.ticks);
    if (this.state === "lost") this.#say("Reconnecting …");
  }

  on_offline_token() {
    this.wrote = performance.now();
    this.#tell();
  }

  // Once a drafter that is alone has come to its end, the run waits for the link, but not for ever.
  #wait() {
    if (this.state !== "lost") return clearInterval(this.ticks);
    const { waits } = this.#offline;
    const waited = (performance.now() - this.wrote) / 1000;
    const left = Math.max(0, this.patience - waited);
    const ended = waits && this.shown.done(this.most);
    if (ended || (waits && waited > 2)) this.#say(`The drafter ${ended ? this.shown.atEnd : "can write no more"}: ${many(waits, "token")} written alone. Restore the connection within ${left.toFixed(0)} s, else the run ends.`);
  }

  on_link_back({ tokens }) {
    this.state = tokens ? "back" : "running";
    this.#say(tokens ? `The connection is back: the target checks ${many(tokens, "token")} written alone.` : "The connection is back.");
  }

  on_finished({ line }) {
    this.state = "done";
    const { confirmed, changed, waits } = this.#offline;
    const { calls, seconds, pace: [count] } = this.shown;
    const said = [`${many(calls, "round trip")}${waits ? ` for ${many(count, "token")} that the target checked` : ` instead of ${count}; every word is the target’s`}.`];
    if (confirmed + changed) said.push(this.#healed);
    else if (!waits) said.push(`On the way: about ${this.#way.toFixed(1)} of ${seconds.toFixed(1)} s; the rest in the models.`);
    if (waits) said.push(`Written alone and never checked: ${many(waits, "more token")}. Run again, and restore the connection sooner.`);
    said.push(`${ENDINGS[line.end].replace(/^./, (letter) => letter.toUpperCase())}.`);
    this.#tell();
    this.#say(said.join(" "));
  }

  /** Of a run of one's own so far: round trips, seconds in the target and in the drafter, the target's
   *  for one check (undefined before the first) and its guesses, round trips without a drafter, one for
   *  each token, and whether the server was busy with other work. */
  get needed() {
    const { calls, seconds, pace: [count] } = this.shown;
    if (!this.sums || !calls) return [];
    const { works, target } = this.sums;
    const drafting = Math.max(0, seconds - this.#way - target);
    const guesses = median(this.shown.cycles.map(({ tree }) => (tree?.texts.length ?? 1) - 1));
    return [{ name: this.title, calls, count, target, drafting, check: median(works), guesses, busy: unsteady(works) }];
  }

  // Seconds on the way so far.
  get #way() {
    return this.sums.trips.reduce((sum, one) => sum + one, 0) / 1000;
  }

  get #healed() {
    const { confirmed, changed } = this.#offline;
    return reviewed(confirmed, changed);
  }

  #say(words, share = null) {
    Object.assign(this, { said: words, share });
    showBar();
  }

  #figure(name, value, note) {
    const node = this.box.querySelector(`[data-figure="${name}"].value`);
    node.textContent = value;
    if (note) node.nextElementSibling.textContent = note;
  }

  #tell() {
    const { trips, levels, first, bytes } = this.sums;
    const { tau, pace: [tokens], cycles: { length: cycles } } = this.shown;
    const { alone, confirmed, changed, waits } = this.#offline;
    showBar();
    if (levels.length > 1) this.#figure("level", `${median(levels.slice(1)).toFixed(1)} ms`);
    if (alone) this.#figure("alone", String(alone), `${confirmed} kept, ${changed} replaced${waits ? `, ${waits} not checked yet` : ""}`);
    if (!cycles) return;
    const more = tokens - 1;
    const [up, down] = ["sent", "received"].map((way) => bytes[way] - first[way]);
    if (trips.length) this.#figure("trip", `${median(trips).toFixed(0)} ms`);
    this.#figure("tau", tau.toFixed(2));
    this.#figure("up", amount(up / more), `the guesses; ${amount(up / cycles)} per round trip`);
    this.#figure("down", amount(down / more), `what the drafter reads from the target; ${amount(down / cycles)} per round trip, prompt included`);
  }
}
