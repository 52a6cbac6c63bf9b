// Run, Stop and the switch that cuts the link, for all lanes.
import { el } from "../common/static/dom.js";
import { onTab, showResults } from "../common/static/page.js";
import { amount } from "./lane.js";
import { tell } from "./trips.js";

const press = (name) => document.querySelector(`#net-${name}`);
const busy = (lane) => ["running", "lost", "back"].includes(lane.state);
const all = [];
let frame = null;
let props = {};
let names = []; // of the lanes that are used, each with its title
let isCut = false;
let loading = false;
let wanted = false; // whether a run is to begin once all drafters are here

const on = () => all.slice(0, names.length);

export function mount(given) {
  ({ props } = given);
  frame = given.element.firstElementChild;
  frame.querySelector("#net-load").onclick = load;
  const first = (tab) => tab === "network" && !names.length && choose(props.first);
  onTab(first);
  if (frame.checkVisibility()) first("network"); // it was opened before this came
}

/** A lane is there: the second one comes anew for each duel. */
export function join(lane, place) {
  all[place]?.leave();
  all[place] = lane;
  if (names.length) choose();
}

/** method: in place of the one before. */
export function choose(method) {
  names = props.lanes[method] ?? names;
  all.forEach((lane, at) => (names[at] ? lane.choose(...names[at]) : lane.leave()));
  show();
}

/** Brings the drafters here, one after the other: they share parts. */
async function load() {
  loading = true;
  show();
  for (const lane of on()) await lane.load();
  loading = false;
  show();
}

/** speeds: of the links by name: a round trip in ms, and Mbit/s to and from the server. */
export async function run(speeds, method, text, count, link) {
  if (press("run").disabled) return;
  wanted = loading = true;
  document.querySelector("#net-status .status-line").dataset.kind = "";
  choose(method);
  slow(speeds, link);
  try {
    const ids = await all[0].device.ids(text);
    if (wanted) await load();
    showResults("net-run"); // so that Stop stays in sight
    if (wanted && on().every((lane) => lane.device.ready))
      for (const lane of on()) lane.start({ prompt: ids, count, patience: 60_000 });
  } catch (error) {
    Object.assign(all[0], { state: "failed", said: error.message });
  }
  loading = false;
  show();
}

export function stop() {
  wanted = false;
  for (const lane of on()) lane.device.tell("stop");
}

export function cut() {
  isCut = !isCut;
  for (const lane of on()) {
    lane.device.tell(isCut ? "cut" : "mend");
    if (!isCut) lane.mend();
  }
  show();
}

export function slow(speeds, link) {
  const [trip, up, down] = speeds[link];
  for (const lane of all) lane.device.tell("link", { delay: trip / 2, up, down });
}

// Of a duel that is over: who gained more, and whether both wrote the same.
function verdict(lanes) {
  if (lanes.length < 2 || lanes.some(({ state, shown }) => state !== "done" || !shown.whole || !shown.tau)) return [];
  const [first, second] = lanes.toSorted((one, other) => other.shown.tau - one.shown.tau);
  const [most, less] = [first, second].map(({ shown }) => shown.tau.toFixed(2));
  const who = most === less
    ? `Both gain ${most} tokens per round trip.`
    : `${first.title} gains more per round trip: ${most} tokens against ${less}.`;
  return [who, first.shown.view.written === second.shown.view.written ? "Both wrote the same text." : "Their texts differ."];
}

// Bytes to download before a run. What drafters share counts once.
function due(lanes) {
  const devices = lanes.map(({ device }) => device);
  if (devices.some(({ missing }) => !missing)) return 0;
  const parts = devices.flatMap(({ ready, missing }) => (ready ? [] : missing));
  return [...new Map(parts.map(([hash, , sent]) => [hash, sent])).values()].reduce((sum, one) => sum + one, 0);
}

export function show() {
  const lanes = on();
  const running = lanes.some(busy);
  if (!running && isCut) return cut(); // the next run begins with a link
  const size = loading ? 0 : due(lanes);
  press("load").hidden = !size;
  const offer = size ? [`Run first downloads ${lanes.length > 1 ? "both drafters" : "the drafter"}: ${amount(size)}, once.`] : [];
  const alike = new Set(lanes.map(({ said }) => said)).size < 2; // in a duel, often
  const each = lanes.filter(({ said }, at) => said && !(alike && at)).map(({ title, said }) => (alike ? said : `${title}: ${said}`));
  const last = verdict(lanes);
  const streams = running && !lanes.some((lane) => busy(lane) && !lane.shown.calls);
  const hint = streams ? "You can cut the connection now." : "Press Run, then cut the connection while text streams.";
  const quiet = !each.length && !loading && (streams || !running);
  const [first = "", ...rest] = [...(quiet ? [hint] : []), ...(last.length ? last : each), ...offer].join(" ").split(/(?<=\.) /);
  const words = [first, ...rest].join(" ");
  const said = document.querySelector("#net-status .status-line");
  if (said.dataset.kind !== "error" && said.textContent !== words) said.replaceChildren(el("b", "", first), ["", ...rest].join(" "));
  if (!running) tell(lanes.flatMap(({ needed }) => needed)); // while it writes, the figures are of a part
  const share = lanes.find((lane) => lane.share)?.share;
  const bar = document.querySelector("#net-status progress");
  bar.hidden = !share;
  bar.value = share ?? 0;
  frame.dataset.ended = String(!running && lanes.some(({ state }) => state === "done"));
  frame.dataset.state = !running ? "idle" : isCut ? "cut" : lanes.some((lane) => lane.state === "lost") ? "lost" : "up";
  frame.querySelector("b").textContent = { cut: "✂", lost: "?" }[frame.dataset.state] ?? "";
  press("run").disabled = running || loading;
  press("stop").disabled = !running && !loading;
  press("cut").disabled = !streams;
  press("cut").textContent = isCut ? "Restore the connection" : "✂ Cut the connection";
}
