// The drafter's own thread. device.js, on the page, is the way to it. It is told:
//   {do: "open", base, name}   look a drafter up           -> "facts" {bytes, left: of them to fetch,
//                              missing: the parts with them, as [hash, bytes, bytes sent]}
//   {do: "fetch"}              fetch and open it           -> "progress" {bytes}, "ready" {tree}
//   {do: "run", prompt, count, tree, patience, sampling, kind, cutAt, pause}   decode
//                              token ids -> events, as told.js tells them, the last one with the
//                              whole trace; cutAt: tokens after which the link is cut; pause: ms
//                              after each token that is written alone, for whoever reads along
//   {do: "link", delay, up, down}   make the link slower
//   {do: "stop"}, {do: "cut"}, {do: "mend"}   end the run; cut the link, and let it be mended
// and says {type: "failed", words, away} of what went wrong; away: the server.
import { decode } from "./client.js";
import { LinkLost } from "./connection.js";
import { download, facts } from "./download.js";
import { open } from "./drafter.js";
import { Remote } from "./link.js";
import { Words } from "./text.js";
import { Told } from "./told.js";
import { Trace } from "./trace.js";

const link = { delay: 0, up: 0, down: 0 };
let base, found, model, words, remote, stopped = false, cut = false, cutAt = Infinity;

const jobs = {
  async open(asked) {
    base = new URL(asked.base, self.location).href;
    found = await facts(base, asked.name);
    const { bytes, left, missing } = found;
    postMessage({ type: "facts", bytes, left, missing });
  },

  async fetch() {
    const files = await download(base, found, (bytes) => postMessage({ type: "progress", bytes }));
    words = new Words(JSON.parse(new TextDecoder().decode(files.words)), found.special);
    model = await open(found, files);
    postMessage({ type: "ready", tree: found.tree });
  },

  async run({ prompt, count, kind, pause = 0, ...asked }) {
    if (remote && !remote.closed) throw new Error("A run is under way.");
    [stopped, cutAt] = [false, asked.cutAt ?? Infinity];
    remote = new Remote(`${base.replace(/^http/, "ws")}/link`, model, link, kind);
    remote.bar(cut);
    try {
      await remote.connect();
      const { tree = found.tree, patience = 0, sampling } = asked;
      const told = new Told(words, prompt.length), kept = new Trace(prompt, found.tli);
      for await (const event of decode(model, remote, prompt, { count, tree, sampling, patience }, () => stopped)) {
        const { bytes } = remote, trace = kept.add(event, bytes);
        postMessage({ ...told.after(event), bytes, trace });
        if (event.type === "offline token" && pause) await new Promise((done) => setTimeout(done, pause));
        // Not before the drafter has what the target learnt of the prompt.
        if (event.type === "verified" && told.ids.length >= cutAt) jobs.cut();
      }
    } finally {
      remote.close();
    }
  },

  link: ({ delay, up, down }) => Object.assign(link, { delay, up, down }),
  stop: () => (stopped = true),
  cut: () => bar(true),
  mend: () => bar(false),
};

function bar(now) {
  [cut, cutAt] = [now, Infinity];
  remote?.bar(now);
}

self.addEventListener("offline", () => remote?.wire?.drop()); // sooner than its silence is noticed

self.onmessage = async ({ data }) => {
  try {
    await jobs[data.do](data);
  } catch (error) {
    const away = error instanceof LinkLost;
    postMessage({ type: "failed", away, words: away ? "The server cannot be reached." : error.message });
  }
};
