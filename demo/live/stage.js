// ---- the stage: one headline over the text, and the tree of the newest cycle beside it ----

const stage = element.closest("#stage") ?? root;
const headline = el("p", "headline", "", { role: "status" });
const badge = el("span", "badge", "recorded", { hidden: true });
const said = el("p", "said");
const svg = shape("svg", { "aria-hidden": "true" });
const caption = el("p", "caption");
const ariaLabel = "Draft tree of the newest cycle";
const panel = el("div", "stage-tree draft-tree", "", { role: "group", ariaLabel });
add(panel, add(el("div", "drawing"), svg), caption);
panel.dataset.stage = "tree";
const told = el("span");
root.prepend(add(el("div", "top"), headline, add(said, badge, told)));
add(body, panel);

let by = ""; // method and tree of the run
let newest = null; // the cycle that is to be drawn
let beside = null; // what plain decoding and the rival did
let ended = null;
let changed = ""; // what is shown is of the settings before
let moving = false; // the run goes on in this browser: its end on the server is not shown
let began = () => {}; // told of a run's first line

const linked = ["prompt", "method"].some((name) => new URLSearchParams(window.location.search).has(name));

function state(name, line) {
  stage.dataset.run = name;
  badge.hidden = !recorded;
  changed = name === "recorded" && linked ? "Press Run to use the settings of your link." : "";
  moving = false;
  by = lines[0]?.by ?? by;
  if (["live", "recorded", "empty"].includes(name)) say();
  if (name === "live") began(line);
}

function no_figures() {
  newest = beside = ended = null;
  stage.dataset.charts = "";
  by = lines[0]?.by ?? "";
  svg.replaceChildren();
  caption.textContent = "";
  say();
}

function gain(line) {
  newest = line;
}

function plain(line) {
  beside = line;
  stage.dataset.charts = line.charts?.join(" ") || (line.measuring ? "" : "none");
  if (ended) say();
}

function end(line) {
  if (moving) return;
  root.dataset.state = "done";
  ended = line;
  if (root.dataset.link === "lost") link = "The connection was still cut.";
  if (!recorded) state(["eos", "length", "context"].includes(line.end) ? "done" : "stopped");
  say();
}

// ---- the headline: nothing before the end, and then only what is known ----

const figure = (name, value, words) => {
  const made = el("b", "", words);
  made.dataset.figure = name;
  made.dataset.value = String(value);
  return made;
};

// Class mode has no box for it.
const prompt = () => stage.closest(".class-mode") && document.querySelector("#prompt textarea")?.value;

function say() {
  headline.classList.toggle("before", Boolean(ended && changed));
  if (!ended) {
    const first = by ? `${by.split(",")[0]}: watch what is accepted` : "Press Run: the text appears here, its draft trees beside it.";
    if (headline.textContent !== (link || first)) headline.textContent = link || first;
    const slow = !recorded && tempo && lines.some((line) => "end" in line) ? "decoded, shown in slow motion" : "";
    told.textContent = changed || [prompt(), by, slow].filter(Boolean).join(" · ");
    return;
  }
  const parts = [speedUp(), exactness(), calls(), lengths()].filter(Boolean);
  headline.replaceChildren(...parts.flatMap((part, order) => (order ? [" · ", ...part] : part)));
  told.textContent = changed || [prompt(), by, ended.summary, link].filter(Boolean).join(" · ");
}

function speedUp() {
  if (beside?.measuring) return ["measuring the speed …"];
  if (beside?.untimed) return [`Not timed: ${beside.untimed}`];
  if (!beside?.over_plain) return null;
  const { over_plain: plain, over_rival: theirs, rival } = beside;
  const times = (number) => `${number.toFixed(number < 0.95 ? 2 : 1)}×`;
  const both = plain.close && theirs?.close;
  const close = (one) => (both || !one.close ? "" : " (too close to call)");
  const than = theirs ? `, ${times(theirs.times)} ${rival}’s${close(theirs)}` : "";
  const shown = figure("speedup", plain.times, times(plain.times));
  shown.classList.toggle("slower", plain.times < 1);
  const words = ` plain decoding’s speed${close(plain)}${than}`;
  return [shown, both ? `${words} (both too close to call)` : words];
}

function exactness() {
  if (!beside || beside.same === null) return null;
  if (beside.same) return ["same text ", figure("exact", 1, "✓")];
  return ["text ", figure("exact", 0, "differs"), ` from token ${beside.parted}`];
}

