// The visitor's runs: Run and Stop, the cut, the measurement, and what outlives a reload.
import { store, stored } from "../common/static/kept.js";
import { inClass, read, setHere, stepOf } from "../common/static/page.js";
import { first as awaited, replace } from "../common/static/prompt.js";
import { Device } from "../device/js/device.js";
import { Cut } from "./cut.js";
import { files } from "./files.js";
import { Link } from "./link.js";
import { methodOf, named, order, sent } from "./settings.js";
import { Speed } from "./speed.js";
import { Stage } from "./stage.js";

const KEPT = "moa-run"; // its name in kept.js
const ARMED = 12; // tokens of a run that is cut by arrangement
const SETTLED = 250; // ms without a change of the settings

let stage = null;
let link = null;
let cut = null;
let speed = null;
let now = null; // the run: {settings, traces, rival, measured}, and its stage: drafter, plain, "" when over
let told = {}; // of the connection: up, cut, armed
let asked = false; // whether the drafter was asked for, whose facts are to come
let opening = false; // whether a file was sent, whose lines are to come
let since = 0; // when the drafter last wrote a token alone
let props = {};
const device = new Device(heardHere);

export function mount(given) {
  ({ props } = given);
  stage = new Stage(given.element.firstElementChild, { chosen: (cycle) => (wanted = cycle - 1) });
  told = { up: true, cut: false, armed: false };
  link = new Link(hear, turned);
  speed = new Speed(stage.actions, { measure, cancel: () => link.say({ do: "stop" }) });
  // A run that goes on while the page is left: what was read of it is kept.
  window.addEventListener("pagehide", () => now?.doing && keep());
  setInterval(() => (told.cut || now?.doing) && connection(), 500);
  document.querySelector("#stage")?.addEventListener("click", unfolded);
  before(inClass ? null : restored(), inClass ? Infinity : 0);
  settle();
  buttons();
}

// Shows the run before, else the recorded one from a second on.
function before(kept, at) {
  now = kept && { ...kept, doing: "" };
  if (kept) stage.load({ ...kept.lines, measured: kept.measured }, { badge: "your last run", at: Infinity, state: "done" });
  else {
    const recorded = JSON.parse(props.recorded);
    if (recorded) stage.load(recorded, { badge: "recorded", at, mean: props.mean });
    else stage.empty();
  }
}

export function mountCut({ element }) {
  cut = new Cut(element.firstElementChild, {
    turn,
    ask: () => {
      asked = true;
      device.choose(methodOf(newest));
    },
    fetch: () => device.load(),
  });
  connection();
}

// ---- settings: gradio knows them, and tells them with each event ----

let newest = {}; // as last heard
let wrong = ""; // those that were refused, whose message goes when they are changed

let follower = () => {};
/** act: told of the settings when they change. */
export const follow = (act) => (follower = act);

export function changed(...list) {
  newest = named(list);
  follower(newest);
  if (wrong && JSON.stringify(newest) !== wrong) status((wrong = ""));
  settle();
  if (device.name && !now?.doing) device.choose(methodOf(newest));
  connection();
}

// gradio tells of several settings one after the other: what they come to counts.
let settling = 0;
const settle = () => {
  clearTimeout(settling);
  settling = setTimeout(mark, SETTLED);
};

// Says whether what is shown is of these settings: a run from before, or a recorded one, may not be.
function mark() {
  if (!stage || !newest.method || wrong || now?.doing || (now && !now.settings)) return;
  if (!read("live")) return settle();
  if (newest.prompt !== awaited(newest.prompt)) return; // as a page opens, its box has an example at first
  const { head } = stage.drafter;
  const same = now
    ? JSON.stringify(now.settings) === JSON.stringify(newest)
    : !head || (head.method === methodOf(newest) && head.prompt === newest.prompt);
  const what = head?.prompt === newest.prompt ? "The settings have changed" : "A new prompt";
  outdate(same ? "" : `${what}: press Run.`);
}

