// A clock for lanes that are played together, in the time that they really took.
const HERE = ["localhost", "127.0.0.1", "[::1]"].includes(window.location.hostname);
const FRAME = HERE ? 150 : 100; // ms: frames take time from a run on the same machine

/** draw(at): draws what is due at this second; returns whether there is more to come. */
export class Player {
  #drawn = null; // when the last frame was drawn
  #timer = 0; // of the next one

  constructor(draw) {
    Object.assign(this, { draw, at: 0, playing: false });
  }

  play() {
    if (this.playing) return;
    [this.playing, this.#drawn] = [true, null];
    this.#next();
  }

  pause() {
    this.playing = false;
    clearTimeout(this.#timer);
  }

  seek(at) {
    this.at = at;
    return this.draw(at);
  }

  #next() {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => requestAnimationFrame((time) => this.#tick(time)), FRAME - 16);
  }

  #tick(time) {
    if (!this.playing) return;
    if (this.#drawn !== null) this.at += (time - this.#drawn) / 1000;
    this.#drawn = time;
    if (this.draw(this.at)) this.#next();
    else this.playing = false;
  }
}
