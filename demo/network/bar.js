// Run, Stop and the switch that cuts the link, for all lanes.
import { onTab } from "../common/static/page.js";

const press = (name) => document.querySelector(`#net-${name}`);
const busy = (lane) => ["running", "lost", "back"].includes(lane.state);
const all = [];
let frame = null;
let props = {};
let used = 1;
let isCut = false;

const on = () => all.slice(0, used);

export function mount(given) {
  ({ props } = given);
  frame = given.element.firstElementChild;
  onTab((tab) => tab === "network" && !all[0]?.name && choose(props.first));
}

/** A lane is there. */
export function join(lane, place) {
  all[place] = lane;
}

export function choose(method) {
  const names = props.lanes[method];
  used = names.length;
  all.forEach((lane, at) => names[at] && lane.choose(...names[at]));
  show();
}

/** speeds: of the links by name: a round trip in ms, and Mbit/s to and from the server. */
export async function run(speeds, method, text, count, link) {
  if (press("run").disabled) return;
  press("run").disabled = true;
  document.querySelector("#net-status .status-line").dataset.kind = "";
  choose(method);
  slow(speeds, link);
  try {
    const answer = await fetch(new URL("device/ids", document.baseURI), { method: "POST", body: JSON.stringify({ text }) });
    const { ids, error } = await answer.json();
    if (!ids) throw new Error(error ?? "The server does not answer.");
    for (const lane of on()) lane.start({ prompt: ids, count, patience: 60_000 });
  } catch (error) {
    all[0].said = error.message;
  }
  show();
}

export function stop() {
  for (const lane of on()) lane.send({ do: "stop" });
}

export function cut() {
  isCut = !isCut;
  for (const lane of on()) lane.send({ do: isCut ? "cut" : "mend" });
  show();
}

export function slow(speeds, link) {
  const [trip, up, down] = speeds[link];
  for (const lane of all) lane.send({ do: "link", delay: trip / 2, up, down });
}

// Of a duel that is over: who gained more, and whether both wrote the same.
function verdict(lanes) {
  if (lanes.length < 2 || lanes.some((lane) => lane.state !== "done" || !lane.tau)) return [];
  const [first, second] = lanes.toSorted((one, other) => other.tau - one.tau);
  const [most, less] = [first, second].map(({ tau }) => tau.toFixed(2));
  const who = most === less
    ? `Both gain ${most} tokens per round trip.`
    : `${first.title} gains more per round trip: ${most} tokens, ${second.title} ${less}.`;
  return [who, first.text === second.text ? "Both wrote the same text." : "Their texts differ."];
}

export function show() {
  const lanes = on();
  const running = lanes.some(busy);
  if (!running && isCut) return cut(); // the next run begins with a link
  const each = lanes.filter((lane) => lane.said).map((lane) => (lanes.length > 1 ? `${lane.title}: ` : "") + lane.said);
  const words = [...verdict(lanes), ...each].join(" ");
  const said = document.querySelector("#net-status .status-line");
  if (said.dataset.kind !== "error" && said.textContent !== words) said.textContent = words;
  const share = lanes.find((lane) => lane.share)?.share;
  const bar = document.querySelector("#net-status progress");
  bar.hidden = !share;
  bar.value = share ?? 0;
  frame.dataset.state = !running ? "idle" : isCut ? "cut" : lanes.some((lane) => lane.state === "lost") ? "lost" : "up";
  frame.querySelector("b").textContent = { cut: "✂", lost: "?" }[frame.dataset.state] ?? "";
  press("run").disabled = running;
  for (const name of ["stop", "cut"]) press(name).disabled = !running;
  press("cut").textContent = isCut ? "Restore the link" : "Cut the link";
}
