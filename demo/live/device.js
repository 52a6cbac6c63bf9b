// ---- the connection is cut: the drafter runs in this browser, and its link to the server is lost ----

const base = new URL("device", document.baseURI).href;
const READ = 1000 / 15; // ms for a token that is written alone: to be read, and to be joined again
let device = null; // the drafter's thread
let drafts = null; // what it is asked to decode, until it has
let silence = null; // timer: no more tokens come

const connected = () => document.querySelector("#connection input").checked;
const tell = (what) => device?.worker.postMessage({ do: what });

began = ({ run, from, device: asked }) => {
  if (from) trigger("taken"); // the run after it is cut where runs are by default
  if (drafts) tell("stop"); // something else is shown now
  drafts = asked ? { ...asked, run } : null;
  if (!asked) return;
  if (device?.name === asked.name && device.ready) return decode_here();
  device?.worker.terminate();
  device = { name: asked.name, worker: new Worker(`${base}/js/worker.js`, { type: "module" }) };
  device.worker.onmessage = ({ data }) => hear(data);
  device.worker.onerror = () => hear({ type: "failed", words: "This browser cannot run the drafter." });
  device.worker.postMessage({ do: "open", base, name: asked.name });
};

function decode_here() {
  tell("mend");
  const cutAt = connected() ? Infinity : drafts.cutAt;
  device.worker.postMessage({ do: "run", ...drafts, cutAt, pause: READ, patience: 60_000 });
}

function hear(data) {
  if (!drafts || drafts.run !== root.dataset.id) return;
  if (data.line) show({ ...data.line });
  clearTimeout(silence);
  if (data.type === "offline token") silence = setTimeout(at_its_end, 2000);
  if (data.type === "facts") {
    told.textContent = `Downloading the drafter to this browser: ${(data.bytes / 1e6).toFixed(1)} MB, once.`;
    tell("fetch");
  } else if (data.type === "ready") {
    device.ready = true;
    decode_here();
  } else if (data.type === "failed") {
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

window.addEventListener("click", ({ target }) => target.closest("#stop") && drafts && tell("stop"), true);

// Cut while the server decodes, the run begins anew in this browser, up to where it was seen to be.
window.addEventListener("link-turned", ({ detail: on }) => {
  if (drafts && device.ready) return tell(on ? "mend" : "cut");
  if (on || drafts || root.dataset.state !== "running" || recorded) return;
  trigger("left"); // not by Stop, which might reach the server late and stop the next run
  [moving, paused, link] = [true, true, "The connection is cut: the drafter moves to this browser."];
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