const outdate = (words) => stage.outdate(words, newest.prompt);

// ---- a run ----

export function run(...list) {
  const settings = (newest = named(list));
  status("");
  const here = device.ready && device.name === methodOf(settings);
  if (!link.up) {
    status("The server cannot be reached, so nothing was run. Your prompt is kept.", "error");
    outdate("Not run. This is the run before.");
    return;
  }
  if (inClass) replace(settings.prompt); // outside the lesson, the run still has its prompt
  const again = now?.settings && JSON.stringify(now.settings) === JSON.stringify(settings) && Boolean(now.here) === here && stage.drafter.whole && !stage.drafter.view.link;
  const earlier = again ? stage.drafter.all.length + 1 : 0;
  now = { settings, traces: {}, measured: null, doing: "drafter", here, step: stepOf() };
  told.cut = false;
  stage.start(settings.tokens, { earlier, coming: told.armed ? `The connection is cut after about ${ARMED} tokens.` : undefined });
  buttons();
  if (here) return runHere(settings);
  link.say({ do: "run", lane: "drafter", settings: sent(settings), after: told.armed ? ARMED : null, lesson: inClass });
}

export function stop() {
  link.say({ do: "stop" });
  if (!now?.doing) return;
  now.stopped = true; // its whole text may be on its way here: no plain run follows
  if (now.here) device.tell("stop");
  if (now.doing === "plain" || !stage.drafter.head) broken("stopped");
}

// The run has no end of its own.
function broken(end) {
  const lane = stage.lanes[now.doing];
  if (lane.head && !lane.lines.at(-1)?.end) stage.hear(now.doing, { end });
  else if (lane === stage.plain && !lane.head) lane.empty("Not run: stopped.");
  finish("stopped");
}

function hear(message) {
  if ("said" in message) return refused(message);
  if (now?.doing && ("step" in message || "measured" in message)) return; // the run has ended it
  if ("step" in message) return measuring(message);
  if ("measured" in message) return measured(message);
  const { lane } = message;
  if (message.run && opening) opened();
  if (now?.doing !== lane) return;
  if ("trace" in message) return traced(lane, message.trace);
  if ("run" in message) {
    status("");
    stage.begin(lane, message, { badge: lane === "plain" ? "for comparison" : "" });
  } else stage.hear(lane, message);
  if (!("down" in message || "offline" in message)) return;
  since = performance.now();
  if ("down" in message && told.armed) Object.assign(told, { armed: false, cut: true }); // by arrangement
  connection();
}

// Lines of a saved trace that was opened.
function opened() {
  opening = false;
  now = { settings: null, traces: {}, measured: null, doing: "drafter" };
  stage.start();
  stage.plain.empty("Only one run is in this file.");
}

// A run is complete, with its trace. Plain decoding follows: one run proves the text and counts the calls.
function traced(lane, trace) {
  now.traces[lane] = trace;
  uncut();
  const whole = stage.lanes[lane].whole;
  const { settings } = now;
  if (lane === "drafter" && whole && settings && settings.method !== "vanilla" && !props.borrows && !now.stopped) {
    now.doing = "plain";
    buttons();
    if (link.say({ do: "run", lane: "plain", settings: sent(settings) })) return;
    stage.plain.empty("Plain decoding needs the server, which cannot be reached.");
  } else if (lane === "drafter" && settings) {
    const stopped = now.stopped ? "Not run: stopped." : "";
    stage.plain.empty(whole ? stopped : "Not run: the drafter’s run is not complete.");
  }
  finish(whole || lane === "plain" ? "done" : "stopped");
}

// A drafter's run is over, and so is its cut. One that was arranged since, during the plain run, stays.
function uncut() {
  if (now.doing === "drafter") told.cut = told.armed = false;
}

function finish(how) {
  uncut();
  now.doing = "";
  stage.finish(how);
  keep();
  buttons();
}

