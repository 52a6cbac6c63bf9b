// ---- a tour of the stage, a minute long: what is where, each with a frame around it ----

const PLACES = [
  ["#ask", "A small drafter guesses several tokens ahead, and a large target checks all the guesses at once. Write a prompt, or choose an example."],
  ["#run", "Run decodes your prompt while you watch."],
  ["#view .text", "Underlined: guesses that the target accepted. Struck out: guesses that it rejected. Boxed: the target’s own tokens."],
  ["[data-stage=tree]", "In each cycle, the drafter guesses a tree of tokens. One target call checks the whole tree. The longest path that agrees is kept, plus one token from the target, the bonus."],
  ["#how", "MoA can also use the target’s last N layers (TLI): more guesses are right, but each takes longer. Under Method, you can choose EAGLE-2 or plain decoding instead."],
  ["#connection", "Cut the connection while text streams: the drafter continues alone. When the target is back, it corrects the text."],
  ["#view .headline", "After a run, EAGLE-2 and plain decoding get the same prompt. This line says how much faster your run was, whether the text is the same, and how many tokens a target call gains (τ). The charts below show more."],
];
const words = el("p", "", "", { ariaLive: "polite" });
const step = el("span", "count");
const card = el("div", "tip tour", "", { role: "dialog", ariaLabel: "Tour" });
const earlier = button("quiet-button", "‹", () => visit(at - 1), { ariaLabel: "Back" });
const later = button("quiet-button", "Next", () => visit(at + 1));
add(card, words, add(el("div"), earlier, step, later, button("quiet-button", "Close", leave)));
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
  later.textContent = at + 1 < PLACES.length ? "Next" : "Done";
  spot.scrollIntoView({ block: "nearest" });
  putBeside(card, screen, spot.getBoundingClientRect());
}

function leave() {
  here()?.classList.remove("tour-here");
  at = -1;
  card.remove();
  document.querySelector("#tour").focus();
}

function begin_tour() {
  element.append(card); // within the page's styles
  visit(0);
  later.focus();
}

element.querySelector("#tour").addEventListener("click", () => {
  if (here()) return leave();
  if (document.querySelector("#stage").checkVisibility()) return begin_tour();
  window.addEventListener("tab-opened", () => setTimeout(begin_tour, 100), { once: true });
  window.dispatchEvent(new CustomEvent("open-tab", { detail: { tab: "live" } }));
});
card.addEventListener("keydown", (event) => event.key === "Escape" && leave());
