// What guessing saves where each model call is a round trip: computed from recorded calls and seconds.
import { add, el, many } from "../common/static/dom.js";

/** props.runs: drafted, plain, streamed: name, round trips, seconds without a link; props.trip: ms at first. */
export function mount({ element, props: { runs, trip: first } }) {
  const [said, trip, bars] = ["p", "input", ".bars"].map((one) => element.querySelector(one));
  const seconds = (value) => `${value.toFixed(1)} s`;
  trip.oninput = () => {
    const away = runs.map(([, calls]) => (calls * trip.value) / 1000);
    const whole = runs.map(([, , here], at) => here + away[at]);
    const [ours, plain, streamed] = whole.map(seconds);
    const pace = whole[2] < whole[0] ? `is faster (${streamed}) but` : `is no faster (${streamed}) and`;
    said.textContent =
      `At ${trip.value} ms a round trip, the recorded text takes ${ours} with a drafter here, ${plain} if the server is asked for each token. ` +
      `A server that streams ${pace} stops when the connection is gone; the drafter writes on, though one so small soon repeats itself.`;
    const bar = (kind, value) => el("span", `bar ${kind}`, "", { style: `width: ${(100 * value) / Math.max(...whole)}%` });
    bars.replaceChildren(...runs.flatMap(([name, calls, here], at) => [
      el("p", "", `${name}: ${many(calls, "round trip")} × ${trip.value} ms = ${seconds(away[at])}, and ${seconds(here)} in the models`),
      add(el("div", "track"), bar("draft", away[at]), bar("verify", here)),
    ]));
  };
  trip.value = first;
  trip.oninput();
}
