// The decode loop: read it and you know speculative decoding over a link that may be lost.
import { LinkLost } from "./connection.js";
import { best, chain, grow, walk } from "./tree.js";
import { drafter as fresh } from "./weights.js";

const LOOK = 50; // ms between two looks for the link, where there is nothing else to do
const GREEDY = { temperature: 0, top_p: 1, top_k: 0, seed: 0 };
class NoAnswer extends Error {}

/**
 * Decode a prompt, yielding what happens as it happens; the last event is "finished".
 *
 * model     the drafter's file, opened; remote: where the target is asked, connected
 * settings  {count: new tokens at most, tree, away: {keep, patience}}. keep: text written while the
 *           link was lost stays; else it is a draft like any other, which the target verifies.
 *           patience: ms to wait for the link when there is no more to write alone
 * stopped   says whether to stop now
 */
export async function* decode(model, remote, prompt, settings, stopped = () => false) {
  const { context, eos_ids: ends } = model.header;
  const { away, count: most, tree: shape } = settings;
  const wanted = Math.min(most, context - prompt.length);
  const { depth, breadth, budget } = shape;
  const capacity = prompt.length + wanted + depth + 2 + Math.max(budget, breadth * depth);
  const drafter = fresh(model, capacity);
  const ask = (question, alone, retry) => asked(remote, away, stopped, question, alone, retry);
  let reason;
  try {
    // 1) Prefill: the target reads the prompt and chooses the first token.
    let began = performance.now();
    const sampling = { ...GREEDY, ...settings.sampling };
    const first = yield* ask(() => remote.prefill(prompt, capacity, sampling));
    let token = first.tokens[0], count = 1, emitted = [token], unverified = [], learnt = null;
    yield { type: "prefilled", token, seconds: seconds(began), worked: first.seconds };

    while (!(reason = ending(emitted, count, wanted, most, ends, stopped))) {
      // 2) Draft: the drafter takes in what the target learnt, and proposes a tree below the newest
      //    token, of which the target has learnt nothing yet.
      began = performance.now();
      if (!learnt) {
        const half = () => remote.promptHalf();
        learnt = { ids: prompt, half: yield* ask(half, null, half) };
      }
      drafter.observe(learnt.ids, learnt.half);
      const position = prompt.length + count - 1;
      const levels = Math.min(depth, context - 1 - position); // positions end somewhere
      let tree = chain(token, unverified);
      if (!unverified.length) {
        const root = drafter.root(token);
        tree = grow(token, root, (level) => drafter.expand(level), { ...shape, depth: levels });
        drafter.forget();
      }
      yield { type: "drafted", position, tree, seconds: seconds(began) };

      // 3) Verify: one target forward over the whole tree; the target's choice at each node.
      began = performance.now();
      const alone = new Alone(drafter, token, position, wanted - count, ends);
      const choices = yield* ask(() => remote.verify(tree, position), alone);

      // 4) Accept the longest drafted path the target agrees with; its next choice is the bonus.
      //    Text written offline that is to stay took the tree's place.
      const kept = away.keep && alone.tokens.length > 0;
      let path;
      if (kept) [path, token] = [alone.tokens.map((_, at) => at + 1), choices.tokens.at(-1)];
      else ({ path, bonus: token } = walk(tree, choices.tokens));
      learnt = remote.keep(path);
      emitted = cut([...learnt.ids.slice(1), token], wanted - count, ends);
      unverified = alone.after(emitted);
      count += emitted.length;
      const worked = choices.seconds;
      yield { type: "verified", path, emitted, kept, seconds: seconds(began), worked };
    }
  } catch (error) {
    if (!(error instanceof NoAnswer)) throw error;
    reason = stopped() ? "stopped" : "offline";
  }
  yield { type: "finished", reason };
}

const seconds = (began) => (performance.now() - began) / 1000;

/** Put a question to the target; while its link is lost, go on alone until it is answered. */
async function* asked(remote, away, stopped, question, alone, retry) {
  try {
    return await question();
  } catch (error) {
    if (!(error instanceof LinkLost)) throw error;
  }
  yield { type: "link down" };
  for (let waited = 0; ; ) {
    const able = alone?.able, looked = performance.now();
    if (await remote.back(able ? 0 : LOOK)) {
      try {
        const answer = await (retry ? retry() : again(remote, away, alone));
        yield { type: "link back", tokens: alone?.tokens.length ?? 0 };
        return answer;
      } catch (error) {
        if (!(error instanceof LinkLost)) throw error;
        continue;
      }
    }
    waited += performance.now() - looked;
    if (stopped() || (!able && waited > away.patience)) throw new NoAnswer();
    if (able) yield alone.step();
  }
}

/** The answer to what was asked; or, where offline text is to stay, to that. */
function again(remote, away, alone) {
  if (!alone?.tokens.length || !away.keep) return remote.again();
  return remote.insist(chain(alone.root, alone.tokens), alone.position);
}

/** A drafter writing without its target, from the root of a tree that was not answered. */
class Alone {
  constructor(drafter, root, position, room, ends) {
    Object.assign(this, { drafter, root, position, room, ends, tokens: [] });
  }

  /** Whether there is more to write. */
  get able() {
    return this.tokens.length < this.room && !this.ends.includes(this.tokens.at(-1));
  }

  /** Its own greedy choice. */
  step() {
    const level = this.tokens.length, began = performance.now();
    const logits = level
      ? this.drafter.expand({
          level, tokens: [this.tokens.at(-1)], parents: [0], paths: [[...this.tokens.keys()]],
        })
      : this.drafter.root(this.root);
    const [{ token, score }] = best(logits, 0, logits.length, 1);
    this.tokens.push(token);
    const position = this.position + this.tokens.length, prob = Math.exp(score);
    return { type: "offline token", position, token, prob, seconds: seconds(began) };
  }

  /** What is left of the text, given what the target now says; nothing if they differ. */
  after(sure) {
    this.drafter.forget();
    const same = sure.every((token, at) => token === this.tokens[at]);
    return same ? this.tokens.slice(sure.length) : [];
  }
}

/** Tokens up to and including the first that ends a text, and no more than there is room for. */
function cut(tokens, room, ends) {
  const end = tokens.findIndex((token) => ends.includes(token));
  return tokens.slice(0, Math.min(room, end < 0 ? tokens.length : end + 1));
}

/** Why to stop now, or nothing to go on. */
function ending(emitted, count, wanted, most, ends, stopped) {
  if (ends.includes(emitted.at(-1))) return "eos";
  if (count >= wanted) return wanted === most ? "length" : "context";
  return stopped() ? "stopped" : "";
}
