// A drafter in a thread of this browser, with its own link to the target: it writes on when that is lost.
const base = new URL("device", document.baseURI).href;
const READ = 1000 / 15; // ms for a token that is written alone: to be read, and to be joined again

export class Device {
  #worker = null;

  /** changed: told when the state changes; heard: of each event of its runs. */
  constructor(changed, heard) {
    Object.assign(this, { changed, heard, state: "none", name: "", words: "", bytes: 0, share: 0 });
  }

  /** Asks how large a drafter is; then `fetch` loads it. */
  open(name) {
    this.#worker?.terminate();
    Object.assign(this, { name, state: "asking", bytes: 0, share: 0 });
    this.#worker = new Worker(`${base}/js/worker.js`, { type: "module" });
    this.#worker.onmessage = ({ data }) => this.#hear(data);
    this.#worker.onerror = () => this.#hear({ type: "failed", words: "This browser cannot run the drafter." });
    this.#tell({ do: "open", base, name });
    this.changed();
  }

  fetch() {
    this.state = "loading";
    this.#tell({ do: "fetch" });
    this.changed();
  }

  /** Decodes a prompt's token ids; events go to `heard`, the last one with the trace. */
  run(asked) {
    this.running = true;
    this.#tell({ do: "mend" });
    this.#tell({ do: "run", ...asked, pause: READ, patience: 60_000 });
  }

  cut() {
    this.#tell({ do: "cut" });
  }

  mend() {
    this.#tell({ do: "mend" });
  }

  stop() {
    this.#tell({ do: "stop" });
  }

  #tell(message) {
    this.#worker?.postMessage(message);
  }

  #hear(data) {
    if (data.type === "facts") Object.assign(this, { state: "sized", bytes: data.bytes });
    else if (data.type === "progress") this.share = data.bytes / this.bytes;
    else if (data.type === "ready") this.state = "ready";
    else if (data.type === "failed" && !this.running) Object.assign(this, { state: "failed", words: data.words });
    else {
      if (data.trace || data.type === "failed") this.running = false;
      return this.heard(data);
    }
    this.changed();
  }
}
