// The draft tree: how it grows, and which nodes are kept (EAGLE-2, arXiv 2406.16858).

/**
 * Grow a tree below a root by the drafter's cumulative log-probability.
 *
 * Each level expands the `breadth` most probable nodes of the last one. All children tried compete
 * for the `budget` places. A parent always comes before its children.
 * drafter  with a vocabulary of V token ids, `root` and `expand`: a level has tokens, each node's
 *          parent as a row of the last level, each node's path (of those ever expanded, itself
 *          last), and its depth
 */
export async function grow(root, drafter, { depth, breadth, budget }) {
  const { vocabulary } = drafter;
  breadth = Math.min(breadth, vocabulary.length);
  const tried = best(await drafter.root(root), vocabulary, breadth).map((child) => ({ ...child, parent: null }));
  let frontier = tried.map((node, row) => Object.assign(node, { row: 0, path: [row] }));
  for (let level = 1; level < depth; level++) {
    const of = (name) => frontier.map((node) => node[name]);
    const found = await drafter.expand({ level, tokens: of("token"), parents: of("row"), paths: of("path") });
    const children = frontier.flatMap((parent, row) =>
      best(found, vocabulary, breadth, row).map(({ token, score }) => ({
        token, parent, row, score: Math.fround(score + parent.score),
      })),
    );
    tried.push(...children);
    frontier = ranked(children).slice(0, breadth);
    frontier.forEach((node, at) => {
      node.path = [...node.parent.path, level * breadth + at];
    });
  }
  return kept(root, tried, budget);
}

/** The most probable nodes, in the order in which they were tried. */
function kept(root, tried, budget) {
  // No child scores above its parent, but they may tie: a stable sort keeps the parent first.
  const stay = new Set(ranked(tried).slice(0, budget)), nodes = tried.filter((node) => stay.has(node));
  const place = new Map([[null, 0], ...nodes.map((node, at) => [node, at + 1])]);
  return {
    tokens: [root, ...nodes.map((node) => node.token)],
    parents: [-1, ...nodes.map((node) => place.get(node.parent))],
    logProbs: [0, ...nodes.map((node) => node.score)],
  };
}

const ranked = (nodes) => [...nodes].sort((one, other) => other.score - one.score); // stable

/** The `count` most probable tokens after one row of logits, with their log-probabilities. */
export function best(logits, vocabulary, count = 1, row = 0) {
  const size = vocabulary.length, start = row * size, top = [];
  for (let place = 0; place < size; place++) {
    const logit = logits[start + place];
    if (top.length === count && logit <= top[count - 1].logit) continue;
    let rank = top.length;
    while (rank > 0 && top[rank - 1].logit < logit) rank--;
    top.splice(rank, 0, { token: vocabulary[place], logit });
    top.length = Math.min(top.length, count);
  }
  const most = top[0].logit;
  let sum = 0;
  for (let at = start; at < start + size; at++) sum += Math.exp(logits[at] - most);
  return top.map(({ token, logit }) => ({ token, score: Math.fround(logit - most - Math.log(sum)) }));
}

/** A draft without branches. */
export const chain = (root, tokens) => ({
  tokens: [root, ...tokens], parents: [-1, ...tokens.keys()],
});

/** The drafted nodes, in order, that the target would have written, and its next choice. */
export function walk({ tokens, parents }, choices) {
  const path = [];
  let node = 0;
  for (let next = 1; next < tokens.length; next++) {
    if (parents[next] === node && tokens[next] === choices[node]) path.push((node = next));
  }
  return { path, bonus: choices[node] };
}
