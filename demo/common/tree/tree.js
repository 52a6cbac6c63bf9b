import { ends, shape, withAttributes } from "../static/dom.js";

// One cycle's draft tree as SVG. The accepted path with the bonus token after it is the top row, so
// that it reads as text; a first child stands on its parent's row, its siblings below. Where that is
// too wide, each node has a row of its own, set in by its level, the accepted path first.
// row: px from one row to the next; box: height of a node; gap: between two levels; top: room for the
// levels' names, 0 for none; longest: characters of a token that are drawn; numbers: with odds; whose: words before the target's.
export const WIDE = { row: 30, box: 24, gap: 20, top: 28, longest: 16, font: 13, pad: 9, numbers: true, whose: "target " };
export const SMALL = { row: 25, box: 20, gap: 16, top: 0, longest: 12, font: 12, pad: 6, numbers: false, whose: "" };
const LEAST = 11; // px of letters: smaller ones are hard to read
const IN = [4, 22]; // px by which a level is set in, least and most
const FAMILY = "IBM Plex Sans"; // of the letters, to measure them
const pen = document.createElement("canvas").getContext("2d");

// The space before a word is the gap before its box; other white space is made visible.
function visible(piece) {
  if (ends(piece)) return "end";
  const shown = piece.replace(/^ (?=\S)/, "").replaceAll("\n", "↵").replaceAll("\t", "⇥");
  return shown.replace(/^ +| +$/g, (spaces) => "␣".repeat(spaces.length)) || "∅";
}

function short(piece, longest) {
  const shown = [...visible(piece)];
  return shown.length > longest ? `${shown.slice(0, longest - 1).join("")}…` : shown.join("");
}

// Small ones with a decimal, so that the smallest can be told from the others.
const rounded = (whole) => `${(whole / 100).toFixed(whole > 0 && whole < 995 ? 1 : 0)}%`;

// Every node of a cycle with its properties. The bonus, the target's own token, comes last, as a child of
// the last accepted node.
function nodesOf(cycle) {
  const accepted = new Set(cycle.path);
  const last = cycle.path.at(-1) ?? 0;
  const nodes = cycle.tokens.map((token, index) => ({
    index,
    token,
    parent: cycle.parents[index],
    kind: index === 0 ? "root" : accepted.has(index) ? "accepted" : "rejected",
    cut: cycle.path.indexOf(index) >= cycle.emitted,
    number: index === 0 ? "" : rounded(cycle.draft[index]),
  }));
  nodes.push({
    index: nodes.length,
    token: cycle.bonus,
    parent: last,
    kind: "bonus",
    cut: cycle.emitted <= cycle.path.length,
    number: rounded(cycle.sure[last]),
  });
  return nodes;
}

// Gives each node its level, row, place from the root on, and children: kept ones first, unless
// cycle.blind, then by probability.
export function arrange(cycle) {
  const nodes = nodesOf(cycle);
  const worth = (node) => (node.kind === "rejected" || cycle.blind ? cycle.draft[node.index] ?? -1 : Infinity);
  for (const node of nodes) node.children = nodes.filter((one) => one.parent === node.index);
  let [rows, at] = [0, 0];
  const place = (node, level) => {
    Object.assign(node, { level, row: rows, at: at++ });
    node.children.sort((one, other) => worth(other) - worth(one));
    node.children.forEach((child, order) => {
      if (order) rows += 1;
      place(child, level + 1);
    });
  };
  place(nodes[0], 0);
  return { nodes, rows: rows + 1 };
}

function widthOf(text, size) {
  pen.font = `${size}px ${FAMILY}`;
  return pen.measureText(text).width;
}

function measure(nodes, texts, look) {
  for (const node of nodes) {
    node.label = short(texts[node.token], look.longest);
    if (!look.numbers) node.number = "";
    else if (node.kind === "bonus") node.number = look.whose + node.number;
    const small = node.number ? 7 + widthOf(node.number, look.font - 2) : 0;
    node.width = Math.max(look.box + 4, widthOf(node.label, look.font) + small + 2 * look.pad);
  }
}

// Left edge of each level; a level is as wide as its widest node.
function columns(nodes, look) {
  const widths = [];
  for (const { level, width } of nodes) widths[level] = Math.max(widths[level] ?? 0, width);
  const lefts = [1];
  for (const width of widths) lefts.push(lefts.at(-1) + width + look.gap);
  return lefts;
}

// Along the row, down in the gap between two levels, and into the child.
function across(parent, child, look) {
  const [x, y] = [parent.x + parent.width, parent.y + look.box / 2];
  const down = child.y + look.box / 2;
  const trunk = child.x - look.gap / 2;
  const way = down === y ? "" : `H ${trunk - 6} q 6 0 6 6 V ${down - 6} q 0 6 6 6 `;
  return `M ${x} ${y} ${way}H ${child.x}`;
}

// Down from the parent, and into the child.
function down(parent, child, look) {
  const x = (parent.x + child.x) / 2;
  return `M ${x} ${parent.y + look.box} V ${child.y + look.box / 2} H ${child.x}`;
}

