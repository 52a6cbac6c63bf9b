// In class: the average time of a token, of each drafter that ran on this prompt, as bars to be compared.
import { add, el } from "../common/static/dom.js";
import { bars } from "./cycle.js";

export class Ran {
  constructor() {
    this.root = el("section", "runs bars", "", { ariaLabel: "Runs with each N" });
    this.runs = []; // {recorded, prompt, label, row: words and milliseconds a token}
  }

  /** A run that is over. alone: milliseconds of plain decoding's call, null if unknown. */
  add({ all, head, ms, tau, view }, alone, recorded) {
    if (ms === null || head.method === "vanilla" || view.link) return; // a cut takes time, too
    const cycles = all.filter((one) => one.ms);
    const mean = [0, 1, 2].map((part) => cycles.reduce((sum, one) => sum + (one.ms[part] ?? 0), 0) / cycles.length);
    const words = `${head.label}${recorded ? " (recorded)" : ""}: ${tau.toFixed(2)} tokens in ${ms.toFixed(0)} ms, of which drafting (blue) takes ${mean[0].toFixed(0)}; a token takes`;
    const alike = (one) => one.recorded === recorded && one.prompt === head.prompt && one.label !== head.label;
    this.runs = [...this.runs.filter(alike), { recorded, prompt: head.prompt, label: head.label, row: [words, mean.map((one) => one / tau)] }];
    const plain = alone === null ? [] : [["Plain decoding: a token takes", [0, alone]]];
    bars(this.root, [...this.runs.map(({ row }) => row), ...plain]);
    if (!recorded && !this.runs[1]) add(this.root, el("p", "", "Run with another N, too, to compare."));
  }
}
