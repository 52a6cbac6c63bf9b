// The drafter in this browser, for the page: the only way to it. A page does
//   const drafter = new Device(heard);
//   drafter.choose(name)    look a drafter up; nothing is downloaded
//   drafter.load()          download it, or go on where that stopped, and open it
//   drafter.ids(text)       the token ids of a prompt
//   drafter.leave()         end its thread, and a run with it
//   drafter.tell("run", asked)    decode, once it is ready; or "link", "cut", "mend", "stop": see worker.js
// and hears each event of worker.js, after `state`, `share` and `words` have followed it:
//   "none"        it cannot draft here, and `words` says why: the server cuts the link instead
//   "not loaded"  `bytes` to download, `left` of them, in the parts `missing`
//   "loading"     `share` of it is here
//   "ready"       `tree`: the shape that it was made for
//   "offline"     it writes alone

const MEGA = 1e6;

/** Why this browser cannot draft; "" if it can. */
function lacking() {
  const needed = { WebAssembly: "WebAssembly", Worker: "worker threads", WebSocket: "WebSockets" };
  const missing = Object.keys(needed).filter((name) => !globalThis[name]);
  return missing.length ? `This browser has no ${missing.map((name) => needed[name]).join(" and no ")}.` : "";
}

export class Device {
  state = "none";
  words = "";
  share = 0;
  name = "";
  base = new URL("device", document.baseURI).href;

  constructor(heard) {
    this.heard = heard;
  }

  async ids(text) {
    const asked = fetch(`${this.base}/ids`, { method: "POST", body: JSON.stringify({ text }) });
    const { ids, error } = await asked.then((answer) => answer.json()).catch(() => ({}));
    if (!ids) throw new Error(error ?? "The server cannot be reached.");
    return ids;
  }

  choose(name) {
    if (name === this.name) return;
    this.leave();
    Object.assign(this, { name, state: "none", share: 0, bytes: 0, left: 0, missing: null, words: lacking() });
    if (this.words) return this.heard({ type: "failed", words: this.words });
    this.worker = new Worker(`${this.base}/js/worker.js`, { type: "module" });
    this.worker.onmessage = ({ data }) => this.hear(data);
    this.worker.onerror = ({ message }) => // none: its script did not come
      this.hear({ type: "failed", away: !message, words: message ? "This browser cannot run the drafter." : "The server cannot be reached." });
    this.worker.postMessage({ do: "open", base: this.base, name });
  }

  leave() {
    this.worker?.terminate();
    this.name = "";
  }

  load() {
    if (this.state !== "not loaded") return;
    Object.assign(this, { state: "loading", share: 1 - this.left / this.bytes });
    this.tell("fetch");
    this.heard({ type: "progress", bytes: this.bytes - this.left });
  }

  tell(what, more) {
    this.worker?.postMessage({ do: what, ...more });
  }

  get ready() {
    return ["ready", "offline"].includes(this.state);
  }

  /** What there is to know before `load`. */
  get advice() {
    if (!this.left) return "The drafter is already in this browser: open it, and it writes on here.";
    const { connection: { saveData } = {}, deviceMemory = 8 } = navigator;
    const size = `The drafter, for real cuts in this browser: ${(this.left / MEGA).toFixed(1)} MB, downloaded once and kept.`;
    if (saveData) return `${size} Your browser asks to save data.`;
    return deviceMemory < 2 ? `${size} This device has little memory: it may be slow.` : size;
  }

  hear(event) {
    const { type, words = "", away = false, ...more } = event, loaded = this.ready;
    if (type === "facts") Object.assign(this, more, { state: "not loaded" });
    if (type === "progress") this.share = more.bytes / this.bytes;
    if (type === "ready") this.tree = more.tree;
    if (type === "offline token") this.state = "offline";
    if (type === "ready" || (loaded && ["link back", "finished", "failed"].includes(type))) this.state = "ready";
    else if (type === "failed") {
      const again = this.state === "loading"; // what has arrived is kept
      Object.assign(this, { state: again ? "not loaded" : "none", left: this.bytes * (1 - this.share), words, away });
      if (!this.missing) this.name = ""; // when it is chosen again, it is looked up anew
    }
    this.heard(event);
  }
}
