// The measurement of a run's speed: its button, then its progress and Cancel.
import { button, el } from "../common/static/dom.js";

export class Speed {
  /** act: what its buttons do: {measure, cancel}. */
  constructor(root, act) {
    Object.assign(this, { root, act, bar: null });
  }

  /** seconds: how long a measurement would take; null: none can be asked for. */
  offer(seconds) {
    this.bar = null;
    const words = `Measure speed, about ${seconds} s`;
    this.#fill(...(seconds === null ? [] : [button("quiet-button", words, this.act.measure, { id: "measure" })]));
  }

  progress(step, share) {
    if (!this.bar) {
      [this.words, this.begun] = [el("span"), performance.now()];
      this.bar = el("progress", "", "", { max: 1, ariaLabel: "Measuring speed" });
      this.#fill(this.words, this.bar, button("quiet-button", "Cancel", this.act.cancel, { id: "measure-cancel" }));
    }
    const left = ((performance.now() - this.begun) / 1000) * (1 / share - 1);
    const told = share > 0.1 ? `, about ${left.toFixed(0)} s left` : "";
    this.words.textContent = `Measuring speed: ${step}${told}`;
    this.bar.value = share;
  }

  #fill(...nodes) {
    const had = this.root.contains(document.activeElement);
    this.root.replaceChildren(...nodes);
    if (had) (this.root.querySelector("button") ?? document.querySelector("#run")).focus({ preventScroll: true });
  }
}
