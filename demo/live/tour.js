// A tour of the stage, a minute long: what is where, each with a frame around it.
import { add, button, el, putBeside } from "../common/static/dom.js";
import { inClass, mount as mountPage, onNextTab, openTab } from "../common/static/page.js";
import { classroom } from "./classroom.js";

const PLACES = [
  ["#ask", "A small drafter guesses several words ahead, and a larger model, the target, checks all the guesses at once. Write a prompt, or choose an example, and press Run."],
  [".lane[data-lane=drafter]", "The drafter’s run, in real time. Underlined: words that were guessed right; the others are the target’s own."],
  [".lane[data-lane=plain]", "Plain decoding of the same prompt: one model call for each word. It runs after the drafter, so that neither slows the other."],
  ["#view .headline", "How many model calls were saved, and whether the text is the same. A run of your own has a button, Measure speed, which repeats it several times: a single run says little."],
  ["[data-stage=tree]", "One cycle: the drafter guesses a tree of words, and one model call checks it. The longest path that agrees is kept, plus one word from the target. The bars show where its time goes."],
  ["#how", "Choose another drafter, or the number N of target layers that MoA borrows. With more, guesses may get better, but each takes longer."],
  ["#cut", "Cut the connection while text streams: the drafter writes on alone. When the target is back, it checks the text."],
];

export function mount(given) {
  mountPage(given);
  const { element, props } = given;
  if (inClass) classroom(element.querySelector("header"), props.steps);
  const words = el("p", "", "", { ariaLive: "polite" });
  const step = el("span", "count");
  const card = el("div", "tip tour", "", { role: "dialog", ariaLabel: "Tour" });
  const earlier = button("quiet-button", "Back", () => visit(at - 1));
  const later = button("quiet-button", "Next", () => visit(at + 1));
  const close = button("quiet-button", "Close", leave);
  add(card, words, add(el("div"), earlier, step, later, close));
  const screen = { getBoundingClientRect: () => new DOMRect(0, 0, window.innerWidth, window.innerHeight) };
  let at = -1;

  const here = () => document.querySelector(PLACES[at]?.[0]);

  function visit(place) {
    here()?.classList.remove("tour-here");
    at = place;
    const spot = here();
    if (!spot?.checkVisibility()) return leave();
    spot.classList.add("tour-here");
    words.textContent = PLACES[at][1];
    step.textContent = `${at + 1} of ${PLACES.length}`;
    earlier.disabled = !at;
    close.hidden = at + 1 === PLACES.length;
    later.textContent = close.hidden ? "Done" : "Next";
    spot.scrollIntoView({ block: "nearest" });
    putBeside(card, screen, spot.getBoundingClientRect());
  }

  function leave() {
    here()?.classList.remove("tour-here");
    at = -1;
    card.remove();
    element.querySelector("#tour").focus();
  }

  function begin() {
    element.append(card); // within the page's styles
    visit(0);
    later.focus();
  }

  element.querySelector("#tour").addEventListener("click", () => {
    if (here()) return leave();
    if (document.querySelector("#stage").checkVisibility()) return begin();
    onNextTab(() => setTimeout(begin, 100));
    openTab({ tab: "live" });
  });
  card.addEventListener("keydown", (event) => event.key === "Escape" && leave());
}