function calls() {
  if (!text.querySelector(".token")) return null;
  const count = cycles().length + 1; // with the prefill
  const instead = beside?.calls ? ` instead of ${beside.calls}` : "";
  const shown = figure("calls", count, String(count));
  shown.title = "The prompt’s call, then one for each cycle. τ counts the cycles alone.";
  return [shown, ` target calls${instead}`];
}

// Tokens of a cycle, the last one counted in full.
const gained = ({ tree, accepted }) => (tree?.path ?? accepted).length + 1;

function lengths() {
  const all = cycles().map(gained);
  if (!all.length) return null;
  const tau = all.reduce((sum, one) => sum + one) / all.length;
  const theirs = beside?.rival_tau ? ` (${beside.rival} ${beside.rival_tau.toFixed(1)})` : "";
  return ["τ ", figure("tau", tau, tau.toFixed(1)), theirs];
}

document.addEventListener("input", ({ target }) => {
  if (!target.closest("#tli, #method")) return;
  changed = ended ? "Press Run to apply the new settings." : "The new settings apply from the next run.";
  say();
});

window.addEventListener("tab-opened", ({ detail }) => {
  if (detail !== "live") return;
  if (root.dataset.state === "running") text.scrollTop = text.scrollHeight;
  if (newest?.tree) fit();
});

// ---- the tree ----

// The cycle as tree.js draws it, the bonus after the nodes.
function drawable({ tree, bonus }) {
  const nodes = tree.texts.length;
  const sure = Array(nodes).fill(0);
  const last = tree.path.at(-1) ?? 0;
  sure[last] = tree.bonus[1];
  return {
    cycle: {
      tokens: tree.texts.map((_, node) => node), parents: tree.parents, draft: tree.draft,
      path: tree.path, emitted: newest.accepted.length + (bonus ? 1 : 0), bonus: nodes, sure,
    },
    texts: [...tree.texts, tree.bonus[0]],
  };
}

function settled() {
  if (!ended) say();
  if (root.dataset.link === "lost") {
    svg.replaceChildren();
    caption.textContent = "Offline: nothing is checked.";
    return;
  }
  if (!newest) return;
  if (newest.tree) {
    const { cycle, texts } = drawable(newest);
    drawTree(svg, cycle, texts, getComputedStyle(root).fontFamily, SMALL);
    fit();
  } else svg.replaceChildren();
  phase("kept");
}

// As large as there is room for. Below half its size nobody could read it: then its box scrolls.
function fit() {
  const [width, height] = ["width", "height"].map((name) => Number(svg.getAttribute(name)));
  const { clientWidth, clientHeight } = svg.parentNode;
  if (!clientWidth) return; // its tab is not open
  const most = stage.closest(".class-mode") ? 2.4 : 1.5;
  const scale = Math.min(most, Math.max(0.5, Math.min(clientWidth / width, clientHeight / height)));
  const viewBox = `0 0 ${width} ${height}`;
  withAttributes(svg, { viewBox, width: width * scale, height: height * scale });
}

const PHASES = {
  drafted: ({ drafts }) => `${drafts} ${drafts === 1 ? "guess" : "guesses"} drafted …`,
  checked: ({ drafts }) => `… the target checks all ${drafts} at once …`,
  kept: ({ drafts, kept, written, bonus }) =>
    `${kept} accepted, ${drafts - kept} rejected` +
    (bonus ? ", 1 from the target" : `; the text ends here${written < kept ? `, after ${written} of them` : ""}`),
};

function phase(name) {
  panel.dataset.phase = name;
  if (!newest) return;
  const drafts = newest.tree ? newest.tree.texts.length - 1 : 0;
  const kept = newest.tree?.path.length ?? 0;
  const { confirmed = 0, changed = 0 } = newest;
  if (drafts) caption.textContent = PHASES[name]({ drafts, kept, written: newest.accepted.length, bonus: newest.bonus });
  else if (confirmed + changed)
    caption.textContent = `Written offline: ${confirmed} confirmed by the target, ${changed} changed`;
  else caption.textContent = "The target writes one token.";
}

// ---- a word was pressed: its cycle opens in Inside, in this page ----

function chosen({ cycle = 1 }) {
  window.dispatchEvent(new CustomEvent("open-tab", { detail: { tab: "inside" } }));
  window.openCycle = { cycle: cycle - 1, until: Date.now() + 5000 }; // that tab may have to come first
  window.dispatchEvent(new CustomEvent("open-cycle"));
}
