// Turns events into lines for the page, as in demo/common/tokens/view.py.
import { Reader } from "./text.js";

export class Told {
  ids = [];
  alone = [];
  cycle = 0;

  /** count: tokens of the prompt. */
  constructor(words, count) {
    Object.assign(this, { words, count, reader: new Reader(words) });
  }

  /** The event with its line. */
  after(event) {
    const told = { ...event, line: this[event.type.replace(" ", "_")]?.(event) };
    if (event.type !== "finished") return told;
    return { ...told, ids: this.ids, alone: this.alone };
  }

  prefilled({ token, position, prob }) {
    return { first: this.token(token, this.push(token), null, prob), at: position };
  }

  drafted(event) {
    this.draft = event;
  }

  link_down() {
    return { down: 0 };
  }

  link_back({ seconds, tokens }) {
    return { back: seconds, tokens };
  }

  offline_token({ token, position, prob }) {
    this.alone.length = position - this.count - this.ids.length; // it may have started again
    if (!this.alone.length) this.aside = new Reader(this.words, this.ids);
    this.alone.push(token);
    return { offline: this.token(token, this.aside.push(token), prob, null), at: position };
  }

  verified({ path, emitted, tokens, probs, drafts }) {
    const { tree, position, offline } = this.draft, { alone } = this;
    const late = emitted.findIndex((token, at) => token !== alone[at]);
    const confirmed = late < 0 ? emitted.length : late;
    const parted = late >= 0 && alone.length > 0, changed = parted ? alone.length - confirmed : 0;
    this.alone = parted ? [] : alone.slice(emitted.length);
    const odds = tree.tokens.map((_, node) => this.odds(tree, node));
    const pieces = emitted.map((token) => this.push(token)), last = path.at(-1) ?? 0;
    const accepted = path.slice(0, emitted.length).map((node, at) =>
      this.token(tree.tokens[node], pieces[at], offline ? null : odds[node], drafts[node]));
    const bonus = emitted.length > path.length ? this.token(emitted.at(-1), pieces.at(-1), null, probs[last]) : null;
    const whole = (share) => (share > 0 ? Math.max(Math.round(1e4 * share), 1) : 0);
    const drawn = {
      texts: tree.tokens.map((token) => this.words.alone(token)), parents: tree.parents,
      draft: odds.map(whole), target: drafts.map(whole), path,
      special: tree.tokens.flatMap((token, node) => (this.words.special(token) ? [node] : [])),
      bonus: [this.words.alone(tokens[last]), whole(probs[last])],
    };
    return {
      cycle: this.cycle++, at: position, accepted, bonus, confirmed, changed,
      tree: offline || tree.tokens.length < 2 ? null : drawn,
    };
  }

  finished({ reason }) {
    return { end: reason };
  }

  /** The drafter's probability of a node after its parent. */
  odds({ parents, logProbs }, node) {
    return logProbs ? Math.exp(logProbs[node] - (logProbs[parents[node]] ?? 0)) : 1;
  }

  push(token) {
    this.ids.push(token);
    return this.reader.push(token);
  }

  token(token, piece, draft, target) {
    const special = this.words.special(token);
    return [special ? this.words.alone(token) : piece, draft, target, Number(special)];
  }
}
