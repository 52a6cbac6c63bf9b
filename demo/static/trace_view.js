// The live token view. `element`, `props` and `watch` come from gradio; this runs once, at mount.
// The value is lines of JSON and only grows (demo/trace_view.py lists the lines). Everything that a
// model or a person wrote goes in through textContent.
const root = element.firstElementChild;
const details = new WeakMap(); // token element -> what its tip says
let run = null;
let seen = 0;
let current = null; // the token that Tab reaches; arrow keys move on from it

function el(tag, className, text) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text !== undefined) node.textContent = text;
  return node;
}

function add(parent, ...children) {
  parent.append(...children);
  return parent;
}

// ---- the frame: legend, text, tip, figures ----

const legend = add(
  el("ul", "legend"),
  add(el("li"), add(el("span", "token accepted"), el("span", "mark", "accepted draft"))),
  add(el("li"), add(el("del", "token rejected"), el("span", "mark", "rejected draft"))),
  add(el("li"), add(el("span", "token bonus"), el("span", "mark", "bonus: the target’s own"))),
  add(el("li"), el("span", "more", "+7"), " more rejected nodes"),
  add(el("li"), el("span", "edge"), "one cycle", el("span", "edge")),
);
const toggle = Object.assign(el("input"), { type: "checkbox", checked: true });
const bar = add(el("div", "bar"), legend, add(el("label", "toggle"), toggle, "Show rejected"));
const text = el("div", "text");
text.setAttribute("role", "group");
text.setAttribute("aria-label", "Decoded text, token by token. Arrow keys move between tokens.");
const hint = el("p", "hint", "Choose an example or write a prompt, then press Run.");
const tip = el("div", "tip");
tip.id = `tip-${Math.random().toString(36).slice(2)}`;
tip.setAttribute("role", "tooltip");
tip.hidden = true;
const tiles = el("dl", "tiles");
add(root, bar, add(text, hint), tip, tiles);
toggle.addEventListener("change", () => root.classList.toggle("no-rejected", !toggle.checked));

function tile(name, note) {
  const value = el("dd", "value", "–");
  const small = el("dd", "note", note);
  add(tiles, add(el("div", "tile"), el("dt", "", name), value, small));
  return { value, small };
}
const rate = tile("Tokens per second", "time in the decode loop, without the prefill");
const tau = tile(
  "Acceptance length τ",
  "tokens gained per target forward after the prefill, bonus included",
);
const calls = tile("Target calls", "forwards of the target, the prefill included");
const ending = tile("Ended by", "not yet run");

// ---- tokens ----

function mark(parent, piece) {
  for (const part of piece.split(/(\n)/)) {
    if (part === "\n") add(parent, el("span", "break", "↵"), "\n");
    else if (part) {
      const [, space, rest] = part.match(/^( *)([^]*)$/);
      if (space && rest) add(parent, space);
      add(parent, el("span", "mark", rest || space));
    }
  }
}

function token(kind, [piece, draft, target, special], about) {
  const node = el(kind === "rejected" ? "del" : "span", `token ${kind}`);
  if (special) node.classList.add("special");
  if (piece && kind === "rejected") {
    // A rejected line break is shown, but breaks no line.
    const [, space, rest] = piece.match(/^( *)([^]*)$/);
    if (rest) add(node, space);
    add(node, el("span", "mark", (rest || space).replaceAll("\n", "↵")));
  } else if (piece) mark(node, piece);
  else add(node, el("span", "mark partial", "·"));
  return reachable(node, { kind, piece, draft, target, special, ...about });
}

function reachable(node, about) {
  details.set(node, about);
  node.tabIndex = current ? -1 : 0;
  current ||= node;
  return node;
}

const kinds = {
  first: "first token, the target’s own after the prefill",
  accepted: "accepted draft",
  rejected: "rejected draft",
  bonus: "bonus: the target’s own token",
};

function cycle(line) {
  const number = line.cycle + 1;
  const box = el("span", "cycle");
  let position = line.at;
  const place = () => ({ cycle: number, position: (position += 1) });
  for (const item of line.accepted) add(box, token("accepted", item, place()));
  const after = position;
  for (const item of line.rejected) add(box, token("rejected", item, place()));
  position = after; // the bonus stands where the first rejected draft would have
  if (line.bonus) add(box, token("bonus", line.bonus, place()));
  if (line.more) {
    const more = el("span", "more", `+${line.more}`);
    add(box, reachable(more, { cycle: number, more: line.more, others: line.others }));
  }
  close(box);
}

// The cycle's end is marked before a line break, not on the next line.
function close(box) {
  const last = [...box.querySelectorAll(".token:not(.rejected)")].at(-1);
  const ending = last?.lastChild.nodeValue === "\n" ? [last.lastChild] : [];
  add(text, add(box, el("span", "edge"), ...ending));
}

// ---- the tip ----

const quoted = (piece) => `“${piece.replaceAll("\n", "↵")}”`;
const percent = (p) =>
  p === null ? "–" : p > 0 && p < 0.001 ? "< 0.1 %" : `${(p * 100).toFixed(1)} %`;

