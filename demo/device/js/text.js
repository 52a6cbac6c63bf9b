// Text of token ids, without the server.

/** The bytes of each token. */
export class Words {
  constructor({ words, special }) {
    this.names = words;
    this.specials = new Set(special);
  }

  bytes(token) {
    return Uint8Array.from(this.names[token] ?? "", (char) => char.charCodeAt(0));
  }

  special(token) {
    return this.specials.has(token);
  }

  /** The text of a single token; a special token's name. */
  alone(token) {
    return new TextDecoder().decode(this.bytes(token));
  }
}

/** Reads tokens one by one, without special ones. Gives whole characters, so a piece may be "". */
export class Reader {
  constructor(words) {
    this.words = words;
    this.decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  }

  push(token) {
    if (this.words.special(token)) return "";
    return this.decoder.decode(this.words.bytes(token), { stream: true });
  }

  /** Another reader in the same state. ids: all that this one has read. */
  fork(ids) {
    const twin = new Reader(this.words);
    for (const token of ids) twin.push(token);
    return twin;
  }
}

/**
 * The text up to the first complete stop string; the longer one if two end together.
 *
 * Until the text has ended, a possible beginning of a stop string is held back.
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
