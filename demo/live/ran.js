// In class: the average time of a token, of each drafter that ran on this prompt, as bars to be compared,
// each with plain decoding's right after it.
import { add, el } from "../common/static/dom.js";
import { bars } from "./cycle.js";

export class Ran {
  constructor() {
    this.root = el("section", "runs bars", "", { ariaLabel: "Runs with each N" });
    this.runs = []; // {recorded, prompt, label, alone, rows: words and milliseconds a token}
  }

  /** A run that is over. alone: milliseconds of plain decoding's call, null if unknown. */
  add({ all, head, ms, tau, view }, alone, recorded) {
    if (ms === null || head.method === "vanilla" || view.link) return; // a cut takes time, too
    const cycles = all.filter((one) => one.ms);
    const mean = [0, 1, 2].map((part) => cycles.reduce((sum, one) => sum + (one.ms[part] ?? 0), 0) / cycles.length);
    const words = `${head.label}${recorded ? " (recorded)" : ""}: ${tau.toFixed(2)} tokens in ${ms.toFixed(0)} ms, of which drafting (blue) takes ${mean[0].toFixed(0)}; a token takes`;
    const alike = (one) => one.recorded === recorded && one.prompt === head.prompt && one.label !== head.label;
    const rows = [[words, mean.map((one) => one / tau)]];
    if (alone !== null) rows.push(["Plain decoding after it: a token takes", [0, alone]]);
    this.runs = [...this.runs.filter(alike), { recorded, prompt: head.prompt, label: head.label, alone, rows }];
    bars(this.root, this.runs.flatMap((one) => one.rows));
    const plain = this.runs.flatMap((one) => one.alone ?? []);
    const changed = plain.length > 1 && Math.max(...plain) > 1.25 * Math.min(...plain);
    if (changed) add(this.root, el("p", "", "The machine’s speed has changed: compare each run with its own plain decoding."));
    else if (!recorded && !this.runs[1]) add(this.root, el("p", "", "Run with another N, too, to compare."));
  }
}