function refused({ said, kind }) {
  if (kind === "wait") return stage.waits(said);
  status(said, kind);
  if (kind !== "error") return;
  opening = false;
  wrong = JSON.stringify(newest);
  outdate("");
  if (now?.doing === "drafter" && !stage.drafter.head) {
    before(restored(), Infinity);
    outdate("Not run. This is the run before.");
  } else if (now?.doing) broken("error");
  buttons(); // a measurement that failed can be asked for again
}

// ---- a run that this browser drafts ----

async function runHere(settings) {
  const mine = now;
  try {
    const ids = await device.ids(settings.prompt);
    if (now !== mine || !mine.doing) return; // stopped meanwhile
    const [head, asked] = order(device, sent(settings), ids, told.armed ? ARMED : Infinity);
    stage.begin("drafter", head, { badge: "drafted in this browser", arrival: true });
    device.tell("mend");
    device.tell("run", asked);
  } catch (error) {
    refused({ said: error.message, kind: "error" });
  }
}

function heardHere(data) {
  if (asked && data.type === "facts" && !device.left) device.load(); // nothing is left to download
  if (["facts", "failed"].includes(data.type)) asked = false;
  connection(); // the drafter's state may have changed
  if (now?.doing !== "drafter" || !now.here) return;
  if (data.line) hear({ lane: "drafter", ...data.line });
  if (data.type === "failed") refused({ said: data.words, kind: "error" });
  else if (data.trace) {
    const { method, prompt } = stage.drafter.head;
    const about = { method, prompt, target: now.settings.target || props.target };
    traced("drafter", JSON.stringify({ version: 1, about, events: data.trace }));
  }
}

// ---- the connection ----

function turn() {
  if (now?.doing !== "drafter") told.armed = !told.armed;
  else {
    told.armed = false;
    told.cut = !told.cut;
    if (now.here) device.tell(told.cut ? "cut" : "mend");
    else link.say({ do: told.cut ? "cut" : "mend" });
    stage.turned(told.cut);
  }
  connection();
}

function turned(up) {
  told.up = up;
  if (!up && now?.doing && !now.here) broken("lost");
  if (!up) measuring({ step: "", share: null });
  if (!up) status("The server cannot be reached. Your prompt and the text are kept.", "error");
  else if (document.querySelector("#status .status-line")?.textContent.includes("cannot be reached")) status("The server is back.", "done");
  connection();
}

function connection() {
  const running = now?.doing === "drafter";
  const head = running && stage.drafter.head;
  const able = head ? Boolean(head.patience) : !props.borrows && !["vanilla", "ngram"].includes(newest.method);
  const left = head && stage.written ? Math.max(0, Math.round(head.patience - (performance.now() - since) / 1000)) : null;
  told.armed &&= able;
  const back = head && stage.drafter.root.dataset.link === "lost";
  cut?.show({ ...told, running, late: now?.doing === "plain", back, able, device, left });
}

// ---- the measurement ----

function offer() {
  const unsure = !now?.measured || now.measured.over.vanilla === null; // then once more
  const asks = now?.settings && !now.doing && unsure && stage.drafter.whole && now.settings.method !== "vanilla";
  const [drafter, plain] = stage.seconds;
  speed.offer(asks && !props.borrows ? Math.max(1, Math.round(3.2 * (2 * drafter + plain))) : null);
}

function measure() {
  if (link.say({ do: "measure", settings: sent(now.settings) })) speed.progress("warming up", 0);
}

function measuring({ step, share }) {
  if (share === null) offer();
  else speed.progress(step, share);
  if (share === null && step) status(step, "done");
}

function measured({ measured: found, rival, lines, traces }) {
  if (!now) return;
  const earlier = stage.drafter.all.length + 1;
  Object.assign(now, { measured: found, rival, traces });
  stage.load({ ...lines, measured: found }, { badge: `median of ${found.runs} runs`, at: Infinity, state: "done", earlier });
  stage.headline.scrollIntoView({ block: "nearest" }); // on a phone, its button is far below
  keep();
  offer();
}

