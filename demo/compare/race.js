// The race: methods that ran one after another, replayed together in the time that they took. The value
// is JSON of a whole race (race.py beside this file says what is in it).
import { add, button, calm, el } from "../common/static/dom.js";
import { Lane, together, unfolding } from "../common/race/lane.js";
import { Player } from "../common/race/player.js";
import { legendOf } from "../common/tokens/view.js";

const PLACES = ["1st", "2nd", "3rd", "4th", "5th"];
const seconds = (value) => `${value.toFixed(value < 10 ? 2 : 1)} s`;

let box = null; // the prompt in it, once it has changed
let mark = () => {};
/** A race of another prompt than that in the box is dimmed. */
export const asked = (prompt) => mark((box = prompt));

export function mount({ element, props, watch }) {
  const root = element.firstElementChild;
  const note = el("p", "note");
  const play = button("quiet-button play", "Play", () => (player.playing ? pause() : start()));
  const tracks = el("ol", "tracks");
  const texts = el("div", "texts");
  const long = unfolding(texts, "Show whole texts", () => draw(player.at));
  const clock = el("span", "count");
  const legend = legendOf("accepted", "plain");
  const player = new Player(draw);
  let lanes = []; // {lane, fill, place}
  let race = null; // what is shown
  let finish = 0; // seconds of the slowest lane
  add(root, el("p", "note", "A shorter bar took less time."), tracks, note, add(el("div", "bar"), play, long, clock, legend), texts);

  function bar({ label, colour, seconds: took, range, over, tau, call }, longest) {
    const place = el("span", "place");
    const fill = el("progress", "", "", { ariaLabel: label, value: 1 });
    const share = (value) => `${(100 * value) / longest}%`;
    fill.style.width = share(took);
    const whole = add(el("span", "whole"), fill);
    const { recorded } = race; // of a recording, only one run of each is kept
    const time = add(el("span", "time", took === null ? "to come" : seconds(took)), recorded ? "" : el("small"));
    if (range && !recorded) {
      time.lastChild.textContent = range.map((end) => end.toFixed(2)).join(" to ");
      const whisker = el("span", "whisker");
      [whisker.style.left, whisker.style.width] = [share(range[0]), share(range[1] - range[0])];
      add(whole, whisker);
    }
    const row = add(el("li", "track"), el("span", "name", label), whole, time, el("span", "over", over));
    add(tracks, add(row, add(el("span", "tau", tau), el("small", "", call)), place));
    row.style.setProperty("--lane", colour);
    return { fill, place };
  }

  function track({ lines, rank }) {
    const lane = new Lane(lines[0].method, lines[0].label);
    lane.begin(lines[0], { lines: lines.slice(1) });
    add(texts, lane.root);
    lane.draw(Infinity);
    lane.view.settle();
    return { lane, rank, tokens: lane.pace[0] };
  }

  function build() {
    race = JSON.parse(props.value);
    mark();
    player.pause();
    tracks.replaceChildren();
    root.hidden = !race;
    root.toggleAttribute("data-busy", Boolean(race?.busy));
    if (!race) return;
    const known = race.lanes.every(({ seconds: took }) => took !== null); // else the first bar would be the longest
    const longest = known ? Math.max(...race.lanes.map(({ seconds: took, range }) => Math.max(took, race.recorded ? 0 : (range?.[1] ?? 0)))) : Infinity;
    const drawn = race.lanes.map((one) => bar(one, longest));
    const ran = race.lanes.map((one, at) => [one, drawn[at]]).filter(([{ lines }]) => lines);
    if (ran.length) {
      texts.replaceChildren();
      lanes = ran.map(([one, bars]) => ({ ...bars, ...track(one) }));
      together(lanes.map(({ lane }) => lane));
    }
    if (race.measuring) {
      root.dataset.state = "measuring";
      note.textContent = "These times may still change. When all runs are done, they are replayed together.";
      return;
    }
    finish = Math.max(...lanes.map(({ lane }) => lane.seconds));
    const sharing = (place) => place !== null && lanes.filter(({ rank }) => rank === place).length > 1;
    for (const one of lanes) one.called = one.rank === null ? "" : sharing(one.rank) ? "tie" : PLACES[one.rank];
    const which = race.repeats > 2 ? `the median of ${race.repeats} runs of each` : race.repeats > 1 ? "the slower of 2 runs of each" : "one run of each";
    const level = lanes.some(({ rank }) => sharing(rank)) ? " Too close to tell; more repeats may tell them apart." : "";
    const whose = `${race.recorded ? "Recorded, so this server may be faster or slower," : "Run"} with the prompt “${race.prompt}”`;
    note.textContent = `They took turns; ${which} is replayed in real time.${race.repeats > 1 && !race.recorded ? " Below its time, and as a line over its bar: from the fastest to the slowest." : ""}${level} Tokens per call: after the prompt’s. Other prompts gain more or less: see Benchmarks. ${whose}`;
    player.seek(Infinity);
    if (!calm.matches) watchFor();
  }

  function draw(at) {
    const over = at >= finish;
    for (const { lane, fill, place, called, tokens } of lanes) {
      lane.draw(at);
      fill.value = lane.pace[0] / tokens;
      place.textContent = over ? called : "";
    }
    for (const { lane: { view } } of lanes) {
      view.settle();
      if (over) view.text.scrollTop = 0; // to be compared
    }
    clock.textContent = over ? "" : seconds(at);
    if (over) player.playing = false;
    root.dataset.state = over ? "done" : player.playing ? "running" : "paused";
    play.textContent = player.playing ? "Pause" : over ? "Replay" : "Play";
    return !over && root.isConnected; // taken off the page, it leaves the machine to new runs
  }

  function start() {
    if (player.at >= finish) player.at = 0;
    player.play();
    draw(player.at);
  }

  function pause() {
    player.pause();
    draw(player.at);
  }

  // A race begins when it is first seen; until then its end is there.
  function watchFor() {
    const seen = new IntersectionObserver((entries) => {
      if (!entries.some((entry) => entry.isIntersecting)) return;
      seen.disconnect();
      start();
    });
    seen.observe(tracks);
  }

  mark = () => root.classList.toggle("before", box !== null && (race?.prompt ?? box) !== box);
  watch("value", build);
  build();
}
