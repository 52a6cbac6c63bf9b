// What guessing saves where each model call is a round trip: of a recorded run, then of the visitor's.
import { add, el, many } from "../common/static/dom.js";

const seconds = (value) => `${value.toFixed(1)}\u00a0s`;
let own = () => {};

/** needed: of each drafter of the visitor's run: its name, its calls, its seconds in the target and in the
 *  drafter, those of the target for one check and its guesses, the calls without it, and whether other work
 *  disturbed them. */
export const tell = (needed) => needed.length && own(needed);

/** props.runs: drafted, plain, streamed, and drafted where the target is, streamed: name, round trips, seconds in the target and in the drafter; props.trip: ms at first;
 *  props.check: seconds of a call of plain decoding, then those of a check: for any number of guesses, and more for each. */
export function mount({ element, props: { runs, trip: first, check: [alone, some, more] } }) {
  const [whose, trip, bars, whence, said, streams] = [".whose", "input", ".bars", ".whence", ".conclusion", ".streams"].map((one) => element.querySelector(one));
  const [, [plain, , recorded], [streamed], there] = runs;
  let before = "Recorded without a cut:";
  let drafter = "a drafter on your side";
  let drafted = false; // in this browser
  let rough = false; // other work disturbed the run

  own = (needed) => {
    const [{ count, check, guesses }] = needed;
    if (check === undefined) return;
    const ratio = alone / (some + more * guesses);
    drafter = needed.length > 1 ? `${needed[0].name} here` : "the drafter here";
    [drafted, rough] = [true, needed.some(({ busy }) => busy)];
    const each = ratio * check; // on the same machine, as busy as it is
    const mine = needed.map((one) => [one.name, one.calls, one.target, one.drafting]);
    const alike = (count * each) / recorded; // with a drafter on the server, as much faster as recorded
    runs = [...mine, [plain, count, count * each, 0], [streamed, 1, count * each, 0], [there[0], 1, alike * there[2], alike * there[3]]];
    before = "Your run, without the time of a cut:";
    whence.textContent = `measured in your run, on the server and in this browser, with trees of ${many(guesses, "guess", "guesses")}. The others were not run: as recorded, a plain call takes ${Math.round(100 * ratio)} % of the median check, an answer drafted on the server ${Math.round((100 * (there[2] + there[3])) / recorded)} % of a plain one.`;
    draw();
  };

  function draw() {
    const away = runs.map(([, calls]) => (calls * trip.value) / 1000);
    const whole = runs.map(([, , target, drafting], at) => target + drafting + away[at]);
    const [ours, each, stream, both] = [whole[0], ...whole.slice(-3)];
    element.querySelector("label span").textContent = `${trip.value} ms`;
    const few = drafted ? "" : `Recorded: ${many(runs[0][1], "round trip")} instead of ${runs.at(-3)[1]}. `; // told by the run itself
    const saved = runs.at(-3)[1] - runs[0][1];
    const pays = saved > 0 ? `it saves time from round trips of ${Math.ceil((1000 * (ours - away[0] - each + away.at(-3))) / saved)} ms` : "it never saves time";
    const told = rough ? "The server was busy, so times are rough."
      : `Computed. A round trip for each call: ${seconds(ours)} with ${drafter}, ${seconds(each)} without one.${ours > each ? ` Guessing is slower: ${pays}.` : ""}`;
    whose.textContent = before;
    bars.classList.toggle("rough", rough);
    const gains = !rough && ours < both;
    said.textContent = `A drafter on your side ${gains ? "saves time, and it writes" : "is for cuts: it writes"} on without the server, though mostly wrong. A stream ${gains || rough ? "stops" : "is faster, but stops"} at a cut.`;
    streams.textContent = `${few}${told}${rough ? "" : ` A stream from the server: ${seconds(stream)}, with a drafter there ${seconds(both)}.`}`;
    const bar = (kind, value) => el("span", `bar ${kind}`, "", { style: `width: ${(100 * value) / Math.max(...whole)}%` });
    bars.replaceChildren(...runs.flatMap(([name, calls, target, drafting], at) => [
      add(el("p"), el("b", "", seconds(whole[at])), ` ${name}: ${many(calls, "round trip")} × ${trip.value} ms = ${seconds(away[at])}, ${seconds(target)} in the target${drafting ? `, ${seconds(drafting)} in the drafter` : ""}`),
      add(el("div", "track"), bar("rest", away[at]), bar("verify", target), bar("draft", drafting)),
    ]));
  }

  element.querySelector(".trips").open = !window.matchMedia("(max-width: 640px)").matches;
  trip.value = first;
  trip.oninput = draw;
  draw();
}
