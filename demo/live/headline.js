// What the stage says in words: its headline, and the smaller lines beside it. Each function reads
// the stage: its lanes, whether a run goes on, and what was measured.
import { many } from "../common/static/dom.js";
import { inClass } from "../common/static/page.js";
import { depths } from "./cycle.js";
import { figure, perSecond } from "../common/race/lane.js";
import { ENDINGS } from "../common/tokens/view.js";

const AUTO = "trees that size themselves";
const OTHER = `The recording has other times: of another machine, with ${AUTO}.`;

/** The headline, in parts. Nothing is claimed before the end, and then only what is known. */
export function headline(stage) {
  const { drafter, frame } = stage;
  if (!drafter.ended) return [now(stage)];
  if (inClass && drafter.view.link && drafter.whole) return [healed(drafter)]; // that step is about the cut
  const of = inClass ? `, about ${Math.round(drafter.guesses.reduce((sum, one) => sum + one) / drafter.cycles.length)} guesses a call` : ""; // a lesson's own trees have another size
  const recorded = frame.dataset.run === "recorded" ? [`Recorded${of}: `] : [];
  return [...recorded, ...calls(stage), ...text(stage), ...speed(stage), unchecked(drafter)];
}

/** Below it: how far the run is; then why fewer calls are not as much faster, or what a cut did. */
export function costs(stage) {
  const { drafter, plain, complete, live, measured } = stage;
  const lost = drafter.root.dataset.link === "lost";
  if (lost && drafter.ended) return "";
  if (lost) return repeated([...drafter.view.text.querySelectorAll(".offline")].map((node) => node.textContent).join("")) ? "A drafter this small soon repeats itself." : "Nobody checks these words until the connection is back.";
  if (live && plain.head && !plain.ended && !drafter.view.link) return `Plain decoding: ${many(plain.pace[0], "token")} so far.`;
  if (live && drafter.calls && !drafter.view.link) return `So far: ${many(drafter.pace[0], "token")} in ${many(drafter.calls, "model call")}.`;
  if (complete && measured?.over.vanilla === null) return `Fast and slow runs of both overlap, so the medians, ${rates(stage)}, prove nothing.`;
  if (!drafter.view.link) return complete ? gain(stage) : "";
  if (inClass && drafter.ended && drafter.whole) return complete ? plainly([...calls(stage), ...text(stage)]) : "";
  return complete ? [healed(drafter), busy(stage) ? "" : gain(stage)].filter(Boolean).join(" ") : drafter.view.outcome ? `The connection is back. ${drafter.view.outcome}` : drafter.view.link;
}

/** How the run ended, and with what it was drafted. */
export function remarks({ drafter, complete, earlier, mean }) {
  if (drafter.view.link && drafter.root.dataset.link !== "lost") return [];
  const by = drafter.head?.by.replace(`${drafter.head.label}, `, "").replace(AUTO, "as many guesses as save time, so calls vary");
  const easy = complete && repeated(drafter.view.written) > 0.25 && "The text repeats itself"; // its speed says little
  const before = earlier && complete && earlier !== drafter.calls && `${earlier} calls in the run before`;
  return [easy, complete && mean, complete && mean ? "" : by, before, ENDINGS[drafter.ended?.end]].filter(Boolean);
}

/** In sentences: how many guesses were right, how far ahead, what that saved, what it cost, what a cut did,
 *  the rival, and how the recording differs from an own run. */
export function summary(stage) {
  const { drafter } = stage;
  const [right, wrong] = drafter.guesses;
  const saved = drafter.ended ? plainly([...calls(stage), ...text(stage)]).replace(/\.? ?$/, ".") : "";
  const guesses = `A wrong guess costs time, but changes no word: ${right} of ${right + wrong} guesses were right, at most one for each place.`;
  return [right + wrong && guesses, ahead(drafter) || stage.ahead, saved, gain(stage), healed(drafter) || (stage.mended && `After your cut: ${stage.mended.replace(/^./, (first) => first.toLowerCase())}`), rivalry(stage) || stage.rivalry, stage.frame.dataset.run === "done" && OTHER].filter(Boolean);
}

/** How far ahead guesses were right; "" where most trees have fewer than three levels. */
export function ahead({ all }) {
  const kept = (level) => all.filter(({ tree }) => tree?.path.length >= level).length;
  const deep = all.filter(({ tree }) => Math.max(...depths(tree)) >= 3).length > 0.8 * all.length;
  return deep && kept(1) ? `Far ahead, few are right: the next token was right in ${kept(1)} of ${many(all.length, "call")}, the next three all right in ${kept(3)}.` : "";
}

/** Tokens and time of a call against EAGLE-2's, and which was faster; "" before both were measured. */
export function rivalry({ drafter, measured }) {
  const [ours, theirs] = [drafter.head?.method, "eagle2"].map((name) => measured?.lanes.find(({ method }) => method === name));
  if (!ours || !theirs || ours === theirs) return "";
  const over = measured.over.eagle2;
  const faster = over === null ? "no clear winner" : `${drafter.head.label} was ${times(over)} as fast`;
  return `Against EAGLE-2: ${ours.tau.toFixed(2)} tokens a call to its ${theirs.tau.toFixed(2)}, ${call(ours).toFixed(0)} ms a call to its ${call(theirs).toFixed(0)}; ${faster}.`;
}

/** The words of a headline's parts. */
export const plainly = (parts) => parts.map((part) => part.textContent ?? part).join("");

