// Small number formats, and joined arrays.

/** bfloat16 is the upper half of float32. */
export function widen(halves) {
  const bits = new Uint32Array(halves.length);
  for (let at = 0; at < halves.length; at++) bits[at] = halves[at] << 16;
  return new Float32Array(bits.buffer);
}

/** int8 numbers with one scale per row. */
export function scaled(whole, scales) {
  const width = whole.length / scales.length, out = new Float32Array(whole.length);
  for (let row = 0, at = 0; row < scales.length; row++) {
    for (const end = at + width; at < end; at++) out[at] = whole[at] * scales[row];
  }
  return out;
}

/** Typed arrays of one kind, joined. */
export function joined(parts) {
  const length = parts.reduce((sum, part) => sum + part.length, 0);
  const whole = new parts[0].constructor(length);
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

/** How many numbers a shape has. */
export const product = (shape) => shape.reduce((one, other) => one * other, 1);
