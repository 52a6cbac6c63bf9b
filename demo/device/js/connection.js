// A connection to the server: messages out and in, bytes counted.
import { Joiner, encode } from "./wire.js";

const CONNECT = 5000; // ms for a connection to come about before another is tried

/** Nothing was heard of the server for too long, or the connection is gone. */
export class LinkLost extends Error {}
/** The server said no, and says why. again: worth trying with a new session. */
export class Refused extends Error {
  constructor({ reason, again }) {
    super(`The server refused: ${reason}`);
    this.again = again;
  }
}

/** A connection: messages out and in, bytes counted. */
export class Wire {
  static async open(url, greeting) {
    const wire = new Wire(), began = performance.now();
    wire.socket = new WebSocket(url);
    wire.socket.binaryType = "arraybuffer";
    wire.socket.onmessage = ({ data }) => wire.heard(data);
    wire.socket.onclose = () => wire.drop();
    wire.socket.onopen = () => wire.send(greeting);
    try {
      wire.welcome = await wire.receive(CONNECT);
      if (wire.welcome.type !== "welcome") throw new Error("The server did not say welcome.");
    } catch (error) {
      wire.drop();
      throw error;
    }
    wire.roundTrip = (performance.now() - began) / 3; // TCP's handshake, WebSocket's, and hello
    return wire;
  }

  constructor() {
    Object.assign(this, { joiner: new Joiner(), queue: [], gone: false, sent: 0, received: 0 });
    this.wake = () => {};
  }

  send(message) {
    if (this.gone) throw new LinkLost();
    const frame = encode(message);
    this.sent += frame.length;
    this.socket.send(frame);
  }

  heard(frame) {
    this.received += frame.byteLength;
    try {
      const message = this.joiner.take(new Uint8Array(frame));
      if (message && message.type !== "alive") this.queue.push(message);
    } catch (error) {
      this.queue.push({ type: "broken", error });
    }
    this.wake();
  }

  /** The next message. LinkLost after so many ms without a frame, or if the connection is gone. */
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
      const timer = setTimeout(() => done(false), silence);
      this.wake = () => {
        clearTimeout(timer);
        done(true);
      };
    });
  }

  /** Leave without a word: nobody would hear it. The server keeps the session for a while. */
  drop() {
    if (this.gone) return;
    this.gone = true;
    this.socket.close(4000);
    this.wake();
  }

  /** Leave for good. */
  close() {
    if (!this.gone) this.socket.close(1000);
    this.gone = true;
  }
}
