// Shared by the views. All text of models and visitors goes in through textContent.
const SVG = "http://www.w3.org/2000/svg";
export const calm = window.matchMedia("(prefers-reduced-motion: reduce)");
/** What uses keys itself. */
export const OWN = "input, textarea, select, [role=tab], [role=radio], [role=slider], [contenteditable]";

// more: properties, including ARIA's.
export function el(tag, className, text, more) {
  const node = Object.assign(document.createElement(tag), more);
  if (className) node.className = className;
  if (text !== undefined) node.textContent = text;
  return node;
}

export function add(parent, ...children) {
  parent.append(...children);
  return parent;
}

export function withAttributes(node, attributes) {
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  return node;
}

export function shape(tag, attributes, text) {
  const node = withAttributes(document.createElementNS(SVG, tag), attributes);
  if (text !== undefined) node.textContent = text;
  return node;
}

export const button = (className, text, onclick, more) =>
  el("button", className, text, { type: "button", onclick, ...more });

// A list of name-value pairs.
export const pairList = (pairs) =>
  add(el("dl"), ...pairs.flatMap(([name, value]) => [el("dt", "", name), el("dd", "", value)]));

export const quoted = (piece) =>
  piece === "\ufffd" ? "part of a character" : `“${piece.replace(/^ +(?=\S)/, "").replaceAll("\n", "↵")}”`;
/** Whether a special token ends a text: no reader needs its spelling. */
export const ends = (piece) => /^<\|?\/?(im_end|endoftext|end_of_text|eot_id|eos|s)\|?>$/.test(piece);
export const many = (count, word, words = `${word}s`) => `${count} ${count === 1 ? word : words}`;

// ---- the tooltip of a token or node ----

export function tipBox() {
  const id = `tip-${Math.random().toString(36).slice(2)}`;
  return el("div", "tip", "", { id, role: "tooltip", hidden: true });
}

/** Whether a key is pressed that gives another one, or a click, its own meaning. */
export const modified = (event) => event.altKey || event.ctrlKey || event.metaKey || event.shiftKey;

const STEPS = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity };

/** What a pressed key leads to, from one of all; undefined if nowhere. The page does not scroll then. */
export function stepped(event, all, from) {
  const by = STEPS[event.key];
  if (by) event.preventDefault();
  return by && all[clamped(all.indexOf(from) + by, all)];
}

/** A place in a list that has one. */
export const clamped = (place, { length }) => Math.max(0, Math.min(length - 1, place));

// Below a rectangle of the screen, or above it, or at the screen's end if there is no room; inside the frame.
export function putBeside(tip, frame, spot) {
  const around = frame.getBoundingClientRect();
  const left = Math.min(spot.left - around.left, around.width - tip.offsetWidth - 4);
  const fits = spot.bottom + tip.offsetHeight + 16 < window.innerHeight;
  const above = spot.top - tip.offsetHeight - 8;
  const top = fits ? spot.bottom + 8 : above > 0 ? above : window.innerHeight - tip.offsetHeight - 8;
  tip.style.left = `${Math.max(left, 4)}px`;
  tip.style.top = `${top - around.top}px`;
}
