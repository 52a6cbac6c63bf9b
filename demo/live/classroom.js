// Class mode (?class=1): the lesson's steps, one at a time, above the stage.
import { add, button, el } from "../common/static/dom.js";

/** steps: [title, what to do or ask]. */
export function classroom(header, steps) {
  const words = el("p", "", "", { ariaLive: "polite" });
  const show = (by) => {
    at = Math.max(0, Math.min(steps.length - 1, at + by));
    const [title, ask] = steps[at];
    words.replaceChildren(el("b", "", `${at + 1} of ${steps.length}, ${title}. `), ask);
    [back.disabled, on.disabled] = [!at, at === steps.length - 1];
  };
  const back = button("quiet-button", "‹", () => show(-1), { ariaLabel: "Step before" });
  const on = button("quiet-button", "›", () => show(1), { ariaLabel: "Next step" });
  let at = 0;
  add(header, add(el("nav", "class-steps", "", { ariaLabel: "Lesson" }), back, words, on, el("a", "link", "Exit class mode", { href: "?tab=live" })));
  show(0);
  // A page that the browser has kept begins anew, too.
  window.addEventListener("pageshow", ({ persisted }) => persisted && show(-at));
}
