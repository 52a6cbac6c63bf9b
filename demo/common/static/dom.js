// What the views share. Loaded before them into one scope (demo/common/theme.py, script). Everything that a
// model or a person wrote goes in through textContent.
const SVG = "http://www.w3.org/2000/svg";
const calm = window.matchMedia("(prefers-reduced-motion: reduce)");

function el(tag, className, text) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text !== undefined) node.textContent = text;
  return node;
}

function add(parent, ...children) {
  parent.append(...children);
  return parent;
}

function shape(tag, attributes, text) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text !== undefined) node.textContent = text;
  return node;
}

function button(className, text, act) {
  const made = Object.assign(el("button", className, text), { type: "button" });
  made.addEventListener("click", act);
  return made;
}

const row = (tag, ...cells) => add(el("tr"), ...cells.map((cell) => el(tag, "", cell)));

// Pairs of a name and a value, as a list.
function pairList(pairs) {
  const list = el("dl");
  for (const [name, value] of pairs) add(list, el("dt", "", name), el("dd", "", value));
  return list;
}

const quoted = (piece) =>
  piece === "\ufffd" ? "part of a character" : `“${piece.replaceAll("\n", "↵")}”`;
const many = (count, word) => `${count} ${word}${count === 1 ? "" : "s"}`;

// ---- the tip: what is known of the token or node that is pointed at ----

function tipBox() {
  const tip = Object.assign(el("div", "tip"), { hidden: true });
  tip.id = `tip-${Math.random().toString(36).slice(2)}`;
  tip.setAttribute("role", "tooltip");
  return tip;
}

// Below a rectangle of the screen, or above it where there is no room; inside the frame.
function putBeside(tip, frame, spot) {
  const around = frame.getBoundingClientRect();
  const left = Math.min(spot.left - around.left, around.width - tip.offsetWidth - 4);
  const fits = spot.bottom + tip.offsetHeight + 16 < window.innerHeight;
  const top = fits ? spot.bottom + 8 : spot.top - tip.offsetHeight - 8;
  tip.style.left = `${Math.max(left, 4)}px`;
  tip.style.top = `${top - around.top}px`;
}
