// The connection: its state, the cut, and the download that lets the drafter write in this browser.
import { add, button, el } from "../common/static/dom.js";

const HERE = {
  none: ({ words }) => words || "A cut is simulated: both models are on the server.",
  "not loaded": ({ advice }) => advice,
  loading: ({ share }) => `The drafter comes into this browser: ${Math.floor(100 * share)} %.`,
  ready: () => "The drafter is ready in this browser.",
  offline: () => "The drafter writes alone, in this browser.",
};

export class Cut {
  /** act: what its buttons do: {turn, ask, fetch}. */
  constructor(root, act) {
    this.turn = button("cut-button", "", act.turn, { id: "cut" });
    this.turn.setAttribute("aria-describedby", "cut-state"); // not announced: the headline tells of a cut
    this.state = el("p", "cut-state", "", { id: "cut-state" });
    this.here = el("span");
    this.more = button("link", "", () => (this.sized ? act.fetch() : act.ask()), { id: "enable-offline" });
    add(root, this.turn, add(el("div"), this.state, add(el("p", "cut-here"), this.here, " ", this.more)));
  }

  /** up: the server is there; cut, armed, running: of the run; late: only plain decoding is still running;
   *  back: it was cut until now; device: of this browser;
   *  left: seconds that the run still waits, once the drafter has come to its end. */
  show({ up, cut, armed, running, late, back, able, device, left }) {
    const { state, words } = device;
    this.turn.textContent = cut ? "Restore the connection" : armed && !running ? "Cancel the cut" : late ? "✂ Cut the next run" : "✂ Cut the connection";
    this.turn.disabled = !able || (!up && !cut);
    this.turn.dataset.state = !up ? "lost" : cut ? "cut" : armed ? "armed" : late ? "late" : "up";
    this.state.textContent = !able
      ? "It cannot be cut: this method cannot write alone."
      : !up ? "The server cannot be reached; trying again."
      : cut ? left === null ? "Cut. Restore it, and the target checks the words." : `Cut. Restore it within ${left} s, else the run ends.`
      : armed ? `${late ? "This run’s drafter has finished. " : ""}It will be cut about 12 tokens into ${running ? "this" : "the next"} run.`
      : late ? "This run’s drafter has finished: only the next run can be cut."
      : back ? "Restored. The target is about to check what was written alone."
      : "Cut it, and the drafter writes on alone, checked later.";
    this.sized = state === "not loaded";
    const elsewhere = cut && running && state !== "offline";
    this.here.textContent = elsewhere ? "Simulated: the drafter runs on the server." : HERE[state](device);
    const asks = state === "none" && able && (!words ? "Run the drafter in this browser" : device.away && "Try again");
    this.more.textContent = this.sized ? (device.left ? "Download it" : "Open it") : asks || "";
  }
}
