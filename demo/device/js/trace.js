// A run as the trace that Python reads: moa_core/decoding/trace.py has the fields of each event.

export class Trace {
  cycle = -1;
  events = [];
  spent = { prefill: 0, draft: 0, verify: 0, network: 0 };
  before = { sent: 0, received: 0 };

  constructor(prompt, tli) {
    Object.assign(this, { prompt, tli });
  }

  /** bytes: sent and received since the run began. Returns all events, once the last is there. */
  add({ type, seconds, worked, ...event }, bytes) {
    const event_name = type.replace(/(^| )./g, (start) => start.trim().toUpperCase());
    const made = { event: event_name, seconds, ...(this[type.replace(" ", "_")]?.(event, seconds) ?? event) };
    if (worked !== undefined) { // the server's seconds, and those on the way
      const phase = type === "verified" ? "verify" : "prefill";
      Object.assign(made, { seconds: worked, network_seconds: Math.max(seconds - worked, 0) });
      this.spent[phase] += worked;
      this.spent.network += made.network_seconds;
    }
    if (["prefilled", "drafted", "verified"].includes(type)) {
      if (type !== "drafted") made.sent = bytes.sent - this.before.sent;
      made.received = bytes.received - this.before.received;
      this.before = { ...bytes };
    }
    this.events.push(made);
    return type === "finished" ? this.events : undefined;
  }

  prefilled({ token, prob }) {
    return { prompt_ids: this.prompt, token, prob };
  }

  drafted({ position, tree, offline }, seconds) {
    const { tokens, parents, logProbs = tokens.map(() => 0) } = tree, depths = [0];
    parents.forEach((parent, node) => node && depths.push(depths[parent] + 1));
    this.spent.draft += seconds;
    this.cycle += 1;
    const drawn = { tokens, parents, depths, log_probs: logProbs };
    return { cycle: this.cycle, position, tree: drawn, tli: this.tli, offline };
  }

  verified({ path, tokens, probs, drafts, emitted }) {
    const told = { choices: [...tokens], choice_probs: [...probs], draft_probs: [...drafts] };
    return { cycle: this.cycle, path, bonus: tokens[path.at(-1) ?? 0], ...told, emitted, other_seconds: 0 };
  }

  offline_token(event, seconds) {
    this.spent.draft += seconds;
    return event;
  }

  finished({ reason }) {
    return { reason, seconds: this.spent };
  }
}