// ---- what outlives a reload, and what other tabs ask for ----

function keep() {
  const { settings, traces, rival, measured: found } = now;
  if (!stage.drafter.head) return; // nothing has come
  const lines = {};
  for (const [name, lane] of Object.entries(stage.lanes)) if (lane.head) lines[name] = [lane.head, ...lane.lines];
  lines[now.doing]?.push({ end: "stopped" });
  store(KEPT, JSON.stringify({ settings, lines, traces, rival, measured: found }));
}

const restored = () => JSON.parse(stored(KEPT));

/** For the server: its own state, then the newest run’s trace and its rival’s; "" for the recorded ones. */
export const traces = () => [null, now?.traces?.drafter ?? "", now?.rival ?? ""];

/** For a lesson and for other tabs; null before it is there. */
export const staged = () => stage;

/** The address of the page without class mode: with the method of the run that it shows. */
export const outside = () => {
  const settings = (now ?? restored())?.settings ?? newest;
  return `?tab=live${settings.method ? `&method=${methodOf(settings)}` : ""}`;
};

/** In a lesson, as another step begins: nothing is cut, and a run that is over is shown as it needs it. */
export function settled(step) {
  if (now?.doing === "plain") stop();
  const { first } = props; // each step begins with this method
  if (first && newest.method && methodOf(newest) !== first) setHere({ method: first });
  stage?.whole();
  const running = now?.doing === "drafter";
  const isCut = stage?.drafter.view.link || (running && (told.armed || told.cut));
  const apart = now && now.step !== step && [step, now.step].includes("training"); // with another tree
  if (told.armed && !running) turn();
  const partial = step === "end" && !stage?.complete; // it sums up a whole one
  const other = now?.settings && methodOf(now.settings) !== first;
  if (now && (apart || partial || other || (isCut && step !== "alone"))) {
    told.armed = told.cut = false;
    stop();
    before(null, Infinity); // the other steps are about runs without a cut, and most about one drafter
    settle();
    buttons();
  }
  stage?.whole();
  stage?.step();
}

let wanted = null;
/** The cycle of the word that was pressed last, once: another tab opens with it. */
export function wantedCycle() {
  const cycle = wanted;
  wanted = null;
  return cycle;
}

export function mountFiles({ element }) {
  const saved = () => now?.traces?.drafter && { trace: now.traces.drafter, method: stage.drafter.head.method };
  files(element, { saved, open: opens, said: (words) => status(words, "error") });
}

function opens(text) {
  stop();
  if (now?.doing) broken("stopped"); // its last lines would mix with the file's
  opening = link.say({ do: "open", text });
  if (!opening) status("The server cannot be reached, so the file was not opened.", "error");
}

// ---- small things ----

// Settings open below the window's end.
function unfolded({ target }) {
  const box = target.closest(".label-wrap")?.closest("#settings");
  if (box) setTimeout(() => box.scrollIntoView({ block: "nearest" }), 100);
}

function status(words, kind = "") {
  const line = document.querySelector("#status .status-line");
  if (line) Object.assign(line, { textContent: words }).dataset.kind = kind;
}

function buttons() {
  offer();
  const [go, end] = ["#run", "#stop"].map((id) => document.querySelector(id));
  if (!go || !end) return void setTimeout(buttons, 50); // gradio has not drawn them yet
  const at = document.activeElement;
  [go.disabled, end.disabled] = [false, false];
  if (at === go && now?.doing === "drafter") end.focus({ preventScroll: true }); // a disabled button has no focus
  if (at === end && !now?.doing) go.focus({ preventScroll: true }); // who reads on stays there
  const waits = inClass && now?.doing; // a lesson compares each run with plain decoding
  [go.disabled, end.disabled] = [Boolean(waits) || now?.doing === "drafter", !now?.doing];
  connection();
}
