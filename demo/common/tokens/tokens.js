// ---- a cycle's tokens in the text. `reachable` lets keyboard and pointer use one ----

function mark(parent, piece) {
  for (const part of piece.split(/(\n)/)) {
    if (part === "\n") add(parent, el("span", "break", "↵"), "\n");
    else if (part) {
      const [, space, rest] = part.match(/^( *)([^]*)$/);
      if (space && rest) add(parent, space);
      add(parent, el("span", "mark", rest || space));
    }
  }
}

// The hook's value by kind: like the bonus, the first token is the target's own.
const HOOKS = { first: "bonus", confirmed: "accepted", changed: "offline", kept: "offline" };

function token(kind, [piece, draft, target, special], about) {
  const node = el(kind === "rejected" ? "del" : "span", `token ${kind}`);
  node.dataset.token = HOOKS[kind] ?? kind;
  if (special) node.classList.add("special");
  // A rejected line break is shown but does not break the line.
  if (piece) mark(node, kind === "rejected" ? piece.replaceAll("\n", "↵") : piece);
  else add(node, el("span", "mark partial", "·"));
  return reachable(node, { kind, piece, draft, target, special, ...about });
}

// A node as a token: its text, and its probabilities for drafter and target.
function drafted(tree, node) {
  const odds = [tree.draft[node], tree.target[node]].map((whole) => whole / 10_000);
  return [tree.texts[node], ...odds, tree.special.includes(node)];
}

// The rejected nodes that are not in the line, the most probable first: [token, text before it].
function others({ tree, branch }) {
  if (!tree) return [];
  const shown = new Set([0, ...tree.path, ...branch]);
  const reach = [1];
  for (let node = 1; node < tree.texts.length; node += 1)
    reach[node] = reach[tree.parents[node]] * tree.draft[node];
  const rest = Object.keys(tree.texts).map(Number).filter((node) => !shown.has(node));
  rest.sort((one, other) => reach[other] - reach[one]);
  return rest.map((node) => [drafted(tree, node), tree.texts[tree.parents[node]]]);
}

// The best rejected branch is struck out where it was rejected: before the target's own token.
function cycle(line, into = text) {
  const number = line.cycle + 1;
  const box = el("span", "cycle newest");
  into.querySelector(".cycle.newest")?.classList.remove("newest");
  let position = line.at;
  const place = () => ({ cycle: number, position: (position += 1) });
  const strike = () => {
    const from = position;
    line.branch.forEach((node, order) =>
      add(box, token("rejected", drafted(line.tree, node), { ...place(), below: order > 0 })));
    position = from;
  };
  line.accepted.forEach((item, order) => {
    if (order === line.after) strike();
    add(box, token("accepted", item, place()));
  });
  if (line.after === line.accepted.length) strike();
  if (line.bonus) add(box, token("bonus", line.bonus, place()));
  const rest = others(line);
  if (rest.length) {
    const ariaLabel = many(rest.length, "more rejected draft");
    const more = button("more", `+${rest.length}`, null, { ariaLabel });
    add(box, reachable(more, { cycle: number, others: rest }));
  }
  close(box, into);
  return box;
}

// The cycle's end is marked before a line break, not on the next line.
function close(box, into = text) {
  const last = [...box.querySelectorAll(".token:not(.rejected)")].at(-1);
  const ending = last?.lastChild.nodeValue === "\n" ? [last.lastChild] : [];
  add(into, add(box, el("span", "edge"), ...ending));
}

const sample = (kind, words) => add(el("li"), add(el("span", `token ${kind}`), el("span", "mark", words)));
const moreSample = () => add(el("li"), el("span", "more", "+n"), " more rejected");
const tokenLegend = (...more) => add(
  el("ul", "legend"),
  sample("accepted", "accepted draft"),
  sample("rejected", "rejected draft"),
  sample("bonus", "the target’s own"),
  ...more,
);
