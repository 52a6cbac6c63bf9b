// Drafters. Their network is the graph of moa_core/engine/web.py, run by onnxruntime-web; here are
// the caches, and which rows it reads.
import * as ort from "../vendor/ort.wasm.bundle.min.mjs";
import { joined } from "./wire.js";

const CHUNK = 64; // tokens of text read at once: each has attention scores for all before it
const { Tensor, InferenceSession } = ort;
const floats = (data, ...shape) => new Tensor("float32", data, shape);
const wholes = (data, ...shape) => new Tensor("int64", BigInt64Array.from(data, BigInt), shape);

/** Opens a drafter's files: its graph, and its vocabulary. */
export async function open(facts, files) {
  Object.assign(ort.env.wasm, { numThreads: 1, wasmBinary: files.runtime });
  const draft = await InferenceSession.create(files.draft, {
    executionProviders: ["wasm"],
    graphOptimizationLevel: "basic", // fused nodes would round in another way here than elsewhere
    externalData: ["head", "layers"].map((path) => ({ path, data: files[path] })),
  });
  for (const name of ["runtime", "head", "layers"]) files[name].buffer.transfer?.(0); // it has copies
  const vocabulary = new Int32Array(files.vocabulary.buffer);
  const places = new Map(Array.from(vocabulary, (token, place) => [token, place]));
  return { facts, vocabulary, places, draft };
}

/** A drafter at the start of a run. capacity: tokens of text, plus one tree. rows: embeddings of
 * tokens outside its vocabulary, by token. */
export const drafter = (model, ...given) =>
  new { moa: MoA, eagle: Eagle }[model.facts.method](model, ...given);

class Drafter {
  constructor(model, capacity, rows) {
    Object.assign(this, { ...model, capacity, outside: rows, ids: [], length: 0 }); // of its text
    this.caches = {};
    for (const { name, shape } of model.draft.inputMetadata) {
      if (name === "outside") this.width = shape[2];
      if (!/keys$|values$/.test(name)) continue;
      const [, groups, , size] = shape;
      this.caches[name] = floats(new Float32Array(groups * capacity * size), 1, groups, capacity, size);
    }
  }

  /** Put K and V [layers, 2, groups, count, size] of the server into caches, from a slot on. */
  take(names, numbers, count, slot) {
    const parts = names.flatMap((name) => [this.caches[`${name}.keys`], this.caches[`${name}.values`]]);
    let at = 0;
    for (const { data, dims: [, groups, capacity, size] } of parts) {
      for (let group = 0; group < groups; group++) {
        data.set(numbers.subarray(at, (at += count * size)), (group * capacity + slot) * size);
      }
    }
  }

  /** Text from a position on: each token sees those before it; only the last one's outputs matter.
   * more: inputs of tokens from one place to another. */
  async readText(tokens, start, more) {
    let found;
    for (let at = 0; at < tokens.length; at += CHUNK) {
      const part = tokens.slice(at, at + CHUNK), from = start + at, last = part.length - 1;
      const positions = part.map((_, row) => from + row), sees = (row, slot) => slot <= from + row;
      if (at + CHUNK >= tokens.length) this.catchUp();
      found = await this.read(part, positions, sees, last, more(at, at + part.length));
    }
    return found;
  }

  /** Nodes at a position: each sees the text before it and its own path. */
  readNodes({ tokens, paths }, text, position, more) {
    const seen = paths.map((path) => new Set(path.map((node) => text + node)));
    const sees = (row, slot) => slot < text || seen[row].has(slot);
    return this.read(tokens, tokens.map(() => position), sees, 0, more);
  }

  /** Read tokens into the slots after `length`; returns the graph's outputs. */
  async read(tokens, positions, sees, first, more) {
    const count = tokens.length, past = this.length, end = past + count;
    if (end > this.capacity) throw new Error("The text is longer than its caches.");
    const bias = Float32Array.from({ length: count * end }, (_, at) =>
      sees(Math.floor(at / end), at % end) ? 0 : -Infinity);
    const found = await this.draft.run({
      positions: wholes(positions, 1, count),
      bias: floats(bias, 1, 1, count, end),
      slots: wholes(tokens.map((_, row) => past + row), count),
      end: wholes([end], 1),
      first: wholes([first], 1),
      places: wholes(tokens.map((token) => this.places.get(token) ?? -1), count),
      outside: floats(this.embeddings(tokens), 1, count, this.width),
      ...this.caches,
      ...more,
    });
    for (const name in this.caches) this.caches[name] = found[`new.${name}`] ?? this.caches[name];
    this.length = end;
    return found;
  }

  catchUp() {}

  /** Embeddings [n, E] of tokens outside the vocabulary; 0 for others. */
  embeddings(tokens) {
    const rows = new Float32Array(tokens.length * this.width);
    tokens.forEach((token, row) => {
      if (!this.places.has(token)) rows.set(this.outside.get(token), row * this.width);
    });
    return rows;
  }
}

/** Mixture of Attentions (arXiv 2410.03804), the client's half: see moa_core/drafters/moa.py. */
class MoA extends Drafter {
  observed = []; // of verified tokens not yet read

  observe(ids, outputs) {
    this.observed.push({ ...outputs, known: this.ids.length, count: ids.length });
    this.ids.push(...ids);
    this.memory = { "memory.length": wholes([this.ids.length], 1) };
  }

  /** Before the last part of a text: the graph writes its own K and V of a part's last token where
   * those of the target belong. */
  catchUp() {
    const layers = Array.from({ length: this.facts.tli }, (_, at) => `tail.${at}`);
    for (const { memory, tail, known, count } of this.observed.splice(0)) {
      this.take(["memory"], memory, count, known);
      if (tail) this.take(layers, tail, count, known);
    }
  }

  /** Logits after the newest token, which the target has chosen but not yet read. */
  async root(token) {
    this.length = Math.min(this.length, this.ids.length); // a root read before is read again
    const unread = [...this.ids.slice(this.length), token];
    return (await this.readText(unread, this.length, () => this.memory)).logits.data;
  }

  async expand(level) {
    const known = this.ids.length;
    return (await this.readNodes(level, known + 1, known + level.level, this.memory)).logits.data;
  }

  /** Drop everything drafted. The root stays in the text, because it is certain. */
  forget() {
    this.length = this.ids.length + 1;
  }
}

/** EAGLE-2 (arXiv 2406.16858): see moa_core/drafters/eagle.py. Row i of its cache holds feature i and
 * token i + 1, at position i. */
class Eagle extends Drafter {
  features = []; // of verified tokens not yet read

  observe(ids, { features }) {
    this.ids.push(...ids);
    this.features.push(features);
  }

  async root(token) {
    const unread = [...this.ids.slice(this.length + 1), token];
    if (this.features.length) {
      const features = joined(this.features.splice(0)), width = features.length / unread.length;
      const some = (from, to) => this.input([features.subarray(from * width, to * width)], to - from);
      this.newest = await this.readText(unread, this.length, some);
      this.known = this.length;
    }
    this.above = this.newest; // whose features are the next level's input
    return this.above.logits.data;
  }

  async expand(level) {
    const { data, dims: [, , width] } = this.above["new.features"];
    const parents = level.parents.map((row) => data.subarray(row * width, (row + 1) * width));
    const position = this.known + level.level - 1;
    this.above = await this.readNodes(level, this.known, position, this.input(parents, parents.length));
    return this.above.logits.data;
  }

  input(rows, count) {
    const features = joined(rows);
    return { features: floats(features, 1, count, features.length / count) };
  }

  forget() {
    this.length = this.known;
  }
}
