// One method's run: its text as it was written, and its figures.
import { add, button, el, many } from "../static/dom.js";
import { TokenView } from "../tokens/view.js";

export const figure = (name, value, words) => {
  const made = el("b", "", words);
  made.dataset.figure = name;
  made.dataset.value = String(value);
  return made;
};

const WHOLE = ["eos", "length", "context"]; // endings of complete runs, which can be compared

export const perSecond = (rate) => rate.toFixed(rate < 10 ? 1 : 0);

// Tokens of a line.
const written = ({ accepted = [], bonus, first }) => accepted.length + (bonus || first ? 1 : 0);

/** Whether other work disturbed calls of one kind: the slow ones took 1.9 times as long as the quick ones,
 *  of five the fourth and the second. */
export function unsteady(times) {
  const sorted = [...times].sort((one, other) => one - other);
  const at = (share) => sorted[Math.round(share * (sorted.length - 1))];
  return sorted.length > 4 && at(0.8) / at(0.2) > 1.9;
}

export class Lane {
  unit = "model call"; // what is counted beside the tokens

  /** name: its hook; events: those of its TokenView. */
  constructor(name, title, events = {}) {
    this.root = el("section", "lane token-view", "", { ariaLabel: title });
    this.root.dataset.lane = name;
    this.title = el("span", "name", title);
    this.badge = el("span", "badge", "", { hidden: true });
    this.state = el("span", "state");
    add(this.root, add(el("h3"), this.title, this.badge, this.state));
    const ariaLabel = `Text by ${title}, token by token. Arrow keys move between tokens.`;
    this.view = new TokenView(this.root, { ariaLabel, ...events });
    this.empty();
  }

  /** words: said in place of a text. */
  empty(words = "") {
    Object.assign(this, { head: null, lines: [], next: 0, offset: 0, ended: null, held: null, without: "", hushed: false });
    this.view.clear();
    this.root.dataset.state = "empty";
    this.badge.hidden = true;
    this.state.textContent = words;
  }

  /** A new run. arrival: its lines have no times, so those when they come count; lines: if it is over. */
  begin(head, { badge = "", arrival = false, lines = [] } = {}) {
    this.empty();
    Object.assign(this, { head, arrival, began: performance.now() });
    this.title.textContent = head.label;
    this.root.dataset.id = head.run;
    if (head.colour) this.root.style.setProperty("--lane", head.colour);
    [this.badge.textContent, this.badge.hidden] = [badge, !badge];
    this.root.dataset.state = "running";
    for (const line of lines) this.add(line);
  }

