// A target across a link: sends it requests, and notices when the link is lost.
import { LinkLost, Wire } from "./connection.js";
import { hello, prefill, unpack, verify } from "./wire.js";

const SILENCE = 1000; // ms without a sign of life, or ROUND_TRIPS round trips if that is longer
const ROUND_TRIPS = 3;

/** The target for the decode loop, in one run. */
export class Remote {
  /** header: of the drafter's file. kind: number format of messages. link: simulated delays. */
  constructor(url, header, link, kind = "bf16") {
    const { name, marks } = header;
    Object.assign(this, { url, link, mark: marks.target });
    this.terms = { token: "", drafter: name, fingerprint: marks.drafter, kind };
    Object.assign(this, { number: 0, read: [], found: true, closed: false, barred: false });
    Object.assign(this, { sent: 0, received: 0 });
  }

  async connect(session = "") {
    if (this.barred) throw new LinkLost();
    const wire = await Wire.open(this.url, hello(this.terms, session), this.link);
    if (this.barred) wire.drop(); // cut meanwhile: the first request will notice
    if (wire.welcome.fingerprint !== this.mark) {
      wire.close();
      throw new Error("The server’s target has changed: reload the page.");
    }
    Object.assign(this, this.bytes, { wire });
  }

  close() {
    this.closed = true;
    this.wire?.close();
  }

  /** Bytes sent and received over all its connections. */
  get bytes() {
    const { sent, received } = this.wire ?? {};
    return { sent: this.sent + (sent ?? 0), received: this.received + (received ?? 0) };
  }

  /** Cut the link, or allow reconnecting. */
  bar(cut) {
    this.barred = cut;
    if (cut) this.wire?.drop();
  }

  // ---- requests of the loop ----

  prefill(ids, capacity, sampling) {
    Object.assign(this, { prompt: ids, shares: [], capacity, sampling });
    return this.ask(prefill(++this.number, ids, capacity, sampling, 0));
  }

  verify(tree, position) {
    this.tree = tree;
    return this.ask(verify(++this.number, position, tree));
  }

  /** Accept the root and these nodes; returns their ids and their server half. */
  keep(path) {
    const ids = [0, ...path].map((node) => this.tree.tokens[node]);
    this.read.push(...ids);
    return { ids, half: unpack([this.half]) };
  }

  /** The prompt's server half, joined from its shares. After a loss, requests the rest. */
  async promptHalf() {
    this.read = [...this.prompt];
    let have = this.shares.reduce((sum, share) => sum + share.count, 0);
    if (this.resumed) {
      this.resumed = false;
      this.request = prefill(++this.number, this.prompt, this.capacity, this.sampling, have);
      this.send(this.request);
    }
    while (have < this.prompt.length) {
      const share = await this.receive("share", this.request.number);
      this.shares.push(share);
      have += share.count;
    }
    return unpack(this.shares.map(({ half }) => half));
  }

  /** Whether a lost link is back; waits for at most `milliseconds`. */
  async back(milliseconds) {
    const look = new Promise((done) => setTimeout(done, milliseconds));
    await (milliseconds ? Promise.race([this.looking, look]) : look);
    if (this.failed) throw this.failed;
    return this.found;
  }

  /** The answer to the last request after a loss: in a new session, which reads the text first. */
  async again() {
    this.resumed = false;
    if (this.read.length) {
      const { read, capacity, sampling } = this, number = ++this.number;
      this.send(prefill(number, read, capacity, sampling, read.length));
      await this.receive("first", number);
    }
    return this.ask({ ...this.request, number: ++this.number });
  }

  // ---- requests and answers ----

  async ask(request) {
    this.request = request;
    this.send(request);
    const kind = request.type === "prefill" ? "first" : "answer";
    const answer = await this.receive(kind, request.number);
    this.half = answer.half;
    const { tokens = [answer.token], probs = [answer.prob], drafts, seconds } = answer;
    return { tokens, probs, drafts, seconds };
  }

  send(message) {
    try {
      this.wire.send(message);
    } catch (error) {
      this.lose(error);
    }
  }

  async receive(kind, number) {
    const silence = Math.max(SILENCE, ROUND_TRIPS * this.wire.roundTrip);
    for (;;) {
      let message;
      try {
        message = await this.wire.receive(silence);
      } catch (error) {
        this.lose(error);
      }
      if (message.type === kind && message.number === number) return message;
    }
  }

  // ---- a lost link ----

  /** Mark the link as lost, and reconnect in the background. */
  lose(error) {
    if (!(error instanceof LinkLost) && !error.again) throw error;
    this.wire.drop();
    this.found = false;
    this.resumed = true;
    this.looking = this.look(this.wire.welcome.session);
    throw new LinkLost();
  }

  async look(session) {
    for (let pause = 100; !this.closed; pause = Math.min(2 * pause, 1000)) {
      try {
        await this.connect(session);
        this.found = true;
        if (this.closed) this.wire.close();
        return;
      } catch (error) {
        if (!(error instanceof LinkLost) && !error.again) {
          this.failed = error;
          return;
        }
      }
      await new Promise((done) => setTimeout(done, pause));
    }
  }
}
