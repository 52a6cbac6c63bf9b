// The live token view. `element`, `props` and `watch` come from gradio; this runs once, at mount.
// The value is lines of JSON and only grows (demo/trace_view.py lists the lines).
const root = element.firstElementChild;
const details = new WeakMap(); // token element -> what its tip says
let current = null; // the token that Tab reaches; arrow keys move on from it

// ---- the frame: legend, text, tip, figures ----

const legend = add(
  el("ul", "legend"),
  add(el("li"), add(el("span", "token accepted"), el("span", "mark", "accepted draft"))),
  add(el("li"), add(el("del", "token rejected"), el("span", "mark", "rejected draft"))),
  add(el("li"), add(el("span", "token bonus"), el("span", "mark", "bonus: the target’s own"))),
  add(el("li"), el("span", "more", "+7"), " more rejected nodes"),
  add(el("li"), el("span", "edge"), "one cycle", el("span", "edge")),
);
const toggle = Object.assign(el("input"), { type: "checkbox", checked: true });
const copy = button("quiet-button", "Copy text", copyText);
const tools = add(el("div", "tools"), add(el("label", "toggle"), toggle, "Show rejected"), copy);
const bar = add(el("div", "bar"), legend, tools);
const text = el("div", "text");
text.setAttribute("role", "group");
text.setAttribute("aria-label", "Decoded text, token by token. Arrow keys move between tokens.");
const hint = el("p", "hint", "Choose an example or write a prompt, then press Run.");
const tip = tipBox();
const pacer = el("div", "pacer"); // the buttons of slow motion
const tiles = el("dl", "tiles");
add(root, bar, add(text, hint), pacer, tip, tiles);
toggle.addEventListener("change", () => root.classList.toggle("no-rejected", !toggle.checked));

// The decoded text alone: what was accepted, no rejected drafts and no marks.
function written() {
  const kept = text.cloneNode(true);
  for (const extra of kept.querySelectorAll(".rejected, .more, .break, .hint, .special, .partial"))
    extra.remove();
  return kept.textContent;
}

async function copyText() {
  try {
    await navigator.clipboard.writeText(written());
    copy.textContent = "Copied";
  } catch {
    copy.textContent = "The browser did not allow it";
  }
  setTimeout(() => (copy.textContent = "Copy text"), 2000);
}

// A figure of the run: its name, its value and what is to be known of it. The figures are another
// file's, one for runs here and one for runs over a link.
function tile(name, note) {
  const value = el("dd", "value", "–");
  const small = el("dd", "note", note);
  add(tiles, add(el("div", "tile"), el("dt", "", name), value, small));
  return { value, small, note };
}

function blank(one, words) {
  one.value.textContent = "–";
  one.small.textContent = words;
  one.small.classList.remove("warning");
}