  // While its link is lost, its time stands still.
  #hold(lost) {
    const now = performance.now();
    if (lost) this.held ??= now;
    else if (this.held !== null) {
      Object.assign(this, { began: this.began + now - this.held, held: null, without: " online" });
    }
  }

  add(line) {
    if (this.arrival && ("down" in line || "back" in line)) this.#hold("down" in line);
    const last = this.lines.at(-1)?.s ?? 0;
    const s = this.arrival ? ((this.held ?? performance.now()) - this.began) / 1000 : last;
    this.lines.push({ s, ...line });
  }

  /** Draws all that is due at this second; the caller then lets `view.settle` scroll to it. */
  draw(at) {
    if (this.lines[this.next - 1]?.s > at) this.#rewind();
    const from = this.next;
    while (this.lines[this.next]?.s <= at) this.next += 1;
    const atOnce = !from && this.next === this.lines.length;
    if (this.next > from) this.view.take(this.lines.slice(from, this.next), atOnce);
    if (this.next > from || at === 0) this.#tell();
  }

  #rewind() {
    this.next = 0;
    this.view.clear();
    this.root.dataset.state = "running";
  }

  #tell() {
    const last = this.drawn.at(-1);
    this.ended = last && "end" in last ? last : null;
    this.root.dataset.state = this.ended ? "done" : "running";
    const [tokens, own] = this.pace;
    const parts = [`${many(tokens, "token")} in `, figure("calls", this.calls, many(this.calls, this.unit))];
    if (own && !this.hushed) parts.push(" · ", figure("rate", own, perSecond(own)), ` tokens/s${this.without}`);
    this.state.replaceChildren(...parts);
  }

  get drawn() {
    return this.lines.slice(0, this.next);
  }

  /** Whether its speed is not told, because other work disturbed it. */
  hush(on) {
    this.hushed = on;
    if (this.head) this.#tell();
  }

  /** Drawn cycles, and all of them. */
  get cycles() {
    return this.drawn.filter((line) => "cycle" in line);
  }

  /** Whether its run came to an end of its own. */
  get whole() {
    return WHOLE.includes(this.lines.at(-1)?.end);
  }

  get all() {
    return this.lines.filter((line) => "cycle" in line);
  }

  /** Target calls so far: the prompt’s, and one for each cycle. */
  get calls() {
    return this.cycles.length + Number(this.drawn.some((line) => "first" in line));
  }

  /** Tokens so far, and tokens per second, the prompt’s call included. */
  get pace() {
    const [tokens, seconds] = this.points.at(-1) ?? [0, 0];
    return [tokens, seconds > 0 && tokens > 1 ? tokens / seconds : null];
  }

  /** Whether a drafter that is alone has come to its end, or to the most tokens of the run. */
  done(most) {
    const { at, offline } = this.drawn.at(-1);
    return Boolean(offline?.[3]) || at - this.drawn.find((line) => "first" in line)?.at + 1 >= most;
  }

  /** Why it then writes no more. */
  get atEnd() {
    return this.drawn.at(-1)?.offline?.[3] ? "has ended its answer" : "has reached the run’s length";
  }

  /** Tokens per call after the prompt’s. */
  get tau() {
    const lengths = this.cycles.map(written);
    return lengths.length ? lengths.reduce((sum, one) => sum + one) / lengths.length : null;
  }

  /** How many guesses were accepted and written, and how many rejected; of what was written alone, none. */
  get guesses() {
    const drafted = this.cycles.filter(({ tree, confirmed, changed }) => tree && !confirmed && !changed);
    const sum = (of) => drafted.reduce((all, line) => all + of(line), 0);
    return [sum(({ accepted }) => accepted.length), sum(({ tree: { texts, path } }) => texts.length - 1 - path.length)];
  }

  // [drafting, verifying, the rest] of each cycle but those that had to check what was written alone.
  get #timed() {
    return this.all.flatMap(({ ms, confirmed, changed }) => (ms && !confirmed && !changed ? [ms] : []));
  }

  /** Milliseconds of an average cycle; null where fewer than two were timed. */
  get ms() {
    const times = this.#timed;
    return times.length < 2 ? null : times.flat().reduce((sum, one) => sum + one) / times.length;
  }

  get unsteady() {
    return unsteady(this.#timed.map(([, verifying]) => verifying));
  }

  /** [tokens, seconds] after each line, as the chart of times has them. */
  get points() {
    let tokens = 0;
    return this.drawn.filter((line) => written(line)).map((line) => [(tokens += written(line)), line.s]);
  }

  /** Of `points`, those around its first cut; empty without one. */
  get pause() {
    const down = this.drawn.find((line) => "down" in line)?.s;
    const after = this.points.findIndex(([, seconds]) => seconds > down);
    return after > 0 ? this.points.slice(after - 1, after + 1) : [];
  }

  get seconds() {
    return this.lines.at(-1)?.s ?? 0;
  }

  /** Whether all lines are drawn, the last one included. */
  get over() {
    return !this.head || Boolean(this.ended);
  }
}

/** A press that shows all of the texts in a box, and then less of them again; pressed: told of it. */
export function unfolding(box, words, pressed) {
  const press = button("quiet-button unfolds", words, () => {
    press.textContent = box.classList.toggle("long") ? "Show less" : words;
    pressed();
  });
  return press;
}

const touch = window.matchMedia("(hover: none)");

/** Lets whole texts scroll together, so that they can be compared. */
export function together(lanes) {
  const room = ({ view: { text } }) => text.scrollHeight - text.clientHeight;
  let [leads, until] = [null, 0]; // a finger's lane, and when another may lead
  for (const one of lanes)
    one.view.text.addEventListener("scroll", ({ target, timeStamp }) => {
      if (leads !== one && timeStamp < until) return;
      if (!(touch.matches || target.matches(":hover, :focus-within")) || !lanes.every(({ over }) => over)) return;
      [leads, until] = [one, timeStamp + 200];
      const share = target.scrollTop / Math.max(1, room(one));
      for (const other of lanes) if (other !== one) other.view.text.scrollTop = share * room(other);
    });
}
