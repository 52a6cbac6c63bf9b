// ---- the connection is cut: the drafter runs in this browser, and its link to the server is lost ----
//
// All that the page gives: `began`, told of a run's first line; `show`, which adds a line; `trigger` of
// the view's events "left", "taken", "drafted" and "here"; `say`, `told`, `link`, `tick`, `root`.

const base = new URL("device", document.baseURI).href;
const READ = 1000 / 15; // ms for a token that is written alone: to be read, and to be joined again
let device = null; // the drafter, once its script is here
let drafts = null; // what it is asked to decode, until it has
let silence = null; // timer: no more tokens come

const connected = () => document.querySelector("#connection input").checked;
const standing = el("p", "drafter-state", "", { role: "status" }); // under the switch
const stands = add(standing, el("span")).lastChild;
const loads = add(standing, button("quiet-button", "Load it", () => device.load(), { hidden: true })).lastChild;

const STATES = {
  none: () => device.words && `${device.words} The server cuts its link instead.`,
  "not loaded": () => `The drafter is not in this browser yet: ${device.advice}`,
  loading: () => `Loading the drafter: ${Math.floor(100 * device.share)} %`,
  ready: () => "The drafter is in this browser, ready to be cut off.",
  offline: () => "The drafter writes alone, in this browser.",
};

function show_state() {
  const { state } = device, instead = ["not loaded", "loading"].includes(state) && !connected();
  if (!standing.isConnected) document.querySelector("#connection").append(standing);
  standing.dataset.state = state;
  stands.textContent = STATES[state]() + (instead ? " Until then the server cuts its link instead." : "");
  loads.hidden = state !== "not loaded";
  const here = ["ready", "offline"].includes(state) ? device.name : "";
  if (window.drafterHere === here) return;
  window.drafterHere = here;
  trigger("here");
}

import(`${base}/js/device.js`).then(({ Device }) => {
  device = new Device(base, hear);
  if (run) began(JSON.parse(run));
});

began = ({ from, method: name, device: asked }) => {
  if (from) trigger("taken"); // the run after it is cut where runs are by default
  if (drafts) device.tell("stop"); // something else is shown now
  if (name) device?.choose(name);
  drafts = asked && device ? { ...asked, run: root.dataset.id } : null;
  if (!drafts) return;
  device.tell("mend");
  const cutAt = connected() ? Infinity : drafts.cutAt;
  device.run({ ...drafts, cutAt, pause: READ, patience: 60_000 });
};

function hear(data) {
  show_state();
  if (!drafts || drafts.run !== root.dataset.id) return;
  if (data.line) show({ ...data.line });
  clearTimeout(silence);
  if (data.type === "offline token") silence = setTimeout(at_its_end, 2000);
  if (data.type === "failed") {
    show({ end: "error", summary: data.words });
    report([]);
  } else if (data.trace) report(data.trace);
}

function at_its_end() {
  link = "The drafter has reached its limit: turn the connection on, or press Stop.";
  say();
}

// The server keeps the run as any other: to be compared, saved, and looked into.
function report(events) {
  drafts = null;
  window.drafted = JSON.stringify({ version: 1, about: {}, events });
  trigger("drafted");
}

window.addEventListener("click", ({ target }) => target.closest("#stop") && drafts && device.tell("stop"), true);

// Cut while the server decodes, the run begins anew up to where it was seen to be: in this browser, or
// on the server if the drafter is not here.
window.addEventListener("link-turned", ({ detail: on }) => {
  show_state();
  if (drafts) return device.tell(on ? "mend" : "cut");
  if (on || root.dataset.state !== "running" || recorded) return;
  trigger("left"); // not by Stop, which might reach the server late and stop the next run
  const where = window.drafterHere ? "the drafter moves to this browser" : "the drafter goes on alone, on the server";
  [moving, paused, link] = [true, true, `The connection is cut: ${where}.`];
  tick();
});

window.addEventListener("run-again", () => {
  const again = document.querySelector("#run");
  const wait = setInterval(() => {
    if (again.disabled) return; // until the server has ended the run
    clearInterval(wait);
    again.click();
  }, 50);
});