function box(node, look) {
  const group = shape("g", {
    class: `node ${node.kind}${node.cut ? " cut" : ""}`,
    transform: `translate(${node.x} ${node.y})`,
    "data-node": node.kind,
    "data-index": node.index,
    style: `--level: ${node.level}`,
  });
  const round = node.kind === "bonus" ? look.box / 2 : 5;
  const drawn = shape("g", {});
  group.append(drawn);
  drawn.append(shape("rect", { width: node.width, height: look.box, rx: round }));
  const middle = { y: look.box / 2, dy: "0.35em" };
  const sized = (size) => ({ ...middle, style: `font-size: ${size}px` }); // as it was measured
  drawn.append(shape("text", { x: look.pad, ...sized(look.font) }, node.label));
  if (node.kind === "rejected") {
    const end = look.pad + widthOf(node.label, look.font) + 2;
    drawn.append(shape("path", { class: "strike", d: `M ${look.pad - 2} ${middle.y} H ${end}` }));
  }
  if (node.number) {
    const at = { class: "number", x: node.width - look.pad, "text-anchor": "end" };
    drawn.append(shape("text", { ...at, ...sized(look.font - 2) }, node.number));
  }
  return group;
}

export class Tree {
  /** most: times its size, where there is room. */
  constructor(look = WIDE, attributes = {}, most = 1) {
    Object.assign(this, { look, most, svg: shape("svg", attributes), nodes: [] });
  }

  clear() {
    this.svg.replaceChildren();
    this.svg.parentNode?.classList.remove("scrolls");
    this.nodes = [];
  }

  /** Draws a cycle; returns the nodes, each with its group in `drawn`. room: pixels across, where they are
   *  known: to ask for them makes the browser lay out the page. */
  draw(cycle, texts, room = this.room) {
    const { look } = this;
    const { nodes, rows } = arrange(cycle);
    measure(nodes, texts, look);
    const lefts = columns(nodes, look);
    const width = lefts.at(-1) - look.gap + 2;
    const narrow = look.top > 0 && room > 0 && width * this.#least > room;
    const heads = narrow || !look.top ? [] : this.#heads(nodes, lefts);
    if (narrow) this.#down(nodes, room);
    else {
      for (const node of nodes) [node.x, node.y] = [lefts[node.level], look.top + node.row * look.row + 2];
      this.size = { width, height: look.top + rows * look.row + 2 };
    }
    const way = narrow ? down : across;
    const edges = nodes.slice(1).map((node) => {
      const parent = nodes[node.parent];
      return shape("path", { class: `edge ${node.kind}`, d: way(parent, node, look), style: `--level: ${node.level}` });
    });
    // The kept path is drawn last, over the others.
    edges.sort((one, other) => other.matches(".rejected") - one.matches(".rejected"));
    for (const node of nodes) node.drawn = box(node, look);
    this.svg.replaceChildren(...heads, ...edges, ...nodes.map((node) => node.drawn));
    this.nodes = nodes;
    this.#scale(Math.max(this.#least, Math.min(this.most, room / this.size.width)));
    return nodes;
  }

  #heads(nodes, lefts) {
    const drafted = Math.max(0, ...nodes.filter(({ kind }) => kind !== "bonus").map(({ level }) => level));
    const name = (level) => (level > drafted ? "target" : level ? `level ${level}` : "root");
    return lefts.slice(0, -1).map((left, level) =>
      shape("text", { class: level > drafted ? "head bonus" : "head", x: left + 2, y: 14 }, name(level)),
    );
  }

  #down(nodes, room) {
    const [widest, deepest] = ["width", "level"].map((name) => Math.max(...nodes.map((node) => node[name])));
    const by = Math.min(IN[1], Math.max(IN[0], (room - widest - 3) / deepest));
    for (const node of nodes) [node.x, node.y] = [1 + by * node.level, 2 + this.look.row * node.at];
    this.size = { width: room, height: this.look.row * nodes.length + 2 };
  }

  // Pixels across its box; 0 in a tab that is not open.
  get room() {
    const { paddingLeft, paddingRight } = getComputedStyle(this.svg.parentNode);
    return Math.max(0, this.svg.parentNode.clientWidth - parseFloat(paddingLeft) - parseFloat(paddingRight));
  }

  /** Calls draw whenever its box has another width. */
  refill(draw) {
    let before = 0;
    const sized = new ResizeObserver(() => {
      const { room } = this;
      if (room === before) return;
      before = room;
      draw();
    });
    sized.observe(this.svg.parentNode);
  }

  get #least() {
    return LEAST / this.look.font;
  }

  /** As large as there is room for, [width, height]; its box scrolls where there is too little. */
  fit(most, [wide, high]) {
    const { classList } = this.svg.parentNode;
    if (!wide || !this.nodes.length) return; // its tab is not open
    const { width, height } = this.size;
    const fits = Math.min(wide / width, high / height);
    const scale = Math.min(most, Math.max(this.#least, fits));
    classList.toggle("scrolls", fits < scale);
    this.#scale(scale);
  }

  #scale(by) {
    const { width, height } = this.size;
    withAttributes(this.svg, { viewBox: `0 0 ${width} ${height}`, width: width * by, height: height * by });
  }
}
