// ---- reading the value, at the chosen pace ----

const SLOW = 1400; // milliseconds for a cycle in slow motion: first drafted, then verified
let run = null;
let seen = ""; // of the value
let lines = []; // all lines of this run; those from `next` on are yet to be painted
let next = 0;
let pace = "full";
let paused = false;
let timer = null;

function clear() {
  current = null;
  root.dataset.state = "running";
  text.replaceChildren();
  unpoint();
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
  } else if ("stats" in line) figures(line.stats);
  else if ("measuring" in line) measuring(line.measuring);
  else if ("plain" in line) plain(line.plain);
  else if ("end" in line) end(line);
  return null;
}

const reading = () => text.contains(document.activeElement);

// Paint what is waiting, up to the given number of cycles; returns the last one's box. The newest
// tokens stay in sight; a text that is finished at full speed is there to be read from its beginning.
function advance(cycles) {
  const follow = text.scrollHeight - text.scrollTop - text.clientHeight < 60;
  let box = null;
  let over = false;
  for (; next < lines.length; next += 1) {
    if ("cycle" in lines[next] && cycles-- <= 0) break;
    box = take(lines[next]) || box;
    over ||= "end" in lines[next];
  }
  if (follow && (box || over)) text.scrollTop = over && pace === "full" && !reading() ? 0 : text.scrollHeight;
  return box;
}

// A new run is brought where it can be read, without taking the focus from where it is. One that was
// there before the page looked, or that runs while another tab is open, moves nothing.
function bringIntoSight() {
  const { top, height } = root.getBoundingClientRect();
  if (!height || (top >= 0 && top < 0.25 * window.innerHeight)) return;
  // Not scrollIntoView: Chromium then lets the Tab key go on from here, and not from Run.
  const by = top - parseFloat(getComputedStyle(root).scrollMarginTop);
  window.scrollBy({ top: by, behavior: calm.matches ? "instant" : "smooth" });
}

// One cycle of slow motion: its drafts appear, unjudged; then the target's verdict.
function stage() {
  const box = advance(1);
  if (!box) return;
  box.classList.add("unjudged");
  setTimeout(() => box.classList.remove("unjudged"), calm.matches ? 0 : SLOW / 2);
}

function tick() {
  clearTimeout(timer);
  timer = null;
  if (pace === "full") advance(Infinity);
  else if (pace === "step" || paused) advance(0);
  else {
    stage();
    if (next < lines.length) timer = setTimeout(tick, SLOW);
  }
  show_buttons();
}

// Of messages that come close together gradio's page may take one before another. What then was added
// to something else is no value, and what was added in another order does not begin with what was
// seen: a stream's last message has the whole value, which is then painted anew.
function paint() {
  const value = props.value || "";
  if (typeof value !== "string" || (value && !value.startsWith("{"))) return;
  const head = value.slice(0, value.indexOf("\n"));
  if (!value.startsWith(seen) || !seen) {
    lines = [];
    next = 0;
    paused = false;
    seen = "";
  }
  if (head !== run) {
    run = head;
    if (head) {
      const line = JSON.parse(head);
      pace = line.pace;
      by = line.by;
      root.dataset.run = line.run;
      bringIntoSight();
    }
  }
  for (const line of value.slice(seen.length).split("\n")) if (line) lines.push(JSON.parse(line));
  seen = value;
  if (timer === null) tick();
}

// ---- the buttons of slow motion ----

const press = (words, act) => add(pacer, button("quiet-button", words, act)).lastChild;
const again = press("Replay in slow motion", () => replay("slow"));
const stepwise = press("Replay step by step", () => replay("step"));
const pause = press("Pause", () => {
  paused = !paused;
  tick();
});
const one = press("Next cycle", () => {
  paused = true;
  stage();
  show_buttons();
});
const rest = press("Skip to the end", () => {
  pace = "full";
  tick();
});
const count = add(pacer, el("span", "count")).lastChild;

function replay(how) {
  pace = how;
  paused = false;
  next = 0;
  tick();
  text.focus();
}

function show_buttons() {
  const waiting = next < lines.length;
  const slow = pace !== "full" && waiting;
  const cycles = lines.filter((line) => "cycle" in line).length;
  const done = lines.slice(0, next).filter((line) => "cycle" in line).length;
  const over = lines.some((line) => "end" in line); // decoded, if not yet shown to its end
  again.hidden = stepwise.hidden = slow || !over || !cycles;
  pause.hidden = !(slow && pace === "slow");
  pause.textContent = paused ? "Go on" : "Pause";
  one.hidden = !(slow && (pace === "step" || paused));
  rest.hidden = !slow;
  const place = `cycle ${done} of ${cycles}`;
  count.textContent = slow ? `${place}${over ? ", replayed" : " decoded so far"}` : "";
  if (slow) ending.small.textContent = over ? "decoded already; this is its replay" : "still decoding";
}

watch("value", paint);
paint();
