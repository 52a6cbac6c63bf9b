// One drafter in this browser: its text, its figures.
import { many } from "../common/static/dom.js";
import { Lane } from "../common/race/lane.js";
import { ENDINGS, reviewed } from "../common/tokens/view.js";
import { Device } from "../device/js/device.js";
import { join, show as showBar } from "./bar.js";

const base = new URL("device", document.baseURI).href;
const median = (values) => [...values].sort((one, other) => one - other)[values.length >> 1];
export const amount = (count) => count < 1e3 ? `${count.toFixed(0)} B` : (count < 1e6 ? `${(count / 1e3).toFixed(1)} kB` : `${(count / 1e6).toFixed(1)} MB`);

/** props.lane: its place; props.recorded: lines of a run to begin with. */
export function mount({ element, props }) {
  const root = element.firstElementChild;
  const lane = new DeviceLane(root, props.lane);
  root.prepend(lane.shown.root);
  join(lane, props.lane);
  if (props.recorded) lane.play(props.recorded);
}

class DeviceLane {
  constructor(box, place) {
    Object.assign(this, { box, state: "idle", said: "", share: null, text: "", sums: null, loaded: null });
    this.device = new Device(base, (event) => this.#hear(event));
    this.shown = new Lane(place ? "rival" : "drafter", "Drafter");
    this.notes = new Map([...box.querySelectorAll("[data-figure]")].map((node) => [node, node.nextElementSibling.textContent]));
  }

  /** A recorded run, until the first press: its text and its figures over a link. */
  play({ lines, figures }) {
    this.#begin(lines[0], "recorded");
    for (const line of lines.slice(1)) this.shown.add({ ...line });
    this.shown.draw(Infinity);
    this.#figure("tau", (this.shown.tau ?? 0).toFixed(2));
    for (const [name, [value, note]] of Object.entries(figures)) this.#figure(name, value, note);
    for (const [node] of this.notes) node.parentNode.classList.toggle("unknown", node.textContent === "–");
  }

  choose(name, title) {
    if (name === this.device.name) return;
    this.#settle();
    Object.assign(this, { title, state: "idle", said: "", share: null });
    if (this.shown.head && this.shown.head.label !== title) this.#clear();
    this.shown.title.textContent = title;
    this.device.choose(name);
  }

  #clear() {
    this.shown.empty(); // the style sheet says what comes here
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
    this.state = "running";
    this.sums = { trips: [], levels: [], cycles: 0, tokens: 0, confirmed: 0, changed: 0, alone: 0, first: null, bytes: null };
    this.#clear();
    this.#begin({ run: String(performance.now()), label: this.title });
    this.device.run(asked);
  }

  #begin(head, badge = "") {
    this.shown.begin(head, { badge, arrival: !badge });
  }

  #hear(data) {
    if (data.line) {
      this.shown.add({ ...data.line });
      this.shown.draw(Infinity);
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
    if (!this.device.missing) this.device.name = ""; // the next press looks it up anew
    this.#settle();
    if (this.sums) this.shown.root.dataset.state = "done";
    this.#say(words);
  }

  on_prefilled({ bytes }) {
    Object.assign(this.sums, { first: bytes, bytes, tokens: 1 });
    this.#say("");
  }

  on_drafted({ seconds, levels, offline }) {
    if (!offline) this.sums.levels.push((1000 * seconds) / levels);
  }

  on_verified({ seconds, worked, emitted, bytes, line, parted }) {
    const { sums } = this;
    if (this.state === "running") sums.trips.push(1000 * Math.max(seconds - worked, 0));
    sums.cycles += 1;
    sums.tokens += emitted.length;
    sums.confirmed += line.confirmed ?? 0;
    sums.changed += line.changed ?? 0;
    sums.bytes = bytes;
    const waiting = sums.alone - sums.confirmed - sums.changed;
    if (this.state === "back" && waiting <= 0) this.#say(this.#healed(parted));
    if (waiting <= 0) this.state = "running";
    this.#tell();
  }

  on_link_down() {
    this.state = "lost";
    this.shown.hold(true);
    this.#say("The link is lost: the drafter writes on alone, in this browser.");
  }

  on_offline_token() {
    this.sums.alone += 1;
    this.#tell();
  }

  on_link_back({ tokens }) {
    this.state = tokens ? "back" : "running";
    this.shown.hold(false);
    this.#say(tokens ? `The link is back: the target checks ${many(tokens, "offline token")}.` : "The link is back.");
  }

  on_finished({ line, parted }) {
    const { sums } = this;
    this.state = "done";
    this.text = this.shown.view.written;
    const left = sums.alone - sums.confirmed - sums.changed;
    const count = sums.tokens + left; // plain decoding needs a round trip for each
    const said = [`${many(count, "token")} in ${many(sums.cycles + 1, "round trip")} instead of ${count}; ${ENDINGS[line.end]}.`];
    if (sums.confirmed + sums.changed) said.push(this.#healed(parted));
    if (left) said.push(`The last ${many(left, "token")} were written offline and not verified.`);
    this.#tell();
    this.#say(said.join(" "));
  }

  #healed(parted) {
    const { confirmed, changed } = this.sums;
    return reviewed(confirmed, changed, parted && changed ? `, from token ${parted.at} on` : "");
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
    const { trips, levels, cycles, tokens, first, bytes, alone, confirmed, changed } = this.sums;
    if (levels.length > 1) this.#figure("level", `${median(levels.slice(1)).toFixed(1)} ms`);
    if (!cycles) return;
    const more = tokens - 1;
    const [up, down] = ["sent", "received"].map((way) => bytes[way] - first[way]);
    if (trips.length) this.#figure("trip", `${median(trips).toFixed(0)} ms`);
    this.#figure("tau", this.shown.tau.toFixed(2));
    this.#figure("up", amount(up / more), `the guesses; ${amount(up / cycles)} per cycle`);
    this.#figure("down", amount(down / more), `what the drafter reads from the target; ${amount(down / cycles)} per cycle, prompt included`);
    const waits = alone - confirmed - changed;
    if (alone) this.#figure("alone", String(alone), `${confirmed} confirmed, ${changed} changed${waits ? `, ${waits} not verified yet` : ""}`);
  }
}
