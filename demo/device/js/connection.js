// A connection to the server: sends and receives messages, and counts bytes.
import { Joiner, encode } from "./wire.js";

const CONNECT = 5000; // ms for a connection before another one is tried

/** The server was silent for too long, or the connection is gone. */
export class LinkLost extends Error {}
/** The server refused, with a reason. again: a new session may succeed. */
export class Refused extends Error {
  constructor({ reason, again }) {
    super(`The server refused: ${reason}`);
    this.again = again;
  }
}

/** One direction of a link: delays messages like a slower link, and keeps their order. */
class Way {
  free = 0;
  due = 0;
  held = [];

  /** delay: ms. mbps: nothing for no limit. */
  put(bytes, delay, mbps, pass) {
    const now = performance.now();
    this.free = Math.max(now, this.free) + (mbps ? bytes / (125 * mbps) : 0);
    this.due = Math.max(this.due, this.free + delay);
    if (!this.held.length && this.due <= now) return pass();
    this.held.push(pass);
    setTimeout(() => this.held.shift()(), this.due - now); // timers that are due together may swap
  }
}

export class Wire {
  up = new Way();
  down = new Way();
  joiner = new Joiner();
  queue = [];
  gone = false;
  sent = 0;
  received = 0;
  wake = () => {};

  /** link: {delay, up, down}: ms each way and Mbit/s to simulate. It may change at any time. */
  static async open(url, greeting, link) {
    const wire = new Wire(), began = performance.now(), socket = new WebSocket(url);
    Object.assign(wire, { link, socket });
    Object.assign(socket, {
      binaryType: "arraybuffer",
      onmessage: ({ data }) => wire.down.put(data.byteLength, link.delay, link.down, () => wire.heard(data)),
      onclose: () => wire.drop(),
      onopen: () => wire.send(greeting),
    });
    try {
      wire.welcome = await wire.receive(CONNECT);
      if (wire.welcome.type !== "welcome") throw new Error("The server did not answer with a welcome.");
    } catch (error) {
      wire.drop();
      throw error;
    }
    wire.roundTrip = (performance.now() - began) / 3; // TCP's handshake, WebSocket's, and hello
    return wire;
  }

  send(message) {
    if (this.gone) throw new LinkLost();
    const frame = encode(message);
    this.sent += frame.length;
    this.up.put(frame.length, this.link.delay, this.link.up, () => this.gone || this.socket.send(frame));
  }

  heard(frame) {
    if (this.gone) return;
    this.received += frame.byteLength;
    try {
      const message = this.joiner.take(new Uint8Array(frame));
      if (message && message.type !== "alive") this.queue.push(message);
    } catch (error) {
      this.queue.push({ type: "broken", error });
    }
    this.wake();
  }

  /** The next message. LinkLost after `silence` ms without a frame, or if the connection is gone. */
  async receive(silence) {
    while (!this.queue.length) {
      if (this.gone || !(await this.frame(silence))) throw new LinkLost();
    }
    const message = this.queue.shift();
    if (message.type === "broken") throw message.error;
    if (message.type === "refused") throw new Refused(message);
    return message;
  }

  frame(silence) {
    return new Promise((done) => {
      const timer = setTimeout(done, silence, false);
      this.wake = () => (clearTimeout(timer), done(true));
    });
  }

  /** Leave without a goodbye, which would not arrive. */
  drop() {
    if (this.gone) return;
    this.gone = true;
    this.socket.close(4000);
    this.wake();
  }

  close() {
    if (!this.gone) this.socket.close(1000);
    this.gone = true;
  }
}
