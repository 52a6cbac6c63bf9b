// The settings of a run: as gradio tells them, and as this browser is told when it drafts.
import { inClass, stepOf } from "../common/static/page.js";

const NAMES = ["target", "prompt", "method", "tli", "auto_tree", "depth", "breadth", "budget", "tokens", "temperature", "top_p", "seed"];
const PATIENCE = inClass ? 600 : 60; // seconds that it waits for the connection
const [TREES, ROWS] = [[4, 3, 5], [5, 1, 5]].map(([depth, breadth, budget]) => ({ depth, breadth, budget }));
const READ = 1000 / 15; // ms for a token that is written alone: to be read, and to be joined again

/** The settings, in the order in which gradio tells them. */
export const named = (list) => Object.fromEntries(NAMES.map((name, at) => [name, list[at]]));
export const methodOf = ({ method, tli }) => (method === "moa" ? `moa-n${tli}` : method);

/** What is run: in a lesson, trees of one size, so that only N changes and a run can be repeated, or rows
 *  in the step that asks how far guesses are right. */
export const sent = (settings) => (inClass ? { ...settings, auto_tree: false, ...(stepOf() === "training" ? ROWS : TREES) } : settings);

/** The head of the run's lines, and its order to the device. ids: the prompt's; cutAt: tokens until the cut. */
export function order(device, settings, ids, cutAt) {
  const { method, tli, prompt, temperature, top_p, seed } = settings;
  const { depth, breadth, budget } = settings.auto_tree ? device.tree : settings; // no tree sizes itself here
  const label = `${document.querySelector("#method input").value}${method === "moa" ? ` N=${tli}` : ""}`;
  const head = {
    run: String(Date.now()), method: methodOf(settings), label, prompt, colour: `var(--${method}-mark)`,
    by: `${label}, tree ${depth}-${breadth}-${budget}, drafted in this browser`, patience: PATIENCE,
  };
  const asked = {
    cutAt, pause: READ, patience: 1000 * PATIENCE, prompt: ids, count: settings.tokens,
    tree: { depth, breadth, budget }, sampling: { temperature, top_p, seed, top_k: 0 },
  };
  return [head, asked];
}
