// In class: what the runs have shown. A table of the drafters that ran on one prompt in one step, and how
// far their guesses were right.
import { add, el, many } from "../common/static/dom.js";
import { stepOf } from "../common/static/page.js";

const LEVELS = 5; // of the row that a call guesses
const HEADS = ["", "tokens a call", "ms a call", "of which drafting", "ms a token"];
const BUSY = "–: not told, since the machine was busy, or plain decoding did not run to its end. Compare the tokens a call.";

export class Ran {
  #recorded = null;

  constructor() {
    this.root = el("section", "runs", "", { ariaLabel: "Runs so far" });
    this.clear();
  }

  clear() {
    this.runs = []; // {prompt, row, guesses: of a call}, the newest of each drafter
    this.#draw();
  }

  /** recorded: rows of a benchmark, with a name, which stand below those of the class; or null. */
  recall(recorded) {
    this.#recorded = recorded;
    this.#draw();
  }

  /** A run that is over. busy: whether other work disturbed its times, or nobody knows; null until its
   *  plain run tells. */
  add({ all, head, ms, tau, view }, busy) {
    if (ms === null || head.method === "vanilla" || view.link) return; // a cut takes time, too
    const cycles = all.filter((one) => one.ms);
    const drafting = cycles.reduce((sum, one) => sum + one.ms[0], 0) / cycles.length;
    const times = [ms, drafting, ms / tau].map((one) => (busy === null ? "…" : busy ? "–" : one.toFixed(0)));
    const guesses = Math.max(...cycles.map(({ tree }) => (tree?.texts.length ?? 1) - 1));
    const row = [head.label, tau.toFixed(2), ...times];
    this.runs = [...this.runs.filter((one) => one.prompt === head.prompt && one.row[0] !== row[0]), { prompt: head.prompt, row, guesses }];
    this.#draw();
  }

  #draw() {
    const line = (cells, kind) => add(el("tr"), ...cells.map((words) => el(kind, "", words)));
    const named = ([name, ...cells]) => line([stepOf() === "tli" ? name : name.split(" N=")[0], ...cells], "td");
    const about = (words) => add(el("tr"), el("th", "", words, { colSpan: HEADS.length }));
    const ran = this.runs.map(({ row }) => named(row));
    const { name, rows } = this.#recorded ?? { rows: [] };
    const recorded = rows.map(named);
    if (name) recorded.unshift(about(name));
    if (name && ran.length) ran.unshift(about(`Your runs: this prompt, ${many(this.runs[0].guesses, "guess", "guesses")} a call.`));
    if (ran.length || name) this.root.replaceChildren(add(el("table"), line(HEADS, "th"), ...ran, ...recorded));
    else this.root.replaceChildren(el("p", "", "Run them: what each gains and costs comes here."));
    if (this.runs.some(({ row: cells }) => cells.at(-1) === "–")) add(this.root, el("p", "", BUSY));
  }
}

export class Levels {
  constructor() {
    this.root = el("section", "levels bars", "", { ariaLabel: "Guesses that were right, by their place in the row" });
  }

  /** cycles: those that are drawn, of all; live: whether more come. */
  show(cycles, all, live = false) {
    this.root.replaceChildren();
    const full = ({ tree }) => tree?.parents.length === LEVELS + 1 && tree.parents.every((parent, node) => parent === node - 1);
    if (!cycles.length || !all.slice(0, 3).every(full)) return add(this.root, el("p", "", live ? "The counts come here." : "Press Run: the counts come here."));
    for (let place = 1; place <= LEVELS; place += 1) {
      const right = cycles.filter(({ tree }) => (tree?.path.length ?? 0) >= place).length;
      const track = add(el("div", "track"), el("span", "bar right"));
      track.firstChild.style.width = `${(100 * right) / cycles.length}%`;
      add(this.root, add(el("p"), place === 1 ? "First guess right: " : `First ${place} right: `, el("b", "", `${right} of ${many(cycles.length, "call")}`)), track);
    }
  }
}
