// Text of token ids, without the server.

export class Words {
  constructor({ words, special }) {
    this.bytes = words.map((word) => Uint8Array.from(word, (char) => char.charCodeAt(0)));
    for (const token of special) this.bytes[token] = new Uint8Array(); // they are not text
  }

  /** Whole characters only, up to the end; then what is incomplete shows as such. */
  text(ids, ended = false) {
    const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
    const parts = ids.map((token) => decoder.decode(this.bytes[token], { stream: true }));
    return parts.join("") + (ended ? decoder.decode() : "");
  }
}

/**
 * The text up to the first stop string to be complete; of two at once the longer counts.
 *
 * Until the text has ended, what may be the beginning of a stop string is held back.
 */
export function cutAt(stops, text, ended) {
  const places = stops
    .map((stop) => ({ start: text.indexOf(stop), size: stop.length }))
    .filter(({ start }) => start >= 0)
    .sort((one, other) => one.start + one.size - other.start - other.size || other.size - one.size);
  if (places.length) return { text: text.slice(0, places[0].start), found: true };
  const begun = (size) => stops.some((stop) => size < stop.length && stop.startsWith(text.slice(-size)));
  let held = ended ? 0 : Math.min(text.length, Math.max(0, ...stops.map((stop) => stop.length - 1)));
  while (held > 0 && !begun(held)) held--;
  return { text: text.slice(0, text.length - held), found: false };
}
