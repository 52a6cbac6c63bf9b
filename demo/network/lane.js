// ---- one drafter in a thread of this browser: its text, its figures ----

const net = (window.network ??= { lanes: [] });
const lane = (net.lanes[props.lane] = { choose, start, send, name: "", state: "idle", said: "" });
const box = add(root, root.querySelector(".net-lane")).lastChild;
const base = new URL("device", document.baseURI).href;
always = "offline"; // the entry of the legend that is there from the start
marks[always].hidden = false;
const NOTES = new Map([...box.querySelectorAll("[data-figure]")].map((node) => [node, node.nextElementSibling.textContent]));
let worker = null, size = 0, ready = false, wanted = null, sums = null;

function choose(name, title) {
  if (name === lane.name) return;
  worker?.terminate();
  Object.assign(lane, { name, title, state: "idle" });
  [size, ready, wanted, worker] = [0, false, null, new Worker(`${base}/js/worker.js`, { type: "module" })];
  worker.onmessage = ({ data }) => hear(data);
  worker.onerror = () => hear({ type: "failed", words: "This browser cannot run the drafter." });
  send({ do: "open", base, name });
  box.querySelector("h3").textContent = title;
}

function send(message) {
  worker?.postMessage(message);
}

function start(asked) {
  wanted = asked;
  lane.state = "running";
  if (ready) go();
  else if (size) send({ do: "fetch" });
}

function go() {
  sums = { trips: [], levels: [], cycles: 0, tokens: 0 };
  Object.assign(sums, { confirmed: 0, changed: 0, alone: 0, began: 0, first: null, bytes: null });
  lane.tau = 0;
  begin();
  show({ run: String(performance.now()) });
  send({ do: "run", ...wanted });
}

const HEAR = {
  facts({ bytes }) {
    size = bytes;
    say(`Drafter of ${amount(size)}, downloaded once.`);
    if (wanted) send({ do: "fetch" });
  },
  progress({ bytes }) {
    say(`Downloading the drafter: ${amount(bytes)} of ${amount(size)}.`, bytes / size);
  },
  ready() {
    ready = true;
    if (wanted) go();
  },
  failed({ words }) {
    lane.state = "failed";
    if (sums) show({ end: "error" });
    say(words);
  },
  prefilled({ bytes }) {
    Object.assign(sums, { began: performance.now(), first: bytes, bytes, tokens: 1 });
    say("");
  },
  drafted({ seconds, levels, offline }) {
    if (!offline) sums.levels.push((1000 * seconds) / levels);
  },
  verified({ seconds, worked, emitted, bytes, line, parted }) {
    if (lane.state === "running") sums.trips.push(1000 * Math.max(seconds - worked, 0));
    sums.cycles += 1;
    sums.tokens += emitted.length;
    sums.confirmed += line.confirmed;
    sums.changed += line.changed;
    const waiting = sums.alone - sums.confirmed - sums.changed;
    if (lane.state === "back" && waiting <= 0) say(healed(parted));
    if (waiting <= 0) lane.state = "running";
    Object.assign(sums, { bytes });
    tell();
  },
  link_down() {
    lane.state = "lost";
    say("The link is lost: the drafter continues alone, in this browser.");
  },
  offline_token() {
    sums.alone += 1;
    tell();
  },
  link_back({ tokens }) {
    lane.state = tokens ? "back" : "running";
    say(tokens ? `The link is back: the target checks ${many(tokens, "offline token")}.` : "The link is back.");
  },
  finished({ line, parted }) {
    lane.state = "done";
    const left = sums.alone - sums.confirmed - sums.changed;
    const said = [`${many(sums.tokens + left, "token")} in ${many(sums.cycles + 1, "round trip")}, ${line.summary}.`];
    if (sums.confirmed + sums.changed) said.push(healed(parted));
    if (left) said.push(`The last ${many(left, "token")} were written offline and not verified.`);
    tell();
    say(said.join(" "));
  },
};

function hear(data) {
  if (data.line) show(data.line);
  HEAR[data.type.replace(" ", "_")]?.(data);
}

function healed(parted) {
  const from = parted && sums.changed ? `, from token ${parted.at} on` : "";
  return reviewed(sums.confirmed, sums.changed, from);
}

function say(words, share = null) {
  Object.assign(lane, { said: words, share });
  net.show?.();
}

const median = (values) => [...values].sort((one, other) => one - other)[values.length >> 1];
const amount = (count) => count < 1e3 ? `${count.toFixed(0)} B` : (count < 1e6 ? `${(count / 1e3).toFixed(1)} kB` : `${(count / 1e6).toFixed(1)} MB`);

function figure(name, value, note) {
  const node = box.querySelector(`[data-figure="${name}"]`);
  node.textContent = value;
  if (note) node.nextElementSibling.textContent = note;
}

function tell() {
  const { trips, levels, cycles, tokens, began, first, bytes, alone, confirmed, changed } = sums;
  if (levels.length > 1) figure("level", `${median(levels.slice(1)).toFixed(1)} ms`);
  if (!cycles) return;
  const more = tokens - 1, [up, down] = ["sent", "received"].map((way) => bytes[way] - first[way]);
  figure("speed", ((1000 * more) / (performance.now() - began)).toFixed(0), alone ? "tokens per second, time offline included" : "");
  if (trips.length) figure("trip", `${median(trips).toFixed(0)} ms`);
  figure("tau", (lane.tau = more / cycles).toFixed(2));
  figure("up", amount(up / more), `draft trees; ${amount(up / cycles)} per cycle`);
  figure("down", amount(down / more), `what the drafter reads from the target; ${amount(down / cycles)} per cycle, prompt included`);
  const waits = alone - confirmed - changed;
  if (alone) figure("alone", String(alone), `${confirmed} confirmed, ${changed} changed${waits ? `, ${waits} not verified yet` : ""}`);
}

function end() {
  root.dataset.state = "done";
  const kept = text.cloneNode(true);
  for (const node of kept.querySelectorAll(".rejected, .more")) node.remove();
  lane.text = kept.textContent;
}

function no_figures() {
  for (const [node, note] of NOTES) [node.textContent, node.nextElementSibling.textContent] = ["–", note];
}

function gain() {}
function plain() {}
function state() {}
function settled() {}
function phase() {}
function chosen() {}
