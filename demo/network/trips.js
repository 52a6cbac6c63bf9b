// What guessing saves where each model call is a round trip: computed from recorded calls and seconds,
// then from the calls of the visitor's own run.
import { add, el, many } from "../common/static/dom.js";

let own = () => {};

/** needed: of each drafter of the visitor's run: its name, its calls, and those without it. */
export const tell = (needed) => needed.length && own(needed);

/** props.runs: drafted, plain, streamed: name, round trips, seconds without a link; props.trip: ms at first. */
export function mount({ element, props }) {
  const [said, trip, bars, note] = ["p", "input", ".bars", ".note"].map((one) => element.querySelector(one));
  const seconds = (value) => `${value.toFixed(1)} s`;
  let [runs, conclude] = [props.runs, recorded];

  function recorded([ours, plain, streamed]) {
    const pace = streamed < ours ? `is faster (${seconds(streamed)}) but` : `is no faster (${seconds(streamed)}) and`;
    return `the recorded text takes ${seconds(ours)} with a drafter here, ${seconds(plain)} if the server is asked for each token. ` +
      `A server that streams ${pace} stops when the connection is gone; the drafter writes on, though one so small soon repeats itself.`;
  }

  own = (needed) => {
    const [{ count }] = needed;
    runs = [...needed.map(({ name, calls }) => [name, calls, 0]), ["Plain, asked for each token", count, 0]];
    conclude = (whole) => `your text waits ${seconds(whole[0])} for the server; without a drafter, it would wait ${seconds(whole.at(-1))}.`;
    note.hidden = true;
    draw();
  };

  function draw() {
    const away = runs.map(([, calls]) => (calls * trip.value) / 1000);
    const whole = runs.map(([, , here], at) => here + away[at]);
    said.textContent = `At ${trip.value} ms a round trip, ${conclude(whole)}`;
    const bar = (kind, value) => el("span", `bar ${kind}`, "", { style: `width: ${(100 * value) / Math.max(...whole)}%` });
    bars.replaceChildren(...runs.flatMap(([name, calls, here], at) => [
      el("p", "", `${name}: ${many(calls, "round trip")} × ${trip.value} ms = ${seconds(away[at])}${here ? `, and ${seconds(here)} in the models` : ""}`),
      add(el("div", "track"), bar("draft", away[at]), bar("verify", here)),
    ]));
  }

  trip.value = props.trip;
  trip.oninput = draw;
  draw();
}
