// Messages between client and server: MessagePack, one message per frame, as in moa_core/link.
import { joined, product, widen } from "./numbers.js";

export const VERSION = 2;

/** The messages a client sends. */
export const hello = (terms, session) => ({ type: "hello", version: VERSION, ...terms, session });
export const prefill = (number, ids, capacity, sampling, have) =>
  ({ type: "prefill", number, ids, capacity, sampling, have });
export const verify = (number, position, { tokens, parents }) =>
  ({ type: "verify", number, position, tokens, parents });

/** Joins the parts of a server's messages. */
export class Joiner {
  constructor() {
    this.parts = [];
  }

  /** The message that a frame is or completes; null if parts are missing. */
  take(frame) {
    const message = decode(frame);
    if (message.type !== "part") return message;
    this.parts.push(message.data);
    if (message.more) return null;
    return decode(joined(this.parts.splice(0)));
  }
}

/** The server halves of consecutive tokens as one, in float32: tensors [.., tokens, width]. */
export function unpack(halves) {
  const found = {};
  for (const name of Object.keys(halves[0])) {
    const parts = halves.map((half) => floats(half[name]));
    const blocks = product(halves[0][name][1].slice(0, -2)), rows = [];
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

function floats([kind, , data]) {
  const aligned = data.slice().buffer; // data may start anywhere in a frame
  return kind === "f32" ? new Float32Array(aligned) : widen(new Uint16Array(aligned));
}

// ---- MessagePack: the parts that these messages need ----

export function encode(value) {
  const bytes = [];
  write(value, bytes);
  return new Uint8Array(bytes);
}

function write(value, out) {
  if (value === null) out.push(0xc0);
  else if (typeof value === "boolean") out.push(value ? 0xc3 : 0xc2);
  else if (Number.isInteger(value)) writeInteger(value, out);
  else if (typeof value === "number") {
    const view = new DataView(new ArrayBuffer(8));
    view.setFloat64(0, value);
    out.push(0xcb, ...new Uint8Array(view.buffer));
  } else if (typeof value === "string") {
    const text = new TextEncoder().encode(value);
    out.push(0xdb, ...four(text.length), ...text);
  } else if (Array.isArray(value)) {
    out.push(0xdd, ...four(value.length));
    for (const one of value) write(one, out);
  } else {
    const pairs = Object.entries(value);
    out.push(0xdf, ...four(pairs.length));
    for (const pair of pairs) pair.forEach((one) => write(one, out));
  }
}

function writeInteger(value, out) {
  if (value >= -32 && value < 128) out.push(value & 0xff);
  else if (value >= 0 && value < 2 ** 16) out.push(0xcd, value >> 8, value & 0xff);
  else if (value >= 0 && value < 2 ** 32) out.push(0xce, ...four(value));
  else {
    const view = new DataView(new ArrayBuffer(8));
    view.setBigInt64(0, BigInt(value));
    out.push(0xd3, ...new Uint8Array(view.buffer));
  }
}

const four = (count) => [count >>> 24, (count >>> 16) & 0xff, (count >>> 8) & 0xff, count & 0xff];

export function decode(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let at = 0;
  const step = (count) => (at += count) - count;
  const unsigned = [() => view.getUint8(step(1)), () => view.getUint16(step(2)),
    () => view.getUint32(step(4)), () => Number(view.getBigUint64(step(8)))];
  const signed = [() => view.getInt8(step(1)), () => view.getInt16(step(2)),
    () => view.getInt32(step(4)), () => Number(view.getBigInt64(step(8)))];
  const data = (count) => bytes.subarray(step(count), at);
  const text = (count) => new TextDecoder().decode(data(count));
  const array = (count) => {
    const found = [];
    for (let one = 0; one < count; one++) found.push(value());
    return found;
  };
  const map = (count) => {
    const found = Object.create(null);
    for (let one = 0; one < count; one++) found[value()] = value();
    return found;
  };
  const value = () => {
    const kind = unsigned[0]();
    if (kind < 0x80) return kind;
    if (kind < 0x90) return map(kind & 0x0f);
    if (kind < 0xa0) return array(kind & 0x0f);
    if (kind < 0xc0) return text(kind & 0x1f);
    if (kind === 0xc0) return null;
    if (kind === 0xc2 || kind === 0xc3) return kind === 0xc3;
    if (kind >= 0xc4 && kind <= 0xc6) return data(unsigned[kind - 0xc4]());
    if (kind === 0xca) return view.getFloat32(step(4));
    if (kind === 0xcb) return view.getFloat64(step(8));
    if (kind >= 0xcc && kind <= 0xcf) return unsigned[kind - 0xcc]();
    if (kind >= 0xd0 && kind <= 0xd3) return signed[kind - 0xd0]();
    if (kind >= 0xd9 && kind <= 0xdb) return text(unsigned[kind - 0xd9]());
    if (kind === 0xdc || kind === 0xdd) return array(unsigned[kind - 0xdb]());
    if (kind === 0xde || kind === 0xdf) return map(unsigned[kind - 0xdd]());
    return kind - 256;
  };
  return value();
}
