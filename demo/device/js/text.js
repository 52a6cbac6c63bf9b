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

  /** A token by itself; a special one by its name. */
  alone(token) {
    return new TextDecoder().decode(this.bytes(token));
  }
}

/** Reads tokens one by one; special ones are not text. Whole characters only: a piece may be "". */
export class Reader {
  constructor(words) {
    this.words = words;
    this.decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  }

  push(token) {
    if (this.words.special(token)) return "";
    return this.decoder.decode(this.words.bytes(token), { stream: true });
  }

  /** Another one that goes on from here. ids: all that this one has read. */
  fork(ids) {
    const twin = new Reader(this.words);
    for (const token of ids) twin.push(token);
    return twin;
  }
}
