// A run as the trace that Python reads: moa_core/decoding/trace.py has the fields of each event.

export class Trace {
  constructor(prompt, tli) {
    Object.assign(this, { prompt, tli, cycle: -1, events: [], spent: { prefill: 0, draft: 0, verify: 0, network: 0 } });
    this.bytes = { sent: 0, received: 0 };
  }

  /** bytes: sent and received since the run began. Returns all events, once the last is there. */
  add(event, bytes) {
    const traffic = { sent: bytes.sent - this.bytes.sent, received: bytes.received - this.bytes.received };
    const made = this[event.type.replace(" ", "_")](event, traffic);
    if ("sent" in made || "received" in made) this.bytes = { ...bytes };
    this.events.push(made);
    return made.event === "Finished" ? this.events : undefined;
  }

  prefilled({ token, prob, seconds, worked }, traffic) {
    const times = this.asked("prefill", seconds, worked);
    return { event: "Prefilled", prompt_ids: this.prompt, token, prob, ...times, ...traffic };
  }

  drafted({ position, tree, seconds, offline }, { received }) {
    const { tokens, parents, logProbs = tokens.map(() => 0) } = tree, depths = [0];
    parents.forEach((parent, node) => node && depths.push(depths[parent] + 1));
    this.spent.draft += seconds;
    this.cycle += 1;
    const drawn = { tokens, parents, depths, log_probs: logProbs };
    return { event: "Drafted", cycle: this.cycle, position, tree: drawn, seconds, tli: this.tli, offline, received };
  }

  verified({ path, tokens, probs, drafts, emitted, seconds, worked }, traffic) {
    const bonus = tokens[path.at(-1) ?? 0], times = this.asked("verify", seconds, worked);
    return {
      event: "Verified", cycle: this.cycle, path, bonus, choices: [...tokens], choice_probs: [...probs],
      draft_probs: [...drafts], emitted, ...times, other_seconds: 0, ...traffic,
    };
  }

  link_down() {
    return { event: "LinkDown", seconds: 0 };
  }

  offline_token({ position, token, prob, seconds }) {
    this.spent.draft += seconds;
    return { event: "OfflineToken", position, token, prob, seconds };
  }

  link_back({ seconds, tokens }) {
    return { event: "LinkBack", seconds, tokens };
  }

  finished({ reason }) {
    return { event: "Finished", reason, seconds: this.spent };
  }

  /** The server's seconds, and those on the way. */
  asked(phase, seconds, worked) {
    const network_seconds = Math.max(seconds - worked, 0);
    this.spent[phase] += worked;
    this.spent.network += network_seconds;
    return { seconds: worked, network_seconds };
  }
}
