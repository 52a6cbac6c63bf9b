// The decode loop: speculative decoding over a link that may be lost.
import { LinkLost } from "./connection.js";
import { drafter as fresh } from "./drafter.js";
import { best, chain, grow, walk } from "./tree.js";

const LOOK = 50; // ms between two checks of the link when there is nothing else to do
const GREEDY = { temperature: 0, top_p: 1, top_k: 0, seed: 0 };
class NoAnswer extends Error {}

/**
 * Decode a prompt and yield each event as it happens; the last event is "finished".
 *
 * model     an opened drafter; remote: a connected target
 * settings  {count: most new tokens, tree, sampling,
 *           patience: ms to wait for the link when there is no more to write alone}
 * stopped   returns whether to stop now
 */
export async function* decode(model, remote, prompt, settings, stopped = () => false) {
  const { context, eos_ids: ends } = model.facts;
  const { patience, count: most, tree: shape } = settings;
  const wanted = Math.min(most, context - prompt.length);
  const { depth, breadth, budget } = shape;
  const capacity = prompt.length + wanted + 2 * (depth + 2 + Math.max(budget, breadth * depth));
  const drafter = fresh(model, capacity, remote.rows);
  const ask = (question, options = {}) => asked(remote, patience, stopped, question, options);
  let reason;
  try {
    // 1) Prefill: the target reads the prompt and chooses the first token.
    let began = performance.now(), waited = 0;
    const sampling = { ...GREEDY, ...settings.sampling };
    const first = yield* ask(() => remote.prefill(prompt, capacity, sampling));
    let token = first.tokens[0], count = 1, emitted = [token];
    let unverified = [], learnt = null;
    const { probs: [prob], seconds: worked } = first;
    yield { type: "prefilled", position: prompt.length, token, prob, seconds: seconds(began), worked };

    while (!(reason = ending(emitted, count, wanted, most, ends, stopped))) {
      // 2) Draft: the drafter observes the target's results and proposes a tree below the newest
      //    token, which the target has not read yet.
      began = performance.now();
      if (!learnt) {
        const half = () => remote.promptHalf();
        learnt = { ids: prompt, half: yield* ask(half, { retry: half }) };
        began = performance.now();
      }
      drafter.observe(learnt.ids, learnt.half);
      const position = prompt.length + count - 1;
      const levels = Math.min(depth, context - 1 - position); // positions are limited
      let tree = chain(token, unverified);
      if (!unverified.length) {
        tree = await grow(token, drafter, { ...shape, depth: levels });
        drafter.forget();
      }
      const how = { offline: unverified.length > 0, levels };
      yield { type: "drafted", position, tree, seconds: seconds(began), ...how };

      // 3) Verify: one target forward over the whole tree gives the target's choice at each node.
      began = performance.now();
      const alone = new Alone(drafter, token, position, wanted - count, ends);
      const verify = () => remote.verify(tree, position);
      const choices = yield* ask(verify, { alone });
      waited = seconds(began);

      // 4) Accept the longest drafted path the target agrees with; its next choice is the bonus.
      const { path, bonus } = walk(tree, choices.tokens);
      token = bonus;
      learnt = remote.keep(path, bonus);
      emitted = cut([...learnt.ids.slice(1), token], wanted - count, ends);
      unverified = alone.after(emitted);
      count += emitted.length;
      yield { ...choices, type: "verified", path, emitted, seconds: waited, worked: choices.seconds };
    }
  } catch (error) {
    if (!(error instanceof NoAnswer)) throw error;
    reason = stopped() ? "stopped" : "offline";
  }
  yield { type: "finished", reason };
}

const seconds = (began) => (performance.now() - began) / 1000;

/** Send a request to the target. While its link is lost, write alone until it answers. */
async function* asked(remote, patience, stopped, question, { alone, retry }) {
  try {
    return await question();
  } catch (error) {
    if (!(error instanceof LinkLost)) throw error;
  }
  const lost = performance.now();
  yield { type: "link down", seconds: 0 };
  for (let waited = 0; ; ) {
    const able = alone?.able, looked = performance.now();
    if (await remote.back(able ? 0 : LOOK)) {
      try {
        const answer = await (retry ?? (() => remote.again()))();
        yield { type: "link back", tokens: alone?.tokens.length ?? 0, seconds: seconds(lost) };
        return answer;
      } catch (error) {
        if (!(error instanceof LinkLost)) throw error;
        continue;
      }
    }
    waited += performance.now() - looked;
    if (stopped() || (!able && waited > patience)) throw new NoAnswer();
    if (able) yield await alone.step();
  }
}

/** A drafter writing without its target, from the root of a tree that got no answer. */
class Alone {
  constructor(drafter, root, position, room, ends) {
    Object.assign(this, { drafter, root, position, room, ends, tokens: [] });
  }

  get able() {
    return this.tokens.length < this.room && !this.ends.includes(this.tokens.at(-1));
  }

  /** Write the drafter's greedy choice. */
  async step() {
    const began = performance.now(), { drafter, tokens } = this, level = tokens.length;
    const last = { level, tokens: tokens.slice(-1), parents: [0], paths: [[...tokens.keys()]] };
    const logits = await (level ? drafter.expand(last) : drafter.root(this.root));
    const [{ token, score }] = best(logits, drafter.vocabulary);
    this.tokens.push(token);
    const position = this.position + this.tokens.length, prob = Math.exp(score);
    return { type: "offline token", position, token, prob, seconds: seconds(began) };
  }

  /** The text after the tokens that the target now confirms; empty if they differ. */
  after(sure) {
    this.drafter.forget();
    const same = sure.every((token, at) => token === this.tokens[at]);
    return same ? this.tokens.slice(sure.length) : [];
  }
}

/** Tokens up to the first that ends a text, and no more than fit. */
function cut(tokens, room, ends) {
  const end = tokens.findIndex((token) => ends.includes(token));
  return tokens.slice(0, Math.min(room, end < 0 ? tokens.length : end + 1));
}

/** Why to stop now; "" to go on. */
function ending(emitted, count, wanted, most, ends, stopped) {
  if (ends.includes(emitted.at(-1))) return "eos";
  if (count >= wanted) return wanted === most ? "length" : "context";
  return stopped() ? "stopped" : "";
}
