// ---- reading the value, and moving through it ----

const TEMPOS = { watch: 300, slow: 1200, full: 0 }; // milliseconds for a cycle, as ?pace= names them
const CHECKED = 0.35; // of them a cycle's drafts stand there alone, and from KEPT on its verdict
const KEPT = 0.6;
const ALONE = 60; // milliseconds for a token that is written alone, at most: they come as fast
const SPEEDS = [["1.2 s per cycle", 1200], ["0.6 s per cycle", 600], ["0.3 s per cycle", 300], ["as decoded", 0]];
let run = null;
let seen = ""; // of the value
let lines = []; // all lines of this run; those from `next` on are yet to be painted
let next = 0;
let tempo = 0;
let pace = TEMPOS[new URLSearchParams(window.location.search).get("pace")] ?? TEMPOS.watch;
let paused = false;
let recorded = false;
let timer = null;
let verdicts = []; // timers of the cycle that is drawn

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

// Paint what is waiting, up to the given number of cycles (the end counts as one) and of lines from
// where the link is lost; returns the last cycle's box. The newest tokens stay in sight.
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

// One cycle: its drafts appear, the target checks them, and what it keeps stays; or a token that was
// written alone. Returns how long to wait for the next.
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

// Of messages that come close together gradio's page may take one before another. What then was added
// to something else is no value, and what was added in another order does not begin with what was
// seen: a stream's last message has the whole value, which is then painted anew.
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

// A run that goes on from another one is shown from there: until it has come so far, the other's text
// stays.
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

// A line of a run that this page decodes itself.
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
  if (isAway(lines[next] ?? {})) advance(0); // all that was written alone
  else step();
  if (!lines.slice(next).some((line) => "cycle" in line) && next < lines.length)
    timer = setTimeout(() => advance(Infinity), tempo); // nothing is left but the figures
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
  [tempo, paused] = [0, Boolean(event.target.closest?.("#run"))]; // a run of one's own comes
  tick();
}

watch("value", paint);
if (props.recorded && !props.value) replay_recorded();
else paint();
show_buttons();
