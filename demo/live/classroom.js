// Class mode (?class=1): the lesson's steps, one at a time, above the stage.
import { add, button, clamped, el, modified, OWN } from "../common/static/dom.js";
import { summary } from "./headline.js";
import { follow, outside, settled, staged } from "./run.js";

const KEYS = { PageDown: 1, ArrowRight: 1, PageUp: -1, ArrowLeft: -1 }; // those of a clicker, too

const END = {
  id: "end", title: "What we saw", ask: "Write your answer first, then press Show answer.", task: "For numbers of your own, press Run, then Measure speed.", question: "In your own words: what makes it faster, and what does it cost?", pictures: [],
  answer: "Checking several guesses in one call takes less time than a call for each, so right guesses save time. Guessing takes time and memory, and each guess makes the call longer: with few right guesses, it does not pay.",
};

/** given: {title, ask, task, question, answer, pictures, recorded} of each step, as demo/lesson/tab.py brings them. */
export function classroom(header, given) {
  const steps = [...given, END];
  const words = el("div", "", "", { ariaLive: "polite" });
  const picture = el("figure", "class-picture");
  const show = (by, answered = false) => {
    at = clamped(at + by, steps);
    const step = steps[at];
    header.closest(".class-mode").dataset.step = step.id; // the style sheet shows what each is about
    history.replaceState(history.state, "", `#${at + 1}`); // a reload goes on with the step
    const begins = by || !told.textContent; // else its answer is shown or hidden
    if (begins) settled(step.id);
    const name = el("b", "", `${at + 1} of ${steps.length}, ${step.title}. `);
    const asked = answered ? step.task : `${step.ask} ${step.task}${about()}`;
    words.replaceChildren(add(el("small"), name, `${asked} `, answered ? el("b", "", step.question) : ""));
    words.append(answered ? el("p", "answer", here() + step.answer) : el("p", "", step.question));
    staged()?.ran.recall((answered && step.recorded) || null);
    if (step === END && answered) {
      const recorded = document.querySelector("#stage").dataset.run === "recorded" && el("p", "", "Of the recording, until you press Run:");
      picture.replaceChildren(recorded || "", add(el("ol"), ...(staged() ? summary(staged()) : []).map((line) => el("li", "", line))));
    } else draw(step.pictures);
    if (picture.firstChild) document.querySelector("#view .lanes")?.append(picture);
    else picture.remove();
    [back.disabled, on.disabled] = [!at, at === steps.length - 1];
    if (begins) staged()?.veil(!at); // the first question is about the tree, which would answer it
    told.textContent = answered ? "Hide answer" : "Show answer";
  };
  // The first step has no box of the prompt, which would invite another question.
  const about = () => (!at && staged()?.drafter.head ? ` Prompt: “${staged().drafter.head.prompt}”` : "");
  const here = () => (!at && staged()?.cycle.levels ? `Here, at most ${staged().cycle.levels}. ` : "");
  let chosen = 0; // N
  const draw = (pictures) => {
    picture.innerHTML = pictures[Math.min(chosen, pictures.length - 1)] ?? ""; // the lesson's own
  };
  follow(({ tli }) => {
    if (tli === chosen) return;
    chosen = tli;
    if (steps[at] !== END) draw(steps[at].pictures);
  });
  const [back, on, told] = [
    ["Back", () => show(-1)], ["Next step →", () => show(1)], ["", () => show(0, told.textContent === "Show answer")],
  ].map(([name, act]) => button("quiet-button", name, act));
  let at = clamped(Number(window.location.hash.slice(1)) - 1 || 0, steps);
  const leave = el("a", "link", "Exit class mode", { href: outside() });
  leave.addEventListener("click", () => (leave.href = outside()));
  const bar = add(el("nav", "class-steps", "", { ariaLabel: "Lesson" }), words, add(el("span"), back, on, told, leave));
  add(header, bar);
  // A longer answer takes its room from the stage, whose end stays on the screen.
  new ResizeObserver(() => document.documentElement.style.setProperty("--lesson", `${bar.offsetHeight}px`)).observe(bar);
  show(0);
  // What was seen is of the newest run.
  const anew = ([{ target }]) => steps[at] === END && told.textContent === "Hide answer" && target.dataset.run === "done" && show(0, true);
  new MutationObserver(anew).observe(document.body, { subtree: true, attributeFilter: ["data-run"] });
  document.addEventListener("keydown", (event) => {
    if (!(event.key in KEYS) || modified(event) || event.defaultPrevented || event.target.closest?.(OWN)) return;
    event.preventDefault();
    show(KEYS[event.key]);
  });
  // A page that the browser has kept begins anew, too.
  window.addEventListener("pageshow", ({ persisted }) => persisted && (show(-at), staged()?.veil(true)));
}
