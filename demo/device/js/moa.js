// Mixture of Attentions (arXiv 2410.03804), the client's half. The server runs Layer Self-Attention
// over K and V of all the target's layers and sends the memory's K and V, token by token. Here
// self-attention (SA) reads the text, cross-attention (CA) reads the memory, and with Target Layer
// Inference the target's last N layers follow.
import { DecoderLayer, Linear, Rope, nodeRows, norm, textRows } from "./layers.js";

export class MoA {
  constructor({ header, tensors }, capacity) {
    const { layers, ropes, tli } = header;
    const layer = (name) => new DecoderLayer(tensors, name, layers[name]);
    const rope = (name) => new Rope(ropes[name], capacity);
    Object.assign(this, { header, embeddings: tensors.embed, tli, finalNorm: tensors.norm.data });
    this.head = head(tensors);
    this.sa = layer("sa");
    this.ca = layer("ca");
    this.tail = Array.from({ length: tli }, (_, place) => layer(`tail.${place}`));
    Object.assign(this, { saRope: rope("sa"), caRope: rope("ca"), tailRope: rope("tail") });
    this.ids = []; // verified tokens
    this.text = this.sa.cache(capacity); // SA's, drafts included
    this.memory = this.ca.cache(capacity); // CA's, verified tokens only
    this.tailCaches = this.tail.map((one) => one.cache(capacity));
  }

  /** Observe newly verified tokens: their memory and, for N > 0, the last N layers' true K and V. */
  observe(ids, { memory, tail }) {
    this.ids.push(...ids);
    this.memory.take(memory, ids.length, this.ca.sizes.head_dim);
    this.tailCaches.forEach((cache, place) => {
      const size = tail.length / this.tli;
      const own = tail.subarray(place * size, (place + 1) * size);
      cache.take(own, ids.length, this.tail[place].sizes.head_dim);
    });
  }

  /** Logits after the newest token, which the target has chosen but not yet read. */
  root(token) {
    const known = this.ids.length;
    this.text.truncate(known); // a root read before is read again
    const unread = [...this.ids.slice(this.text.length), token];
    const hidden = this.read(unread, textRows(this.text.length, unread.length));
    return this.finish(hidden, textRows(known, 1));
  }

  /** Logits after the nodes of a level. */
  expand({ tokens, paths, level }) {
    const known = this.ids.length, rows = nodeRows(paths, known + 1, known + level);
    return this.finish(this.read(tokens, rows), rows);
  }

  /** Drop everything drafted. The root stays in the text, because it is certain. */
  forget() {
    this.text.truncate(this.ids.length + 1);
    for (const cache of this.tailCaches) cache.truncate(this.ids.length);
  }

  read(tokens, rows) {
    return this.sa.forward(embed(this.embeddings, tokens), this.saRope, rows, this.text);
  }

  finish(hidden, rows) {
    hidden = this.ca.attend(hidden, this.caRope, rows, this.memory);
    this.tail.forEach((layer, place) => {
      hidden = layer.forward(hidden, this.tailRope, rows, this.tailCaches[place]);
    });
    if (this.tli) hidden = norm(hidden, this.finalNorm, this.header.eps);
    return this.head.apply(hidden);
  }
}

/** The target's head: its embeddings, if the two are tied. */
export const head = (tensors) => new Linear({ "head.weight": tensors.head ?? tensors.embed }, "head");

export function embed({ data, shape: [, width] }, tokens) {
  const out = new Float32Array(tokens.length * width);
  tokens.forEach((token, row) => {
    out.set(data.subarray(token * width, (token + 1) * width), row * width);
  });
  return out;
}
