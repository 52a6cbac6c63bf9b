// ---- reading the value, and playing it ----

const TEMPOS = { watch: 300, slow: 1200, full: 0 }; // milliseconds for a cycle, as ?pace= names them
const CHECKED = 0.35; // shares of that time: drafts until CHECKED, the verdict from KEPT on
const KEPT = 0.6;
const ALONE = 60; // most milliseconds per offline token
const SPEEDS = [["1.2 s per cycle", 1200], ["0.6 s per cycle", 600], ["0.3 s per cycle", 300], ["as decoded", 0]];
let run = null;
let seen = ""; // of the value
let lines = []; // all lines of this run; those from `next` on are not drawn yet
let next = 0;
let tempo = 0;
let pace = TEMPOS[new URLSearchParams(window.location.search).get("pace")] ?? TEMPOS.watch;
let paused = false;
let recorded = false;
let timer = null;
let verdicts = []; // timers of the visible cycle

function clear() {
  current = pinned = null;
  root.dataset.state = "running";
  text.replaceChildren();
  point();
  no_figures();
}

function take(line) {
  away(line);
  if ("run" in line) clear();
  else if ("first" in line) {
    close(add(el("span", "cycle"), token("first", line.first, { position: line.at })));
  } else if ("cycle" in line) {
    gain(line);
    return heal(line, cycle(line));
  } else if ("plain" in line) plain(line.plain);
  else if ("end" in line) end(line);
  return null;
}

const reading = () => text.contains(document.activeElement);
const isStep = (line) => "cycle" in line || "end" in line;
const isAway = (line) => "down" in line || "offline" in line || "back" in line;
const cycles = () => lines.filter((line) => "cycle" in line);
const painted = () => lines.slice(0, next).filter((line) => "cycle" in line).length;
const tokens = () => text.querySelectorAll(".token:not(.rejected)").length;

// Draw waiting lines: at most this many cycles (the end counts as one) and offline lines. Returns the
// last cycle's box. Keeps the newest tokens in sight.
function advance(cycles, alone = Infinity) {
  const follow = text.scrollHeight - text.scrollTop - text.clientHeight < 60;
  let box = null;
  let [moved, over] = [false, false];
  for (; next < lines.length; next += 1) {
    const line = lines[next];
    if ((isStep(line) && cycles-- <= 0) || (isAway(line) && alone-- <= 0)) break;
    box = take(line) || box;
    moved ||= isStep(line) || isAway(line);
    over ||= "end" in line;
  }
  settled();
  if (follow && moved) text.scrollTop = over && !tempo && !reading() ? 0 : text.scrollHeight;
  return box;
}

function judge(box) {
  for (const one of verdicts) clearTimeout(one);
  box?.classList.remove("unjudged");
  phase("kept");
}

// Show one cycle (drafted, checked, kept) or one offline token. Returns the time until the next.
function step() {
  judge(text.querySelector(".unjudged"));
  const line = lines[next] ?? {};
  const box = isAway(line) ? advance(0, 1) : advance(1, 0);
  if ("offline" in line) return Math.min(tempo, ALONE);
  if (!box || calm.matches || !tempo) return tempo;
  const long = box.querySelector(".rejected, .accepted, .more") ? tempo : tempo / 4;
  box.classList.add("unjudged");
  phase("drafted");
  verdicts = [
    setTimeout(phase, long * CHECKED, "checked"),
    setTimeout(judge, long * KEPT, box),
  ];
  return long;
}

function tick() {
  clearTimeout(timer);
  timer = null;
  if (held()) return;
  if (recorded && !root.checkVisibility()) timer = setTimeout(tick, 50); // its tab is not open
  else if (paused) advance(0, 0);
  else if (!tempo) {
    judge(text.querySelector(".unjudged"));
    advance(Infinity);
  } else if (next < lines.length) timer = setTimeout(tick, step());
  show_buttons();
}

// gradio's page may handle two close messages in the wrong order. A wrong value is ignored here: the last
// message of a stream has the whole value, which is then drawn again.
function paint() {
  const value = props.value || "";
  if (typeof value !== "string" || !value.startsWith("{")) return;
  const head = value.slice(0, value.indexOf("\n"));
  if (!value.startsWith(seen) || !seen) begin();
  if (head !== run) {
    run = head;
    const line = JSON.parse(head);
    [tempo, paused] = [calm.matches ? 0 : pace, false];
    speed.value = String(tempo);
    root.dataset.id = line.run;
    state("live", line);
  }
  read(value.slice(seen.length));
  seen = value;
  if (timer === null || lines[0].from > tokens()) tick();
}