function now({ drafter, live, coming, player, written }) {
  const { head, root, calls: heard, cycles, all } = drafter;
  if (live && !heard) return coming;
  if (!head) return "Press Run: a drafter guesses, the target checks.";
  if (!live && !player.playing) return cycles.length ? `After cycle ${cycles.length} of ${all.length}.` : "The first call only reads the prompt: nothing is guessed yet.";
  if (root.dataset.link === "lost") return `The connection is cut: the drafter ${written ? `${drafter.atEnd}, and waits for the target` : "writes on alone, unchecked"}.`;
  if (head.method === "vanilla") return "Plain decoding: one word per model call.";
  return "The drafter guesses, the target checks. Underlined words were guessed right.";
}

function calls({ drafter, plain, complete, live, player }) {
  const own = figure("calls", drafter.calls, String(drafter.calls));
  if (plain.ended && complete) return [own, ` model calls instead of ${plain.calls}. `];
  const other = live ? "; plain decoding runs now, to compare" : player.playing && plain.head && "; plain decoding is still writing";
  return [own, ` model calls${(!plain.ended && other) || ` for ${many(drafter.pace[0], "token")}`}. `];
}

function text({ drafter, plain, complete, measured }) {
  if (!complete || drafter.head.method === "vanilla") return [];
  const stop = measured ? [] : ["."]; // else the speed goes on with the sentence
  if (drafter.view.written === plain.view.written) return [figure("exact", 1, "Same text"), ...stop];
  return [figure("exact", 0, "The text differs"), " (a near tie that rounding decided, or a draw)", ...stop];
}

function speed(stage) {
  const { measured, complete } = stage;
  if (!measured) return once(stage);
  if (!complete || !("vanilla" in measured.over)) return [];
  const { vanilla: over } = measured.over;
  if (over === null) return [`. Speed: too close to tell (${many(measured.runs, "run")}).`];
  const shown = figure("speedup", over, times(over));
  const slower = [over].flat()[0] < 1;
  shown.classList.toggle("slower", slower);
  const runs = ` on this prompt (${many(measured.runs, "run")}).`;
  return slower ? [", slower: ", shown, ` the speed${runs}`] : [", ", shown, ` as fast${runs}`];
}

// A ratio; where runs differ much, with the least and the most that it may be.
function times(over) {
  const [middle, ...ends] = [over].flat().map((one) => one.toFixed(2));
  return `${ends.length ? `about ${middle} (${ends.join(" to ")})` : middle} ×`;
}

// Of one run each, no more than which was faster.
function once(stage) {
  const { drafter, plain, complete } = stage;
  const [ours, theirs] = [drafter.pace[1], plain.pace[1]];
  if (!complete || !ours || !theirs || drafter.head.method === "vanilla") return [];
  const clear = apart(stage);
  if (busy(stage)) return [" Speed: this machine was too busy to tell.", inClass || drafter.view.link ? "" : " Press Measure speed."];
  const cut = drafter.view.link ? " while connected" : "";
  return [` This run: ${clear}${rates(stage)}${cut}${clear ? "" : ", too close (within 15 %)"}.`];
}

/** Whether other work disturbed single runs: checking a tree was cheaper than one word, the same prompt took
 *  one of them far longer, or its calls, which cost about the same, did not. */
export function busy({ drafter, plain, measured }) {
  if (measured || drafter.ms === null || plain.ms === null) return false;
  const [one, other] = [drafter, plain].map(({ points }) => points[0]?.[1]);
  const apart = !drafter.arrival && Math.abs(one - other) > 0.2 * Math.max(drafter.seconds, plain.seconds);
  return drafter.ms <= plain.ms || apart || drafter.unsteady || plain.unsteady;
}

// Whether two single runs differ clearly.
function apart({ drafter, plain }) {
  const over = drafter.pace[1] / plain.pace[1];
  return over < 0.87 ? "slower, " : over > 1.15 ? "faster, " : "";
}

function rates({ drafter, plain }) {
  const [ours, theirs] = [drafter, plain].map(({ pace }) => pace[1] && perSecond(pace[1]));
  return ours && theirs ? `${ours} against ${theirs} tokens/s` : "";
}

function unchecked({ ended, view }) {
  const alone = many(view.text.querySelectorAll(".offline").length, "token");
  return ended.end === "offline" ? `The connection did not come back in time, so the run ended. Unchecked: ${alone}, written alone. Run again, and restore it sooner.` : "";
}

// The share of six words in a row that come again.
function repeated(written) {
  const words = written.split(/\s+/).filter(Boolean);
  const runs = words.slice(5).map((_, at) => words.slice(at, at + 6).join(" "));
  return runs.length && 1 - new Set(runs).size / runs.length;
}

/** What a cut did, once the run is over. */
export const healed = ({ view }) => view.outcome || view.link;

// Why fewer calls are not as much faster.
function gain(stage) {
  const { drafter, plain } = stage;
  const { ms: own, tau } = drafter;
  const { ms: alone } = plain;
  if (drafter.head.method === "vanilla" || own === null || alone === null) return "";
  const brings = `A call brings ${tau.toFixed(2)} tokens, not 1`; // after the prompt’s
  if (busy(stage)) return `${brings}, but with its guesses takes longer than a plain one.`;
  if (own <= alone) return `${brings}.`;
  const [each, before] = [own, alone].map((ms) => ms.toFixed(0));
  const begins = `Fewer calls, but slower ones: after the prompt, ${each} ms for ${tau.toFixed(2)} tokens`;
  if (!stage.measured && !apart(stage)) return `${begins}; without guesses, ${before} ms for 1.`;
  return `${begins}, so ${(own / tau).toFixed(0)} ms a token; without guesses, ${before}.`;
}

// Milliseconds of a call, over a whole run.
function call({ tau, points }) {
  const [[first, begun], [last, ended]] = [points[0], points.at(-1)];
  return last > first ? (1000 * tau * (ended - begun)) / (last - first) : null;
}