const row = (tag, ...cells) => add(el("tr"), ...cells.map((cell) => el(tag, "", cell)));

function rows(pairs) {
  const list = el("dl");
  for (const [name, value] of pairs) add(list, el("dt", "", name), el("dd", "", value));
  return list;
}

function describe(about) {
  if (about.others) {
    const table = add(el("table"), row("th", "node", "after", "draft", "target"));
    for (const [[piece, draft, target], before] of about.others)
      add(table, row("td", quoted(piece), quoted(before), percent(draft), percent(target)));
    const rest = about.more - about.others.length;
    const head = el("p", "", `Cycle ${about.cycle}: ${about.more} other rejected nodes`);
    return rest > 0 ? [head, table, el("p", "", `and ${rest} less probable ones`)] : [head, table];
  }
  const name = about.piece ? quoted(about.piece) : "part of a character";
  const pairs = [["position", String(about.position)]];
  if (about.cycle) pairs.unshift(["cycle", String(about.cycle)]);
  if (about.draft !== null) pairs.push(["draft probability", percent(about.draft)]);
  pairs.push(["target probability", percent(about.target)]);
  return [add(el("p"), el("b", "", name), ` ${kinds[about.kind]}`), rows(pairs)];
}

function point(node) {
  tip.replaceChildren(...describe(details.get(node)));
  tip.hidden = false;
  node.setAttribute("aria-describedby", tip.id);
  const frame = root.getBoundingClientRect();
  const spot = node.getClientRects()[0];
  const left = Math.min(spot.left - frame.left, frame.width - tip.offsetWidth - 4);
  const below = spot.bottom - frame.top + 8;
  const fits = spot.bottom + tip.offsetHeight + 16 < window.innerHeight;
  tip.style.left = `${Math.max(left, 4)}px`;
  tip.style.top = `${fits ? below : spot.top - frame.top - tip.offsetHeight - 8}px`;
}

function unpoint() {
  tip.hidden = true;
}

const tokenAt = (event) => {
  const node = event.target.closest(".token, .more");
  return node && details.has(node) ? node : null;
};
for (const kind of ["mouseover", "focusin", "click"]) {
  text.addEventListener(kind, (event) => {
    const node = tokenAt(event);
    if (node) point(node);
    else unpoint();
  });
}
for (const kind of ["mouseleave", "focusout", "scroll"]) text.addEventListener(kind, unpoint);

text.addEventListener("keydown", (event) => {
  if (event.key === "Escape") unpoint();
  const steps = { ArrowRight: 1, ArrowLeft: -1, Home: -Infinity, End: Infinity };
  const from = tokenAt(event);
  if (!from || !(event.key in steps)) return;
  event.preventDefault();
  const all = [...text.querySelectorAll(".token, .more")].filter((node) => node.offsetParent);
  const place = all.indexOf(from) + steps[event.key];
  const next = all[Math.max(0, Math.min(all.length - 1, place))];
  if (current) current.tabIndex = -1;
  current = next;
  next.tabIndex = 0;
  next.focus();
});

// ---- figures ----

function figures(stats) {
  rate.value.textContent = stats.rate === null ? "–" : stats.rate.toFixed(1);
  tau.value.textContent = stats.tau === null ? "–" : stats.tau.toFixed(2);
  calls.value.textContent = String(stats.calls);
  const tokens = `${stats.tokens} token${stats.tokens === 1 ? "" : "s"}`;
  calls.small.textContent = `for ${tokens}; the prefill took ${(stats.prefill * 1000).toFixed(0)} ms`;
  if (stats.shares) {
    const parts = Object.entries(stats.shares);
    rate.small.textContent = parts
      .map(([phase, share]) => `${phase} ${(share * 100).toFixed(0)} %`)
      .join(" · ");
  }
}

function end(line) {
  root.dataset.state = "done";
  ending.value.textContent = line.end;
  ending.small.textContent = line.words;
}

// ---- reading the value ----

function clear(line) {
  run = line.run;
  current = null;
  root.dataset.state = "running";
  root.dataset.run = run;
  text.replaceChildren();
  unpoint();
  for (const one of [rate, tau, calls]) one.value.textContent = "–";
  ending.value.textContent = "–";
  ending.small.textContent = "still decoding";
}

function take(line) {
  if ("run" in line) clear(line);
  else if ("first" in line) {
    close(add(el("span", "cycle"), token("first", line.first, { position: line.at })));
  } else if ("cycle" in line) cycle(line);
  else if ("stats" in line) figures(line.stats);
  else if ("end" in line) end(line);
}

function paint() {
  const value = props.value || "";
  if (run === null || !value.startsWith(`{"run":${JSON.stringify(run)}}`)) seen = 0;
  const follow = text.scrollHeight - text.scrollTop - text.clientHeight < 60;
  for (const line of value.slice(seen).split("\n")) if (line) take(JSON.parse(line));
  seen = value.length;
  if (follow) text.scrollTop = text.scrollHeight;
}

watch("value", paint);
paint();
