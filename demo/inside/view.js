// Moving between the cycles of a trace. `props.trace` is the JSON of demo/inside/view.py, `props.value`
// the place of the cycle that is shown.
import { add, button, clamped, el, many, quoted, tipBox } from "../common/static/dom.js";
import { onTab } from "../common/static/page.js";
import { legendOf, mark } from "../common/tokens/view.js";
import { staged, wantedCycle } from "../live/run.js";
import { Pointed } from "./pointed.js";
import { sentence } from "./words.js";

const SHOWN = 240; // characters of text before the cycle
const mean = (cycles) => (cycles.reduce((sum, { emitted }) => sum + emitted, 0) / cycles.length).toFixed(2);

function took({ ms }) {
  const [draft, verify] = ms.map((one) => `${one.toFixed(1)} ms`);
  return `${draft} to draft, ${verify} to verify.`;
}

export function mount({ element, props, watch, trigger }) {
  const root = element.firstElementChild;
  let trace = null;
  let place = 0;
  let looked = null; // the place whose attention was asked for
  let pressed = wantedCycle(); // the cycle of a word of the stage, whose press may have opened this tab first

  // ---- the frame: controls, text, tree, figures ----

  const step = (words, ariaLabel, by) =>
    button("quiet-button", words, () => show(place + by), { ariaLabel });
  const back = step("‹", "Previous cycle", -1);
  const on = step("›", "Next cycle", 1);
  const slider = el("input", "", "", { type: "range", min: 1, step: 1, ariaLabel: "Cycle" });
  const count = el("output", "count", "", { ariaLive: "polite" });
  let templated = false; // whether the chat template's words around the prompt are shown
  const plain = (prompt) => prompt.replace(/^[^]*<\|im_start\|>user\n/, "").replace(/<\|im_end\|>[^]*$/, "\n");
  const template = button("quiet-button", "Chat template", () => {
    template.ariaPressed = templated = !templated;
    show(place);
    if (templated) before.scrollTop = 0; // where the prompt is
  }, { ariaPressed: false });
  const controls = add(el("div", "controls"), back, on, slider, count, template);
  const about = el("p", "hint");
  const said = el("p", "sentence");
  const called = "The end of the text, with the tokens that this cycle added";
  const before = el("div", "text", "", { role: "group", ariaLabel: called, tabIndex: 0 });

  const legend = add(
    legendOf(["accepted", "accepted guess"], ["rejected", "rejected guess"], ["bonus", "the target’s own"], ["root", "root: the newest token"]),
    el("li", "", "Percentages: the drafter’s; on orange tokens, the target’s"),
  );
  const tip = tipBox();
  const own = new Pointed(root, tip, "own tree draft-tree");
  const other = new Pointed(root, tip, "tree draft-tree");
  const beside = el("p", "sentence");
  const rival = add(el("div", "rival"), beside, other.box);
  own.tree.refill(() => trace && show(place));
  const doing = matchMedia("(hover: none)").matches ? "Tap a guess" : "Point at a guess, or use Tab and the arrow keys,";
  const hint = el("p", "hint", `${doing} to see its probabilities.`);
  const claim = el("p", "conclusion");
  const idea = el("p", "hint");
  const pair = add(el("div", "pair"), add(el("div"), said, own.box, hint), rival);
  add(root, claim, idea, controls, before, legend, pair, about, tip);

  // ---- one cycle ----

  function marked(kind, token, piece) {
    const made = el("span", `token ${kind}`);
    mark(made, trace.special.includes(token) ? trace.texts[token] : piece || "·");
    return made;
  }

  // The end of the text before the root; then the root, and what the cycle added.
  function paintText(cycle) {
    const prompt = [...(templated ? trace.prompt : plain(trace.prompt))];
    const written = [...trace.output.slice(0, cycle.before - 1).join("")];
    const room = templated ? Infinity : Math.max(SHOWN - written.length, 0);
    const asked = room ? prompt.slice(-room).join("") : "";
    const long = written.length > SHOWN; // then it begins with a whole word
    const cut = !long && prompt.length > room ? "…" : "";
    const told = long ? written.slice(-SHOWN).join("").replace(/^\S*\s+/, "… ") : written.join("");
    const pieces = trace.output.slice(cycle.before, cycle.before + cycle.emitted);
    const marks = pieces.map((piece, order) =>
      order < cycle.path.length
        ? marked("accepted", cycle.tokens[cycle.path[order]], piece)
        : marked("bonus", cycle.bonus, piece),
    );
    const newest = marked("root", cycle.tokens[0], trace.output[cycle.before - 1] ?? "");
    before.replaceChildren(el("span", "asked", cut + asked), told, newest, ...marks);
    before.scrollTop = before.scrollHeight;
  }

  // Another method's cycle at the same place of the same text: the one that wrote the token after it.
  // Returns what it gained, if it begins there, too.
  function paintRival({ at }) {
    const { method, cycles, texts } = trace.rival;
    const same = cycles.findLastIndex((cycle) => cycle.at <= at);
    const cycle = cycles[Math.max(same, 0)];
    const earlier = at - cycle.at;
    const begun = earlier ? `began ${many(earlier, "token")} earlier in the text` : "begins at the same token";
    const words = `${method}’s cycle ${same + 1} ${begun}: ${sentence(cycle, texts)}`;
    beside.textContent = `${words} ${took(cycle)}`;
    other.show(cycle, texts, `${method}’s draft tree`);
    return earlier ? "" : ` and ${method} gains ${cycle.emitted}`;
  }

  function show(wanted) {
    place = clamped(wanted, trace.cycles);
    const cycle = trace.cycles[place];
    const words = sentence(cycle, trace.texts);
    slider.value = place + 1;
    slider.setAttribute("aria-valuetext", `Cycle ${place + 1}: ${words}`);
    count.textContent = `Cycle ${place + 1} of ${trace.cycles.length}`;
    said.textContent = `${trace.method}: ${words} ${took(cycle)}`;
    paintText(cycle);
    own.show(cycle, trace.texts, "Draft tree");
    const theirs = trace.rival ? paintRival(cycle) : "";
    const means = [trace, ...(trace.rival ? [trace.rival] : [])].map(({ method, cycles }) => `${method} ${mean(cycles)}`);
    claim.textContent = `In one call of the target, ${trace.method} gains ${many(cycle.emitted, "token")}${theirs} (on average over this text: ${means.join(", ")}).`;
    pale();
    root.dataset.cycle = String(place);
    props.value = place; // the server asks for it when it looks inside the drafter
  }

  // ---- moving ----

  slider.addEventListener("input", () => show(Number(slider.value) - 1));
  const pale = () => document.querySelector("#inside-found")?.classList.toggle("before", place !== looked);
  document.addEventListener("click", ({ target }) => {
    if (!target.closest?.("#inside-look")) return;
    looked = place; // what is found below is of this cycle
    pale();
  });

  // ---- a trace comes, the tab is opened ----

  function load() {
    trace = props.trace ? JSON.parse(props.trace) : null;
    root.hidden = !trace || !trace.cycles.length;
    root.dataset.run = trace ? trace.run : "";
    if (root.hidden) return;
    const cycles = many(trace.cycles.length, "cycle");
    if (!trace.rival?.cycles.length) trace.rival = null;
    const opened = trace.rival ? (pressed === null ? " It opened at a cycle where the two differ most, not at a typical one." : "") : " It opened at the cycle that Live showed. To see another drafter’s tree beside it, press Measure speed in Live after a run.";
    idea.textContent = `${cycles}, and the call for the prompt. In each, the drafter guesses a tree of tokens, and one call of the target keeps the path that it would write itself.${opened}`;
    about.textContent = `${trace.about}; prompt ${quoted(plain(trace.prompt).trim())}`;
    slider.max = trace.cycles.length;
    pair.classList.toggle("alone", !trace.rival);
    rival.hidden = !trace.rival;
    const told = telling();
    show(pressed ?? told);
    pressed = null;
  }

  // A cycle in which only words were accepted, and some drafts were not: of those that the other method
  // begins at the same token, the one where they differ most; without another method, Live's.
  function telling() {
    const words = ({ path, tokens }, { texts }) => path.filter((node) => /\p{L}/u.test(texts[tokens[node]])).length;
    const shows = (cycle) => {
      const { path, tokens } = cycle;
      return path.length > 1 && words(cycle, trace) === path.length && path.length < tokens.length - 1;
    };
    if (!trace.rival) return staged()?.shown?.cycle ?? 0;
    const theirs = new Map(trace.rival.cycles.map((cycle) => [cycle.at, words(cycle, trace.rival)]));
    const apart = trace.cycles.map((cycle) =>
      !shows(cycle) ? -2 : theirs.has(cycle.at) ? Math.abs(words(cycle, trace) - theirs.get(cycle.at)) : -1);
    return apart.indexOf(Math.max(...apart));
  }

  onTab((tab) => {
    if (tab !== "inside") return;
    pressed = wantedCycle();
    if (pressed !== null && trace) show(pressed);
    trigger("shown");
  });
  trigger("shown");
  watch("trace", load);
  load();
}
