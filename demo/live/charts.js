// The stage's two charts, always against EAGLE-2: tokens per target call, seconds until each token.
// A lane is {method, label, colour, tau, points: [[tokens, seconds]]}.
import { add, el, shape } from "../common/static/dom.js";

const WIDE = 300;
const HIGH = 118;
const DASHES = { vanilla: "2 3", eagle2: "6 4" };

const letters = (lanes) => 6.3 * Math.max(...lanes.map(({ label }) => label.length)); // the widest label

const text = (x, y, words, more = {}) => shape("text", { x, y, ...more }, words);

function chart(id, title, words) {
  const svg = shape("svg", { viewBox: `0 0 ${WIDE} ${HIGH}`, role: "img", "aria-label": `${title}: ${words}.` });
  const root = add(el("figure", "chart", "", { id: `chart-${id}` }), el("figcaption", "", title), svg);
  return [root, svg];
}

function acceptance(lanes) {
  const known = lanes.filter(({ tau }) => tau);
  const most = Math.max(2.5, ...known.map(({ tau }) => tau)); // bars of two runs can be compared
  const words = known.map(({ label, tau }) => `${label} ${tau.toFixed(2)}`).join(", ");
  const [root, svg] = chart("acceptance", "Acceptance length τ: tokens per call", words);
  const high = Math.min(26, (HIGH - 8) / known.length - 6);
  const left = Math.max(86, letters(known));
  known.forEach(({ label, colour, tau }, at) => {
    const y = 6 + at * (high + 6);
    const middle = y + high / 2 + 4;
    svg.append(text(left, middle, label.replace("-", "\u2011"), { "text-anchor": "end" }));
    const rect = shape("rect", { x: left + 6, y, width: (110 * tau) / most, height: high, rx: 3, fill: colour });
    svg.append(rect, text(left + 12 + (110 * tau) / most, middle, tau.toFixed(2), { class: "value" }));
  });
  return root;
}

function latency(lanes) {
  const known = lanes.filter(({ points }) => points.length > 1);
  const ends = known.map(({ points }) => points.at(-1));
  const [most, longest] = [0, 1].map((axis) => Math.max(...ends.map((end) => end[axis])));
  const words = known.map(({ label }, at) => `${label} ${ends[at][1].toFixed(2)} s`).join(", ");
  const [root, svg] = chart("latency", "Latency: seconds until each token", words);
  const right = WIDE - Math.max(86, letters(known));
  const x = (tokens) => 26 + ((right - 26) * tokens) / most;
  const y = (seconds) => HIGH - 18 - ((HIGH - 28) * seconds) / longest;
  const axes = shape("path", { class: "axis", d: `M ${x(0)} ${y(longest)} V ${y(0)} H ${x(most)}` });
  svg.append(axes, text(0, 12, `${longest.toFixed(longest < 10 ? 1 : 0)} s`), text(x(most), HIGH - 3, `${most} tokens`, { "text-anchor": "end" }));
  // Names stand at the ends of their lines, apart from each other.
  const heights = ends.map(([, seconds]) => y(seconds) + 4);
  const order = [...heights.keys()].sort((one, other) => heights[one] - heights[other]);
  order.slice(1).forEach((at, place) => (heights[at] = Math.max(heights[at], heights[order[place]] + 14)));
  const below = Math.max(0, Math.max(...heights) - (HIGH - 6));
  const path = (points) => points.map(([tokens, seconds]) => `${x(tokens)} ${y(seconds)}`).join(" L ");
  known.forEach(({ label, colour, points, method, pause = [] }, at) => {
    svg.append(shape("path", { class: "line", d: `M ${x(0)} ${y(0)} L ${path(points)}`, stroke: colour, "stroke-dasharray": DASHES[method] ?? "" }));
    if (pause.length) {
      svg.append(shape("path", { class: "line cut-off", d: `M ${path(pause)}` }));
      svg.append(text(x(pause[1][0]) + 4, y((pause[0][1] + pause[1][1]) / 2) + 4, "cut", { class: "cut-off" }));
    }
    svg.append(text(x(most) + 5, heights[at] - below, label.replace("-", "\u2011"), { fill: colour, class: "end" }));
  });
  return root;
}

export class Charts {
  constructor() {
    this.note = el("p", "about");
    this.box = el("div", "two");
    this.root = add(el("section", "charts", "", { ariaLabel: "Charts", id: "charts" }), this.box, this.note);
  }

  clear(words) {
    this.box.replaceChildren();
    this.note.textContent = words;
  }

  /** Those of the run before stay, dimmed. */
  wait(words) {
    this.box.classList.add("before");
    this.note.textContent = this.box.firstChild ? words : "";
  }

  show(lanes, about) {
    const drawn = lanes.some(({ tau }) => tau) ? [acceptance(lanes)] : [];
    if (lanes.some(({ points }) => points.length > 1)) drawn.push(latency(lanes));
    this.box.classList.remove("before");
    this.box.replaceChildren(...drawn);
    this.note.textContent = about;
  }
}
