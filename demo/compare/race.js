// The race: recorded runs, replayed slowly enough to be watched. `element`, `props` and `watch` come from
// gradio; this runs once, at mount. The value is a whole race (demo/compare/race.py says what is in it).
const root = element.firstElementChild;
const LONGEST_FRAME = 0.25; // seconds: a page in the background waits rather than jumps
const SHOWN = 6; // seconds that the slowest lane takes on the screen, at least
const reachable = (node) => (node.matches(".more") ? el("span", "more", node.textContent) : node);
let lanes = [];
let finish = 0; // seconds of the slowest lane
let stretch = 1; // how many times slower than recorded it is shown
let now = 0; // seconds into the race
let playing = false;
let drawnAt = null;
let drawing = 0; // the id of the requested animation frame

// ---- the frame ----

const note = el("p", "note");
const legend = tokenLegend(moreSample());
const play = button("quiet-button play", "Play", () => (playing ? pause() : start()));
const tracks = el("ol", "tracks");
const texts = el("div", "texts");
add(root, note, tracks, add(el("div", "bar"), play, legend), texts);

// ---- lanes ----

const seconds = (value) => `${value.toFixed(value < 10 ? 2 : 1)} s`;

const tokensOf = ({ accepted = [], bonus = null, first = null }) => accepted.length + (bonus || first ? 1 : 0);

function lane(run, longest) {
  const [place, time] = ["place", "time"].map((name) => el("span", name));
  const fill = el("progress", "", "", { ariaLabel: run.label });
  const track = el("li", "track");
  track.style.setProperty("--lane", run.colour);
  const label = el("span", "name", run.label);
  add(tracks, add(track, label, fill, time, place));

  const ariaLabel = `Text by ${run.label}`;
  const text = el("div", "text", "", { role: "group", ariaLabel, tabIndex: 0 });
  const state = el("span", "state");
  const head = add(el("h2"), el("span", "name", run.label), state);
  const box = add(el("div", "lane"), head, text);
  box.style.setProperty("--lane", run.colour);
  add(texts, box);
  const { steps } = run;
  return { run, steps, total: steps.at(-1)[0], longest, next: 0, shown: 0, fill, place, time, state, text };
}

function build() {
  const race = props.value;
  tracks.replaceChildren();
  texts.replaceChildren();
  const runs = race?.lanes ?? [];
  root.hidden = !runs.length;
  const lengths = runs.map((run) => run.steps.reduce((sum, [, line]) => sum + tokensOf(line), 0));
  lanes = runs.map((run) => lane(run, Math.max(...lengths)));
  finish = Math.max(0, ...lanes.map((one) => one.total));
  for (const one of lanes) one.rank = lanes.filter(({ total }) => total < one.total).length;
  if (!race) return;
  stretch = finish > 0 && finish < SHOWN ? SHOWN / finish : 1;
  const slow = stretch > 1.5 ? `Slowed ${Math.round(stretch)}×. ` : "";
  const which = race.repeats > 1 ? ` (the median of ${race.repeats})` : "";
  const whose = race.recorded ? "Recorded with the first example, not with your settings. " : "";
  note.textContent = `${whose}${slow}Each method ran alone. This replays its measured run${which}, prefill included.`;
  root.dataset.race = race.id;
  // As high as the whole text, so that the page stands still while it appears.
  end();
  for (const { text } of lanes) {
    text.style.height = "auto";
    text.style.height = text.scrollHeight ? `${text.scrollHeight + 4}px` : "";
  }
  rewind();
  if (calm.matches) end();
  else watchFor();
}

function advance(one) {
  const follow = one.text.scrollHeight - one.text.scrollTop - one.text.clientHeight < 40;
  let moved = false;
  for (; one.steps[one.next]?.[0] <= now; one.next += 1) {
    const [, line] = one.steps[one.next];
    if (line.first) close(add(el("span", "cycle"), token("first", line.first)), one.text);
    else cycle(line, one.text);
    one.shown += tokensOf(line);
    moved = true;
  }
  const over = one.next === one.steps.length;
  one.fill.value = one.shown / one.longest;
  one.time.textContent = seconds(Math.min(now, one.total));
  one.place.textContent = over ? ["1st", "2nd", "3rd", "4th"][one.rank] : "";
  const figures = over ? ` · τ ${one.run.tau} · ${one.run.rate} tokens/s` : "";
  one.state.textContent = many(one.shown, "token") + figures;
  if (moved && follow) one.text.scrollTop = one.text.scrollHeight;
}

// ---- time ----

function draw() {
  for (const one of lanes) advance(one);
  const over = now >= finish;
  root.dataset.state = over ? "done" : playing ? "running" : "paused";
  play.textContent = playing ? "Pause" : over ? "Replay" : "Play";
}

function frame(time) {
  if (!playing) return;
  if (!root.isConnected) return pause(); // taken off the page: leave the machine to new runs
  if (drawnAt !== null) now += Math.min((time - drawnAt) / 1000, LONGEST_FRAME) / stretch;
  drawnAt = time;
  if (now >= finish) end();
  else {
    draw();
    drawing = requestAnimationFrame(frame);
  }
}

function start() {
  if (now >= finish) rewind();
  playing = true;
  drawnAt = null;
  draw();
  cancelAnimationFrame(drawing);
  drawing = requestAnimationFrame(frame);
}

function pause() {
  playing = false;
  draw();
}

function rewind() {
  playing = false;
  now = 0;
  for (const one of lanes) {
    one.next = one.shown = 0;
    one.text.replaceChildren();
  }
  draw();
}

function end() {
  playing = false;
  now = finish;
  draw();
}

// A race begins when it is first seen.
function watchFor() {
  const seen = new IntersectionObserver((entries) => {
    if (!entries.some((entry) => entry.isIntersecting)) return;
    seen.disconnect();
    if (!now) start();
  });
  seen.observe(tracks);
}

watch("value", build);
build();
