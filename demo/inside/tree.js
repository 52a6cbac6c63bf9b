// One cycle's draft tree as SVG. The accepted path with the bonus token after it is the top row, so
// that it reads as text; a first child stands on its parent's row, its siblings below.
const ROW = 30; // px from one row to the next
const BOX = 24; // height of a node
const GAP = 28; // between two levels
const TOP = 28; // the levels' names
const LONGEST = 16; // characters of a token that are drawn
const FONT = 13;
const pen = document.createElement("canvas").getContext("2d");

// White space made visible, so that no node looks empty.
function visible(piece) {
  const shown = piece.replaceAll("\n", "↵").replaceAll("\t", "⇥").replace(/^ +| +$/g, (spaces) =>
    "␣".repeat(spaces.length),
  );
  return shown || "∅";
}

function short(piece) {
  const shown = [...visible(piece)];
  return shown.length > LONGEST ? `${shown.slice(0, LONGEST - 1).join("")}…` : shown.join("");
}

const percent = (whole) =>
  whole > 0 && whole < 10 ? "< 0.1 %" : `${(whole / 100).toFixed(1)} %`;
const rounded = (whole) => (whole > 0 && whole < 50 ? "<1%" : `${Math.round(whole / 100)}%`);

// Every node of a cycle with what is known of it. The bonus token comes last, as a child of the last
// accepted node: the target's own, which no drafter proposed (or not there).
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

// Gives each node its level, its row and its children, kept ones first, then the most probable.
function arrange(cycle) {
  const nodes = nodesOf(cycle);
  const worth = (node) => (node.kind === "rejected" ? cycle.draft[node.index] : Infinity);
  for (const node of nodes) node.children = nodes.filter((one) => one.parent === node.index);
  let rows = 0;
  const place = (node, level) => {
    node.level = level;
    node.row = rows;
    node.children.sort((one, other) => worth(other) - worth(one));
    node.children.forEach((child, order) => {
      if (order) rows += 1;
      place(child, level + 1);
    });
  };
  place(nodes[0], 0);
  return { nodes, rows: rows + 1 };
}

function measure(text, size, family) {
  pen.font = `${size}px ${family}`;
  return pen.measureText(text).width;
}

// Left edge of each level; a level is as wide as its widest node.
function columns(nodes, texts, family) {
  const widths = [];
  for (const node of nodes) {
    node.label = short(texts[node.token]);
    node.wide = measure(node.label, FONT, family);
    const small = node.number ? 7 + measure(node.number, FONT - 2, family) : 0;
    node.width = Math.max(BOX + 4, node.wide + small + 18);
    widths[node.level] = Math.max(widths[node.level] ?? 0, node.width);
  }
  const lefts = [1];
  for (const width of widths) lefts.push(lefts.at(-1) + width + GAP);
  return lefts;
}

// Along the row, down in the gap between two levels, and into the child.
function edge(parent, child) {
  const [x, y] = [parent.x + parent.width, parent.y + BOX / 2];
  const [to, down] = [child.x, child.y + BOX / 2];
  const trunk = to - GAP / 2;
  const way = down === y ? "" : `H ${trunk - 6} q 6 0 6 6 V ${down - 6} q 0 6 6 6 `;
  return shape("path", { class: `edge ${child.kind}`, d: `M ${x} ${y} ${way}H ${to}` });
}

function box(node) {
  const group = shape("g", {
    class: `node ${node.kind}${node.cut ? " cut" : ""}`,
    transform: `translate(${node.x} ${node.y})`,
    "data-node": node.index,
    role: "img",
    tabindex: node.index === 0 ? 0 : -1,
  });
  const round = node.kind === "bonus" ? BOX / 2 : 5;
  group.append(shape("rect", { width: node.width, height: BOX, rx: round }));
  const middle = { y: BOX / 2, dy: "0.35em" };
  group.append(shape("text", { x: 9, ...middle }, node.label));
  if (node.number) {
    const at = { class: "number", x: node.width - 9, "text-anchor": "end" };
    group.append(shape("text", { ...at, ...middle }, node.number));
  }
  return group;
}

// Draws into an svg element; returns the nodes, each with its group in `drawn`.
function drawTree(svg, cycle, texts, family) {
  const { nodes, rows } = arrange(cycle);
  const lefts = columns(nodes, texts, family);
  for (const node of nodes) [node.x, node.y] = [lefts[node.level], TOP + node.row * ROW + 2];
  const drafted = Math.max(0, ...nodes.filter((node) => node.kind !== "bonus").map((node) => node.level));
  const name = (level) => (level > drafted ? "bonus" : level ? `level ${level}` : "root");
  const heads = lefts.slice(0, -1).map((left, level) =>
    shape("text", { class: "head", x: left + 2, y: 14 }, name(level)),
  );
  const edges = nodes.slice(1).map((node) => edge(nodes[node.parent], node));
  // The kept path is drawn last, over the others.
  edges.sort((one, other) => other.matches(".rejected") - one.matches(".rejected"));
  for (const node of nodes) node.drawn = box(node);
  const size = { width: lefts.at(-1) - GAP + 2, height: TOP + rows * ROW + 2 };
  for (const [name, value] of Object.entries(size)) svg.setAttribute(name, value);
  svg.replaceChildren(...heads, ...edges, ...nodes.map((node) => node.drawn));
  return nodes;
}
