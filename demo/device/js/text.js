// Text of token ids, without the server.

/** The bytes of each token. words: a string for each, a character per byte. */
export class Words {
  constructor(words, special) {
    Object.assign(this, { words, specials: new Set(special) });
  }

  bytes(token) {
    return Uint8Array.from(this.words[token] ?? "", (char) => char.charCodeAt(0));
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
  decoder = new TextDecoder("utf-8", { ignoreBOM: true });

  /** ids: read already. */
  constructor(words, ids = []) {
    this.words = words;
    for (const token of ids) this.push(token);
  }

  push(token) {
    if (this.words.special(token)) return "";
    return this.decoder.decode(this.words.bytes(token), { stream: true });
  }
}
