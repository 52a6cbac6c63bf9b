// The parts of a Llama decoder layer. Matrices are Float32Arrays, row by row.

/** A matrix product, plus bias (if any) and base: [count, columns] -> [count, rows]. */
export class Linear {
  constructor(tensors, name) {
    const weight = tensors[`${name}.weight`];
    [this.rows, this.columns] = weight.shape;
    this.data = weight.data;
    this.bias = tensors[`${name}.bias`]?.data;
  }

  apply(x, base) {
    const { rows, columns, bias } = this, count = x.length / columns;
    const out = new Float32Array(count * rows);
    // An odd last row is paired with itself, which is not slower.
    for (let row = 0; row < count; row += 2) pair(this, x, row, Math.min(row + 1, count - 1), out);
    for (let at = 0; bias && at < out.length; at++) out[at] += bias[at % rows];
    for (let at = 0; base && at < out.length; at++) out[at] += base[at];
    return out;
  }
}

/** Two rows of x times four rows of the matrix: eight independent sums. */
function pair({ data: w, rows, columns }, x, one, other, out) {
  const a = one * columns, b = other * columns, blocks = rows & ~3;
  let y = one * rows, z = other * rows;
  for (let start = 0; start < blocks; start += 4, y += 4, z += 4) {
    const w0 = start * columns, w1 = w0 + columns, w2 = w1 + columns, w3 = w2 + columns;
    let a0 = 0, a1 = 0, a2 = 0, a3 = 0, b0 = 0, b1 = 0, b2 = 0, b3 = 0;
    for (let k = 0; k < columns; k++) {
      const u = x[a + k], v = x[b + k];
      const p = w[w0 + k], q = w[w1 + k], r = w[w2 + k], s = w[w3 + k];
      a0 += u * p; a1 += u * q; a2 += u * r; a3 += u * s;
      b0 += v * p; b1 += v * q; b2 += v * r; b3 += v * s;
    }
    out[y] = a0; out[y + 1] = a1; out[y + 2] = a2; out[y + 3] = a3;
    out[z] = b0; out[z + 1] = b1; out[z + 2] = b2; out[z + 3] = b3;
  }
  for (let last = blocks; last < rows; last++, y++, z++) {
    out[y] = dot(w, last * columns, x, a, columns);
    out[z] = dot(w, last * columns, x, b, columns);
  }
}

function dot(a, i, b, j, count) {
  let sum = 0;
  for (let k = 0; k < count; k++) sum += a[i + k] * b[j + k];
  return sum;
}

/** RMSNorm: each row divided by its root mean square, times a weight per column. */
export function norm(x, weight, eps) {
  const width = weight.length, out = new Float32Array(x.length);
  for (let start = 0; start < x.length; start += width) {
    const scale = 1 / Math.sqrt(dot(x, start, x, start, width) / width + eps);
    for (let k = 0; k < width; k++) out[start + k] = x[start + k] * scale * weight[k];
  }
  return out;
}

/** Rotary position embedding: each number is paired with the one half a head away. */
export class Rope {
  constructor({ angles, scale }, positions) {
    this.half = angles.length;
    this.cos = new Float32Array(positions * this.half);
    this.sin = new Float32Array(positions * this.half);
    for (let at = 0; at < this.cos.length; at++) {
      const position = Math.floor(at / this.half);
      const angle = Math.fround(position * Math.fround(angles[at % this.half]));
      this.cos[at] = Math.cos(angle) * scale;
      this.sin[at] = Math.sin(angle) * scale;
    }
  }

  /** Rotate the heads of each row by the row's position, in place. */
  turn(x, rows) {
    const { half, cos, sin } = this, width = x.length / rows.count;
    for (let head = 0; head < x.length; head += 2 * half) {
      const angle = rows.position(Math.floor(head / width)) * half;
      for (let k = 0, low = head, high = head + half; k < half; k++, low++, high++) {
        const u = x[low], v = x[high], c = cos[angle + k], s = sin[angle + k];
        x[low] = u * c - v * s;
        x[high] = v * c + u * s;
      }
    }
    return x;
  }
}

/** K and V of one layer, one row per slot. Rows after `length` do not count. */
export class Cache {
  constructor(width, capacity) {
    this.width = width;
    this.keys = new Float32Array(width * capacity);
    this.values = new Float32Array(width * capacity);
    this.length = 0;
  }

  append(keys, values) {
    this.keys.set(keys, this.length * this.width);
    this.values.set(values, this.length * this.width);
    this.length += keys.length / this.width;
  }

  truncate(length) {
    this.length = Math.min(this.length, length);
  }

