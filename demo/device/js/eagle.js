// EAGLE-2 (arXiv 2406.16858): one decoder layer that predicts the target's next feature.
import { DecoderLayer, Linear, Rope, nodeRows, textRows } from "./layers.js";
import { embed, head } from "./moa.js";
import { joined } from "./numbers.js";

/** Row i of its cache holds feature i and token i + 1, at position i. */
export class Eagle {
  constructor({ header, tensors }, capacity) {
    this.embeddings = tensors.embed;
    this.width = tensors.embed.shape[1];
    this.head = head(tensors);
    this.join = new Linear(tensors, "fc");
    this.layer = new DecoderLayer(tensors, "eagle", header.layers.eagle);
    this.rope = new Rope(header.ropes.eagle, capacity);
    this.cache = this.layer.cache(capacity);
    this.ids = []; // verified tokens
    this.features = []; // of verified tokens not yet read
  }

  observe(ids, { features }) {
    this.ids.push(...ids);
    this.features.push(features);
  }

  root(token) {
    const unread = [...this.ids.slice(this.cache.length + 1), token];
    if (this.features.length) {
      const rows = textRows(this.cache.length, unread.length);
      const features = joined(this.features);
      this.feature = this.step(unread, features, rows);
      this.known = this.cache.length;
      this.features = [];
    }
    this.level = this.feature; // input of the next level
    return this.head.apply(this.level);
  }

  /** The input of each node is its parent's drafted feature. */
  expand({ tokens, parents, paths, level }) {
    const above = embed({ data: this.level, shape: [, this.width] }, parents);
    const rows = nodeRows(paths, this.known, this.known + level - 1);
    this.level = this.step(tokens, above, rows);
    return this.head.apply(this.level);
  }

  forget() {
    this.cache.truncate(this.known);
  }

  /** Join embeddings and previous features, then run the layer. */
  step(tokens, features, rows) {
    const { width } = this, embedded = embed(this.embeddings, tokens);
    const both = new Float32Array(2 * embedded.length);
    for (let row = 0; row < tokens.length; row++) {
      const from = row * width, to = from + width;
      both.set(embedded.subarray(from, to), 2 * from);
      both.set(features.subarray(from, to), 2 * from + width);
    }
    return this.layer.forward(this.join.apply(both), this.rope, rows, this.cache);
  }
}
