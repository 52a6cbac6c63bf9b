// In class: what the runs have shown, as bars. The average time of a token, of each drafter that ran on
// this prompt, each with plain decoding's right after it; and how far the guesses were right.
import { add, el, many } from "../common/static/dom.js";
import { bars } from "./cycle.js";

const LEVELS = 5; // that are shown

export class Ran {
  constructor() {
    this.root = el("section", "runs bars", "", { ariaLabel: "Runs so far" });
    this.runs = []; // {recorded, prompt, label, method, alone, rows: words and milliseconds a token}
  }

  /** A run that is over. alone: milliseconds of plain decoding's call, null if unknown. */
  add({ all, head, ms, tau, view }, alone, recorded) {
    if (ms === null || head.method === "vanilla" || view.link) return; // a cut takes time, too
    const cycles = all.filter((one) => one.ms);
    const mean = [0, 1, 2].map((part) => cycles.reduce((sum, one) => sum + (one.ms[part] ?? 0), 0) / cycles.length);
    const words = `${head.label}${recorded ? " (recorded)" : ""}: ${tau.toFixed(2)} tokens in ${ms.toFixed(0)} ms, ${mean[0].toFixed(0)} of it drafting (blue); a token:`;
    const alike = (one) => one.recorded === recorded && one.prompt === head.prompt && one.label !== head.label;
    const rows = [[words, mean.map((one) => one / tau)]];
    if (alone !== null) rows.push(["Plain decoding after it; a token:", [0, alone]]);
    this.runs = [...this.runs.filter(alike), { recorded, prompt: head.prompt, label: head.label, method: head.method, alone, rows }];
    const most = Math.max(...this.runs.flatMap((one) => one.rows.map(([, ms]) => ms.reduce((sum, part) => sum + part))));
    this.root.replaceChildren();
    for (const one of this.runs) { // a step about N shows those with an N alone
      const group = add(this.root, el("div")).lastChild;
      group.dataset.method = one.method;
      bars(group, one.rows, most);
    }
    const plain = this.runs.flatMap((one) => one.alone ?? []);
    const changed = plain.length > 1 && Math.max(...plain) > 1.25 * Math.min(...plain);
    if (changed) add(this.root, el("p", "", "The machine’s speed has changed: compare each run with its own plain decoding."));
    else if (!recorded && !this.runs[1]) add(this.root, el("p", "", "Run another one, too, to compare."));
  }
}

export class Levels {
  constructor() {
    this.root = el("section", "levels bars", "", { ariaLabel: "Guesses that were right, by level" });
  }

  /** cycles: those that are drawn, of all. */
  show(cycles, all) {
    const depth = Math.min(LEVELS, Math.max(1, ...all.map(({ tree }) => tree?.path.length ?? 0)));
    this.root.replaceChildren();
    for (let level = 1; level <= depth; level += 1) {
      const right = cycles.filter(({ tree }) => (tree?.path.length ?? 0) >= level).length;
      const track = add(el("div", "track"), el("span", "bar right"));
      track.firstChild.style.width = `${(100 * right) / Math.max(1, all.length)}%`;
      add(this.root, add(el("p"), `Level ${level}: a guess was right in `, el("b", "", `${right} of ${many(cycles.length, "call")}`)), track);
    }
  }
}
