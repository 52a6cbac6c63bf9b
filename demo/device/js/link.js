// A target across a link: sends it requests, and notices when the link is lost.
import { LinkLost, Wire } from "./connection.js";
import { floats, hello, prefill, unpack, verify } from "./wire.js";

const SILENCE = 1000; // ms without a sign of life, or ROUND_TRIPS round trips if that is longer
const ROUND_TRIPS = 3;

/** The target for the decode loop, in one run.
 *
 * rows  embeddings of tokens outside the drafter's vocabulary, by token: the server sends them
 */
export class Remote {
  number = 0;
  read = [];
  found = true;
  closed = false;
  barred = false;
  before = { sent: 0, received: 0 }; // over earlier connections
  rows = new Map();

  /** model: of the drafter. kind: number format of messages. link: simulated delays. */
  constructor(url, { facts, places }, link, kind = "bf16") {
    const { name, marks } = facts;
    Object.assign(this, { url, link, places, mark: marks.target });
    this.terms = { token: "", drafter: name, fingerprint: marks.drafter, kind };
  }

  async connect(session = "") {
    if (this.barred) throw new LinkLost();
    const wire = await Wire.open(this.url, hello(this.terms, session), this.link);
    if (this.barred) wire.drop(); // cut meanwhile: the first request will notice
    if (wire.welcome.fingerprint !== this.mark) {
      wire.close();
      throw new Error("The server’s target has changed: reload the page.");
    }
    Object.assign(this, { before: this.bytes, wire });
  }

  close() {
    this.closed = true;
    this.wire?.close();
  }

  /** Bytes sent and received over all its connections. */
  get bytes() {
    const { sent = 0, received = 0 } = this.wire ?? {};
    return { sent: this.before.sent + sent, received: this.before.received + received };
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
  keep(path, bonus) {
    const ids = [0, ...path].map((node) => this.tree.tokens[node]);
    this.read.push(...ids);
    this.keepRows([bonus], this.half);
    return { ids, half: unpack([this.half]) };
  }

  /** The prompt's server half, joined from its shares. After a loss, requests the rest. */
  async promptHalf() {
    this.read = [...this.prompt];
    const all = this.prompt.length;
    let have = this.shares.reduce((sum, share) => sum + share.count, 0);
    if (this.resumed) {
      this.resumed = false;
      this.request = prefill(++this.number, this.prompt, this.capacity, this.sampling, have);
      this.send(this.request);
    }
    while (have < all) {
      const share = await this.receive("share", this.request.number);
      this.shares.push(share);
      const ids = this.prompt.slice(have, (have += share.count));
      this.keepRows(have < all ? ids : [...ids, this.first], share.half);
    }
    return unpack(this.shares.map(({ half }) => half));
  }

  /** Keep the embeddings of these tokens that are outside the vocabulary: the half has no others. */
  keepRows(ids, half) {
    const numbers = half.rows ? floats(half.rows) : [], width = half.rows?.[1][1];
    delete half.rows;
    ids.filter((id) => !this.places.has(id)).forEach((id, at) => {
      this.rows.set(id, numbers.slice(at * width, (at + 1) * width));
    });
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
    const { token, prob, half, ...answer } = await this.receive(kind, request.number);
    Object.assign(this, { half, first: token ?? this.first });
    return { tokens: [token], probs: [prob], ...answer };
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
      const message = await this.wire.receive(silence).catch((error) => this.lose(error));
      if (message.type === kind && message.number === number) return message;
    }
  }

  // ---- a lost link ----

  /** Mark the link as lost, and reconnect in the background. */
  lose(error) {
    if (!(error instanceof LinkLost) && !error.again) throw error;
    this.wire.drop();
    Object.assign(this, { found: false, resumed: true });
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
        if (!(error instanceof LinkLost) && !error.again) return (this.failed = error);
      }
      await new Promise((done) => setTimeout(done, pause));
    }
  }
}