function begin() {
  [lines, next, seen, recorded] = [[], 0, "", false];
  clearTimeout(timer);
  timer = null;
}

// A run that continues another one is shown from there; until it gets that far, the old text stays.
const brought = (line) =>
  "cycle" in line ? line.accepted.length + (line.bonus ? 1 : 0) : Number("first" in line || "offline" in line);
const held = () =>
  !next && lines[0]?.from > lines.reduce((sum, line) => sum + brought(line), 0) && !("end" in lines.at(-1));

function read(more) {
  for (const line of more.split("\n")) if (line) lines.push(JSON.parse(line));
  if (held()) return;
  if (!next && lines[0].from) advance(0, 0);
  while (next < lines.length && lines[0].from > tokens()) advance(1);
}

// Add a line of a run that this browser decodes.
function show(line) {
  read(JSON.stringify(line));
  if (timer === null) tick();
}

// ---- the buttons ----

const press = (words, ariaLabel, act) =>
  add(pacer, button("quiet-button", words, act, { ariaLabel })).lastChild;
const back = press("‹", "Previous cycle", () => rewind(painted() - 1));
const play = press("▶", "Play", toggle_play);
const on = press("›", "Next cycle", forward);
const speed = el("select", "quiet-button", "", { ariaLabel: "Playback speed" });
add(pacer, speed);
for (const [words, value] of SPEEDS) speed.add(new Option(words, value));
speed.addEventListener("change", () => {
  tempo = pace = Number(speed.value);
  paused = false;
  tick();
});
const count = add(pacer, el("span", "count")).lastChild;

function rewind(cycles) {
  paused = true;
  clearTimeout(timer);
  next = 0;
  advance(Math.max(cycles, 0));
  text.scrollTop = text.scrollHeight;
  judge(null);
  tick();
}

function forward() {
  clearTimeout(timer);
  paused = true;
  tempo ||= 600;
  if (isAway(lines[next] ?? {})) advance(0); // all offline tokens
  else step();
  if (!lines.slice(next).some((line) => "cycle" in line) && next < lines.length)
    timer = setTimeout(() => advance(Infinity), tempo); // only the figures are left
  show_buttons();
}

function toggle_play() {
  if (root.dataset.state === "done" && next >= lines.length) {
    next = 0;
    paused = true;
  }
  paused = !paused;
  tempo ||= pace || 600;
  tick();
}

function show_buttons() {
  const all = cycles().length;
  const waiting = next < lines.length && root.dataset.state !== "done";
  const plays = waiting && !paused && tempo > 0;
  play.textContent = plays ? "❚❚" : "▶";
  play.ariaLabel = plays ? "Pause" : waiting ? "Resume" : "Replay";
  speed.value = String(tempo);
  back.disabled = !painted();
  on.disabled = !waiting;
  play.disabled = speed.disabled = !all;
  count.textContent = all ? `cycle ${painted()} of ${all}` : "";
}

// ---- the keys ----

const STEPS = { ArrowLeft: back, ArrowRight: on, " ": play };
const OWN = "input, textarea, select, [role=tab], [role=radio], [role=slider], [contenteditable]";

function keyed(event) {
  const held = event.altKey || event.ctrlKey || event.metaKey || event.shiftKey;
  if (held || !(event.key in STEPS) || !root.checkVisibility()) return null;
  const own = event.target.closest?.(event.key === " " ? `${OWN}, button, a, summary` : OWN);
  return own ? null : STEPS[event.key];
}

document.addEventListener("keydown", (event) => {
  const made = keyed(event);
  if (!made || event.defaultPrevented) return;
  event.preventDefault();
  made.click();
});

// ---- a recorded run, until something is pressed ----

function replay_recorded() {
  recorded = true;
  tempo = calm.matches ? 0 : 600;
  read(props.recorded);
  state("recorded");
  for (const kind of ["pointerdown", "keydown"]) window.addEventListener(kind, released, true);
  tick();
}

function released(event) {
  if (event.target.closest?.("#tour, .tour")) return; // the tour shows it
  for (const kind of ["pointerdown", "keydown"]) window.removeEventListener(kind, released, true);
  if (!recorded) return;
  state("idle");
  if (pacer.contains(event.target) || (event.type === "keydown" && keyed(event))) return;
  [tempo, paused] = [0, Boolean(event.target.closest?.("#run"))]; // a new run follows
  tick();
}

watch("value", paint);
if (props.recorded && !props.value) replay_recorded();
else {
  state("empty");
  paint();
}
show_buttons();
