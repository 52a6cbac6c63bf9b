// What the view says in words about a cycle and about each node of its tree.
import { many, quoted } from "../common/static/dom.js";
import { percent } from "../common/tokens/view.js";

const odds = (whole) => percent(whole / 10_000);

// The cycle in a sentence or two, for everyone.
export function sentence(cycle, texts) {
  const drafted = cycle.tokens.length - 1;
  const bonus = quoted(texts[cycle.bonus].trimStart() || texts[cycle.bonus]);
  if (!drafted) return `Nothing was drafted: the target wrote ${bonus} by itself.`;
  const accepted = cycle.path.map((node) => texts[cycle.tokens[node]]).join("");
  const kept = cycle.path.length
    ? `${cycle.path.length} accepted (${quoted(accepted.trimStart() || accepted)}); then ${bonus}, the target’s own.`
    : `none accepted: the target wrote ${bonus} instead, as without a drafter.`;
  const cut = cycle.path.length + 1 - cycle.emitted;
  const end = cut ? ` The run ended here, so ${many(cut, "token")} ${cut === 1 ? "was" : "were"} dropped.` : "";
  return `${many(drafted, "guess", "guesses")}, ${kept}${end}`;
}

const verdicts = {
  root: "the newest token, already certain: the tree grows below it",
  accepted: "accepted guess",
  rejected: "rejected guess",
  bonus: "the target’s own token",
};

// Why a node was rejected: the target said something else there, or its parent was already wrong.
export function verdict(cycle, node, texts) {
  if (node.cut) return `${verdicts[node.kind]}, not kept: the run had ended`;
  if (node.kind !== "rejected") return verdicts[node.kind];
  const wanted = cycle.choices[node.parent];
  return wanted === node.token
    ? "rejected, because the guess before it was wrong"
    : `rejected guess: the target chose ${quoted(texts[wanted])} there`;
}

// Pairs of a name and a value; the page shows them in the tip and says them to screen readers.
export function facts(cycle, node, texts) {
  const before = node.parent < 0 ? "" : quoted(texts[cycle.tokens[node.parent]]);
  if (node.kind === "bonus") {
    return [[`target, after ${before}`, odds(cycle.sure[node.parent])]];
  }
  const found = [];
  if (node.kind !== "root") {
    found.push([`drafter, after ${before}`, odds(cycle.draft[node.index])]);
    found.push(["drafter, whole path", odds(cycle.reach[node.index])]);
    found.push([`target, after ${before}`, odds(cycle.target[node.index])]);
  }
  const choice = quoted(texts[cycle.choices[node.index]]);
  found.push(["target, after this token", `${choice} ${odds(cycle.sure[node.index])}`]);
  return found;
}

export function spoken(cycle, node, texts) {
  const known = facts(cycle, node, texts).map(([name, value]) => `${name} ${value}`);
  const place = `${quoted(texts[node.token])}, ${verdict(cycle, node, texts)}`;
  const level = node.kind === "bonus" ? [] : [`level ${node.level}`]; // no drafted one
  return [place, ...level, ...known].join("; ");
}