  /** Append a layer's K and V from the server, each [heads, count, size]. */
  take(numbers, count, size) {
    const { width } = this, heads = width / size, block = count * width;
    const both = [new Float32Array(block), new Float32Array(block)];
    for (let from = 0; from < 2 * block; from += size) {
      const token = (from / size) % count, head = Math.floor(from / size / count) % heads;
      const to = token * width + head * size;
      both[from < block ? 0 : 1].set(numbers.subarray(from, from + size), to);
    }
    this.append(...both);
  }
}

/** New rows of text, the position of each, and the slots that each attends to. */
export const textRows = (start, count) => ({
  count,
  position: (row) => start + row,
  slots: (row) => upTo(start + row + 1),
  last: count > 1 && textRows(start + count - 1, 1), // drafting continues only from the last row
});
/** Nodes of a draft tree at one position: each sees the text and its own path. */
export const nodeRows = (paths, text, position) => ({
  count: paths.length,
  position: () => position,
  slots: (row) => [...upTo(text), ...paths[row].map((slot) => text + slot)],
});
const upTo = (count) => Array.from({ length: count }, (_, slot) => slot);

/** A decoder layer that attends to its own text through a cache, or to a memory. */
export class DecoderLayer {
  constructor(tensors, name, sizes) {
    Object.assign(this, { sizes, before: tensors[`${name}.input_layernorm.weight`]?.data });
    this.after = tensors[`${name}.post_attention_layernorm.weight`].data;
    for (const part of ["q", "k", "v", "o"]) {
      const place = `${name}.self_attn.${part}_proj`; // a cross-attention has no K and V here
      if (tensors[`${place}.weight`]) this[part] = new Linear(tensors, place);
    }
    for (const part of ["gate", "up", "down"]) {
      this[part] = new Linear(tensors, `${name}.mlp.${part}_proj`);
    }
    this.queryNorm = tensors[`${name}.self_attn.q_norm.weight`]?.data; // Qwen3's, of each head
    this.keyNorm = tensors[`${name}.self_attn.k_norm.weight`]?.data;
  }

  cache(capacity) {
    return new Cache(this.sizes.kv_heads * this.sizes.head_dim, capacity);
  }

  /** Self-attention: adds the rows to the cache. Then each node, or the last row of text, attends to
   * the slots it sees. */
  forward(hidden, rope, rows, cache) {
    const x = this.normed(hidden), keys = this.k.apply(x), width = x.length / rows.count;
    const turned = this.keyNorm ? norm(keys, this.keyNorm, this.sizes.eps) : keys;
    cache.append(rope.turn(turned, rows), this.v.apply(x));
    if (!rows.last) return this.finish(hidden, x, rope, rows, cache);
    return this.finish(hidden.slice(-width), x.slice(-width), rope, rows.last, cache);
  }

  /** Cross-attention: every row attends to all of the memory. */
  attend(hidden, rope, rows, memory) {
    const all = upTo(memory.length), everything = { ...rows, slots: () => all };
    return this.finish(hidden, this.normed(hidden), rope, everything, memory);
  }

  normed(hidden) {
    return this.before ? norm(hidden, this.before, this.sizes.eps) : hidden; // EAGLE's has none
  }

  finish(hidden, x, rope, rows, cache) {
    const asked = this.q.apply(x);
    const queries = this.queryNorm ? norm(asked, this.queryNorm, this.sizes.eps) : asked;
    const mixed = attention(rope.turn(queries, rows), rows, cache, this.sizes);
    const between = this.o.apply(mixed, hidden);
    const y = norm(between, this.after, this.sizes.eps);
    const gate = this.gate.apply(y), up = this.up.apply(y);
    for (let at = 0; at < gate.length; at++) gate[at] *= up[at] / (1 + Math.exp(-gate[at]));
    return this.down.apply(gate, between);
  }
}

/** Grouped-query attention: several query heads share a head of K and V. */
function attention(queries, rows, { keys, values, width }, { heads, kv_heads, head_dim: size }) {
  const out = new Float32Array(queries.length);
  for (let row = 0; row < rows.count; row++) {
    const slots = rows.slots(row), weights = new Float32Array(slots.length);
    for (let head = 0; head < heads; head++) {
      const at = (row * heads + head) * size, shared = Math.floor((head * kv_heads) / heads) * size;
      let most = -Infinity, sum = 0;
      for (let one = 0; one < slots.length; one++) {
        weights[one] = dot(queries, at, keys, slots[one] * width + shared, size) / Math.sqrt(size);
        most = Math.max(most, weights[one]);
      }
      for (let one = 0; one < slots.length; one++) {
        sum += weights[one] = Math.exp(weights[one] - most);
      }
      for (let one = 0; one < slots.length; one++) {
        const share = weights[one] / sum, from = slots[one] * width + shared;
        for (let k = 0; k < size; k++) out[at + k] += share * values[from + k];
      }
    }
  }
  return out;
}
