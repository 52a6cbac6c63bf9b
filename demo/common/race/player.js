// A clock for lanes that are played together, in the time that they really took.
const FRAME = 30; // ms: more frames would take time from a run on the same machine

/** draw(at): draws what is due at this second; returns whether there is more to come. */
export class Player {
  #drawn = null; // when the last frame was drawn
  #frame = 0; // the id of the requested one

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
    cancelAnimationFrame(this.#frame);
  }

  seek(at) {
    this.at = at;
    return this.draw(at);
  }

  #next() {
    cancelAnimationFrame(this.#frame);
    this.#frame = requestAnimationFrame((time) => this.#tick(time));
  }

  #tick(time) {
    if (!this.playing) return;
    if (time - this.#drawn < FRAME) return this.#next();
    if (this.#drawn !== null) this.at += (time - this.#drawn) / 1000;
    this.#drawn = time;
    if (this.draw(this.at)) this.#next();
    else this.playing = false;
  }
}
