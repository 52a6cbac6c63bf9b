// ---- figures of a run over a link ----

const tiles = add(root, el("dl", "tiles")).lastChild;
always = "offline"; // the entry of the legend that is there from the start
marks[always].hidden = false;

// A figure of the run: its name, its value and what is to be known of it.
function tile(name, note) {
  const value = el("dd", "value", "–");
  const small = el("dd", "note", note);
  add(tiles, add(el("div", "tile"), el("dt", "", name), value, small));
  return { value, small, note };
}

function blank(one, words) {
  one.value.textContent = "–";
  one.small.textContent = words;
  one.small.classList.remove("warning");
}

const each = tile("Time per token", "after the first token");
const first = tile("First token after", "the prompt’s way there, its prefill, and the way back");
const calls = tile("Server calls per 100 tokens", "target forwards on the server, with the prefill");
const up = tile("To the server, a token", "what the cycles sent over all new tokens but the first");
const down = tile("From the server, a token", "numbers for the drafter, and the target’s tokens");
const share = tile("The prompt’s share", "comes once, before the first draft");
const alone = tile("Offline tokens", "none so far: press “Cut the link” while text streams");
const same = tile("Same text as without a link", "not checked: press “Compare with the same run without a link”");
const every = [each, first, calls, up, down, share, alone, same];

function bytes(count) {
  if (count < 1000) return `${Math.round(count)} B`;
  return count < 1e6 ? `${(count / 1000).toFixed(1)} kB` : `${(count / 1e6).toFixed(1)} MB`;
}

function figures(stats) {
  const { link, tokens, rate, shares } = stats;
  if (!link) return;
  each.value.textContent = rate === null ? "–" : `${(1000 / rate).toFixed(1)} ms`;
  if (shares) {
    const parts = Object.entries(shares).filter(([, part]) => part >= 0.005);
    each.small.textContent = parts.map(([name, part]) => `${name} ${(part * 100).toFixed(0)} %`).join(" · ");
  }
  first.value.textContent = `${(link.first * 1000).toFixed(0)} ms`;
  calls.value.textContent = ((100 * stats.calls) / tokens).toFixed(0);
  calls.small.textContent = `${stats.calls} target forwards on the server for ${tokens} tokens, with the prefill`;
  const after = Math.max(tokens - link.unverified - 1, 1);
  up.value.textContent = bytes(link.up / after);
  down.value.textContent = bytes(link.down / after);
  share.value.textContent = bytes(link.prompt_down);
  share.small.textContent = `for the drafter, once, before the first draft; the prompt itself: ${bytes(link.prompt_up)} sent`;
  written_alone(link);
}

function written_alone({ confirmed, changed, kept, unverified, lost }) {
  const all = confirmed + changed + kept + unverified;
  const parts = [
    [confirmed, "confirmed"],
    [changed, "changed"],
    [kept, "kept, not the target’s"],
    [unverified, "not verified"],
  ].filter(([count]) => count);
  alone.value.textContent = String(all);
  const times = `the link was lost ${lost === 1 ? "once" : `${lost} times`}`;
  const words = parts.map(([count, word]) => `${count} ${word}`).join(", ");
  alone.small.textContent = lost ? `${words || "none written"}; ${times}` : alone.note;
}

function plain(line) {
  same.value.textContent = line.same ? "✓ same" : "✗ differs";
  same.small.textContent = `${line.exact_words} ${line.speed_words}`;
  same.small.classList.toggle("warning", !line.same);
}

function end() {
  root.dataset.state = "done";
}

function gain() {}

function no_figures() {
  for (const one of every) blank(one, one.note);
}

function state() {}
function settled() {}
function phase() {}
function chosen() {}
