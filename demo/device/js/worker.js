// The drafter's own thread. The page says:
//   {do: "open", base, name}   look a drafter up           -> "facts" {bytes}
//   {do: "fetch"}              fetch and open it           -> "progress" {bytes}, "ready" {header}
//   {do: "run", prompt, count, tree, keep, patience, stops, sampling, kind}   decode token ids ->
//                              events, each with the text so far, sure and provisional
//   {do: "stop"}, {do: "cut"}, {do: "mend"}   end the run; cut the link, and let it be mended
// and hears {type: "failed", words} of what went wrong.
import { decode } from "./client.js";
import { LinkLost } from "./connection.js";
import { Remote } from "./link.js";
import { Words, cutAt } from "./text.js";
import { facts, fetchFile, open } from "./weights.js";

let base, found, model, words, remote, stopped = false, cut = false;

const jobs = {
  async open(asked) {
    base = new URL(asked.base, self.location).href;
    found = await facts(base, asked.name);
    postMessage({ type: "facts", ...found });
  },

  async fetch() {
    const told = (bytes) => postMessage({ type: "progress", bytes });
    model = open(await fetchFile(base, found, told));
    words = new Words(model.header);
    const { name, tree, context, tli } = model.header;
    postMessage({ type: "ready", name, tree, context, tli });
  },

  async run({ prompt, count, stops = [], kind, ...asked }) {
    if (remote && !remote.closed) throw new Error("A run is under way.");
    stopped = false;
    remote = new Remote(`${base.replace(/^http/, "ws")}/link`, model.header, kind);
    remote.bar(cut);
    try {
      await remote.connect();
      const { tree = model.header.tree, keep = false, patience = 0, sampling } = asked;
      const settings = { count, tree, sampling, away: { keep, patience } };
      const seen = new Told(stops);
      for await (const event of decode(model, remote, prompt, settings, () => stopped || seen.over)) {
        postMessage({ ...event, ...seen.after(event), bytes: remote.bytes });
      }
    } finally {
      remote.close();
    }
  },

  stop: () => (stopped = true),
  cut: () => bar(true),
  mend: () => bar(false),
};

/** The text so far: what is sure, and what was written alone and may not stay. */
class Told {
  constructor(stops) {
    Object.assign(this, { stops, sure: [], alone: [], over: false });
  }

  after({ type, token, emitted, reason }) {
    const fixed = this.sure.length;
    if (type === "prefilled") this.sure.push(token);
    if (type === "offline token") this.alone.push(token);
    if (type === "verified") this.sure.push(...emitted);
    const late = this.sure.slice(fixed);
    if (type === "verified") {
      const same = late.every((one, at) => one === this.alone[at]);
      this.alone = same ? this.alone.slice(late.length) : [];
    }
    const ended = type === "finished", whole = [...this.sure, ...this.alone];
    const sure = cutAt(this.stops, words.text(this.sure, ended && !this.alone.length), ended);
    const all = cutAt(this.stops, words.text(whole, ended), ended);
    this.over = sure.found;
    const told = { text: sure.text, provisional: all.text.slice(sure.text.length) };
    return ended ? { ...told, ids: this.sure, alone: this.alone, reason: sure.found ? "stop" : reason } : told;
  }
}

function bar(now) {
  cut = now;
  remote?.bar(now);
}

self.onmessage = async ({ data }) => {
  try {
    await jobs[data.do](data);
  } catch (error) {
    const away = error instanceof LinkLost && "The server cannot be reached.";
    postMessage({ type: "failed", words: away || error.message });
  }
};
