// What guessing saves where each model call is a round trip: computed from recorded calls and seconds,
// then from the calls of the visitor's own run.
import { add, el, many } from "../common/static/dom.js";

const seconds = (value) => `${value.toFixed(1)} s`;
let own = () => {};

/** needed: of each drafter of the visitor's run: its name, its calls, and the calls without it. */
export const tell = (needed) => needed.length && own(needed);

/** props.runs: drafted, plain, streamed: name, round trips, seconds without a link; props.trip: ms at first. */
export function mount({ element, props: { runs, trip: first } }) {
  const [said, trip, bars, note, streaming] = ["p", "input", ".bars", ".note", ".streamed"].map((one) => element.querySelector(one));
  let conclude = ([ours, plain, streamed]) => {
    const [speed, but] = streamed < ours ? ["faster", "but"] : ["no faster", "and"];
    streaming.textContent = `A server that streams is ${speed} (${seconds(streamed)}) ${but} stops when the connection is gone. The drafter writes on, though one so small soon repeats itself.`;
    return `the recorded text takes ${seconds(ours)} with a drafter here, ${seconds(plain)} if the server is asked for each token.`;
  };

  const [, [plain]] = runs;
  own = (needed) => {
    runs = [...needed, { name: plain, calls: needed[0].count }].map(({ name, calls }) => [name, calls, 0]);
    conclude = (whole) => `your text waits ${seconds(whole[0])} for the server; without a drafter, it would wait ${seconds(whole.at(-1))}.`;
    note.hidden = streaming.hidden = true;
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

  trip.value = first;
  trip.oninput = draw;
  draw();
}
