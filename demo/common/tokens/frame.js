// The live token view. `element`, `props` and `watch` come from gradio; this runs once, at mount.
// The value is lines of JSON and only grows (view.py lists the lines).
const root = element.firstElementChild;
const details = new WeakMap(); // token element -> its tooltip's content
let current = null; // the token that Tab reaches; arrow keys move from it

// ---- the frame: text, player, legend, tip ----

const legend = tokenLegend(moreSample(), sample("unjudged", "guess, not checked yet"));
const tools = button("quiet-button tools", "Hide rejected", () => {
  tools.textContent = root.classList.toggle("no-rejected") ? "Show rejected" : "Hide rejected";
});
const called = "Decoded text, token by token. Arrow keys move between tokens.";
const text = el("div", "text", "", { role: "group", ariaLabel: called });
const tip = tipBox();
const body = add(el("div", "body"), text);
const pacer = add(el("div", "pacer"), tools);
add(root, body, add(el("div", "foot"), pacer, legend), tip);
