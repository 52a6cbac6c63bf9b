// The page's link to the server (link.py): kept open, and its loss is noticed at once.
const SILENCE = 4000; // ms without a sign of life, which comes every second
const AGAIN = [300, 1000, 1000, 2000, 5000]; // ms until the next try

export class Link {
  #socket = null;
  #timer = 0;
  #tries = 0;

  /** hear: told of each message; turned: whether the server can be reached, when that changes: until
   *  the first try has failed, it can. */
  constructor(hear, turned) {
    Object.assign(this, { hear, turned, up: true });
    this.url = new URL("live/link", document.baseURI).href.replace(/^http/, "ws");
    window.addEventListener("offline", () => this.#lose());
    window.addEventListener("online", () => this.#open());
    this.#open();
  }

  /** Whether it was sent, or will be as soon as the page's first connection is there. */
  say(message) {
    const [socket, send] = [this.#socket, () => socket.send(JSON.stringify(message))];
    if (this.up && socket.readyState === WebSocket.CONNECTING) socket.addEventListener("open", send);
    else if (this.up) send();
    return this.up;
  }

  #open() {
    if (this.#socket) return; // whose silence is being waited for
    clearTimeout(this.#timer);
    const socket = (this.#socket = new WebSocket(this.url));
    this.#wait();
    socket.onclose = () => socket === this.#socket && this.#lose();
    socket.onopen = () => {
      [this.up, this.#tries] = [true, 0];
      this.turned(true);
    };
    socket.onmessage = ({ data }) => {
      if (socket !== this.#socket) return;
      this.#wait();
      const message = JSON.parse(data);
      if (!message.alive) this.hear(message);
    };
  }

  #wait() {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#lose(), SILENCE);
  }

  #lose() {
    const [socket, was] = [this.#socket, this.up];
    [this.#socket, this.up] = [null, false];
    clearTimeout(this.#timer);
    socket?.close();
    if (was) this.turned(false);
    this.#timer = setTimeout(() => this.#open(), AGAIN[Math.min(this.#tries++, AGAIN.length - 1)]);
  }
}
