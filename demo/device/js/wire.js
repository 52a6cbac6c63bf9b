// Messages between client and server: MessagePack, one message per frame, as in moa_core/link.
import "../vendor/index-no-eval.min.js"; // msgpackr

const { pack: encode, unpack: decode } = new globalThis.msgpackr.Packr({ useRecords: false, int64AsType: "number" });
export { decode, encode };
export const VERSION = 2;

export const hello = (terms, session) => ({ type: "hello", version: VERSION, ...terms, session });
export const prefill = (number, ids, capacity, sampling, have) =>
  ({ type: "prefill", number, ids, capacity, sampling, have });
export const verify = (number, position, { tokens, parents }) =>
  ({ type: "verify", number, position, tokens, parents });

/** Joins the parts of a server's messages. */
export class Joiner {
  parts = [];

  /** The message that a frame is or completes; null if parts are missing. */
  take(frame) {
    const message = decode(frame);
    if (message.type !== "part") return message;
    this.parts.push(message.data);
    return message.more ? null : decode(joined(this.parts.splice(0)));
  }
}

/** The server halves of consecutive tokens as one, in float32: tensors [.., tokens, width]. */
export function unpack(halves) {
  const found = {};
  for (const name of Object.keys(halves[0])) {
    const parts = halves.map((half) => floats(half[name]));
    const blocks = halves[0][name][1].slice(0, -2).reduce((one, other) => one * other, 1), rows = [];
    for (let block = 0; block < blocks; block++) {
      for (const part of parts) {
        const size = part.length / blocks;
        rows.push(part.subarray(block * size, (block + 1) * size));
      }
    }
    found[name] = joined(rows);
  }
  return found;
}

/** A tensor's numbers: float32, or bfloat16, which is the upper half of it. */
export function floats([kind, , data]) {
  const aligned = data.slice().buffer; // data may start anywhere in a frame
  if (kind === "f32") return new Float32Array(aligned);
  return new Float32Array(Uint32Array.from(new Uint16Array(aligned), (half) => half << 16).buffer);
}

export function joined(parts) {
  const whole = new parts[0].constructor(parts.reduce((sum, { length }) => sum + length, 0));
  parts.reduce((at, part) => (whole.set(part, at), at + part.length), 0);
  return whole;
}
