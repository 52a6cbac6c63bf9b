// ---- figures ----

const rate = tile("Tokens per second", "time of the whole run, prefill included");
const tau = tile(
  "Acceptance length τ",
  "tokens gained per target forward after the prefill, bonus included",
);
const acceptance = tile("Acceptance rate", "accepted drafts of all drafted nodes");
const calls = tile("Target calls", "forwards of the target, the prefill included");
const faster = tile("Speed-up", "not measured: press “Compare with plain decoding”");
const exact = tile("Exactness", "not checked: press “Compare with plain decoding”");
const ending = tile("Ended by", "not yet run");
const spark = tile("Tokens gained, cycle by cycle", "accepted drafts, and the bonus on top");
const all = [rate, tau, acceptance, calls, faster, exact, ending, spark];

// τ depends on the method and its tree, so these stand with it.
function tauNote(cut) {
  const parts = [tau.note, by, cut ? "the last cycle, cut short, counts whole" : ""];
  tau.small.textContent = parts.filter(Boolean).join("; ");
}

function figures(stats) {
  rate.value.textContent = stats.rate === null ? "–" : stats.rate.toFixed(1);
  tau.value.textContent = stats.tau === null ? "–" : stats.tau.toFixed(2);
  const share = stats.acceptance;
  acceptance.value.textContent = share === null ? "–" : `${(share * 100).toFixed(0)} %`;
  acceptance.small.textContent =
    stats.drafted
      ? `accepted drafts of ${stats.drafted} drafted nodes; the mean tree has ${stats.nodes.toFixed(1)}`
      : "nothing is drafted";
  calls.value.textContent = String(stats.calls);
  calls.small.textContent = `for ${many(stats.tokens, "token")}: 1 prefill, which took ${(stats.prefill * 1000).toFixed(0)} ms, and ${many(stats.cycles, "cycle")}`;
  if (stats.shares) {
    const parts = Object.entries(stats.shares);
    const spent = parts.map(([phase, share]) => `${phase} ${(share * 100).toFixed(0)} %`);
    const alone = stats.decode_rate === null ? "–" : stats.decode_rate.toFixed(1);
    rate.small.textContent = `this one run, prefill included; decoding alone ${alone}: ${spent.join(" · ")}`;
  }
}

// Said beside the button that was pressed; empty once it is over.
function measuring(words) {
  for (const one of [faster, exact]) blank(one, words || one.note);
}

// Plain decoding of the same prompt, on this machine: how much faster, and is it the same text?
function plain(line) {
  faster.value.textContent = line.ratio ?? "–";
  faster.small.textContent = line.speed_words;
  faster.small.classList.toggle("warning", line.slower);
  exact.value.textContent = line.same ? "✓ same" : "✗ differs";
  exact.small.textContent = line.exact_words;
  exact.small.classList.toggle("warning", !line.same);
}

function end(line) {
  root.dataset.state = "done";
  ending.value.textContent = line.end === "eos" ? "end token" : line.end;
  ending.small.textContent = line.words;
}

// ---- the sparkline: a bar for each cycle, drafts below and the bonus on top ----

const chart = shape("svg", { class: "spark", role: "img" });
spark.value.replaceChildren(chart);
let gained = [];
let by = ""; // method and tree of the run

function bars() {
  const shown = gained.slice(-60);
  const most = Math.max(4, ...shown);
  const width = Math.max(shown.length, 30);
  chart.setAttribute("viewBox", `0 0 ${width * 4} 32`);
  chart.setAttribute("preserveAspectRatio", "none");
  const newest = shown.slice(-12).join(", ") || "none yet";
  chart.setAttribute("aria-label", `Tokens gained in the newest cycles: ${newest}`);
  chart.replaceChildren(
    ...shown.flatMap((count, place) => {
      const unit = 32 / most;
      return [
        bar_of(place, 32 - unit * (count - 1), unit * (count - 1), "drafts"),
        bar_of(place, 32 - unit * count, unit, "bonus"),
      ];
    }),
  );
}

function bar_of(place, y, height, kind) {
  return shape("rect", { x: place * 4, y, width: 3, height, class: kind });
}

bars();

function gain(line) {
  if (!line.bonus) return tauNote(true); // cut short: not a whole cycle
  gained.push(line.accepted.length + 1);
  bars();
}

function no_figures() {
  gained = [];
  bars();
  for (const one of all) if (one !== spark) one.value.textContent = "–";
  measuring("");
  tauNote(false);
  ending.small.textContent = "still decoding";
}
