// The draft tree: how it grows, and which nodes are kept (EAGLE-2, arXiv 2406.16858).

/**
 * Grow a tree below a root by the drafter's cumulative log-probability.
 *
 * Each level expands the `breadth` most probable nodes of the last one. All children tried compete
 * for the `budget` places. A parent always comes before its children.
 * logits  after the root
 * expand  logits [nodes, V] of a level: its tokens, each node's parent as a row of the last level,
 *         each node's path (of those ever expanded, itself last), and its depth
 */
export async function grow(root, logits, expand, { depth, breadth, budget }) {
  const vocabulary = logits.length;
  breadth = Math.min(breadth, vocabulary);
  const tried = best(logits, 0, vocabulary, breadth).map((child) => ({ ...child, parent: null }));
  let frontier = tried.map((node, row) => Object.assign(node, { row: 0, path: [row] }));
  for (let level = 1; level < depth; level++) {
    const found = await expand({
      level,
      tokens: frontier.map((node) => node.token),
      parents: frontier.map((node) => node.row),
      paths: frontier.map((node) => node.path),
    });
    const children = frontier.flatMap((parent, row) =>
      best(found, row, vocabulary, breadth).map(({ token, score }) => ({
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
  const stay = new Set(ranked(tried).slice(0, budget));
  const nodes = tried.filter((node) => stay.has(node));
  const place = new Map([[null, 0], ...nodes.map((node, at) => [node, at + 1])]);
  return {
    tokens: [root, ...nodes.map((node) => node.token)],
    parents: [-1, ...nodes.map((node) => place.get(node.parent))],
    logProbs: [0, ...nodes.map((node) => node.score)],
  };
}

const ranked = (nodes) => [...nodes].sort((one, other) => other.score - one.score); // stable

/** The `count` most probable tokens after one row of logits, with their log-probabilities. */
export function best(logits, row = 0, vocabulary = logits.length, count = 1) {
  const start = row * vocabulary, top = [];
  for (let token = 0; token < vocabulary; token++) {
    const logit = logits[start + token];
    if (top.length === count && logit <= top[count - 1].logit) continue;
    let place = top.length;
    while (place > 0 && top[place - 1].logit < logit) place--;
    top.splice(place, 0, { token, logit });
    top.length = Math.min(top.length, count);
  }
  const most = top[0].logit;
  let sum = 0;
  for (let at = start; at < start + vocabulary; at++) sum += Math.exp(logits[at] - most);
  const whole = most + Math.log(sum);
  return top.map(({ token, logit }) => ({ token, score: Math.fround(logit - whole) }));
}

/** A draft without branches. */
export const chain = (root, tokens) => ({
  tokens: [root, ...tokens],
  parents: [-1, ...tokens.keys()],
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
