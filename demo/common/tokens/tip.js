// ---- the tip ----

function reachable(node, about) {
  details.set(node, about);
  node.tabIndex = current ? -1 : 0;
  current ||= node;
  return node;
}

const kinds = {
  first: "first token: the target’s own, after the prefill",
  accepted: "accepted draft",
  rejected: "rejected draft",
  bonus: "bonus: the target’s own token",
};

const percent = (p) =>
  p === null ? "–" : p > 0 && p < 0.001 ? "< 0.1 %" : `${(p * 100).toFixed(1)} %`;

const LISTED = 12; // rejected drafts named in the tip of "+14"
let pinned = null; // the pressed "+6": its tooltip stays until the next press

function describe(about) {
  if (about.others) {
    const table = add(el("table"), row("th", "draft", "after", "drafter", "target"));
    for (const [[piece, draft, target], before] of about.others.slice(0, LISTED))
      add(table, row("td", quoted(piece), quoted(before), percent(draft), percent(target)));
    const rest = about.others.length - LISTED;
    const head = el("p", "", `Also rejected in cycle ${about.cycle}:`);
    return rest > 0 ? [head, table, el("p", "", `and ${rest} less probable ones`)] : [head, table];
  }
  const name = about.piece ? quoted(about.piece) : "part of a character";
  const pairs = [["position", String(about.position)]];
  if (about.cycle) pairs.unshift(["cycle", String(about.cycle)]);
  if (about.draft !== null) pairs.push(["drafter’s probability", percent(about.draft)]);
  pairs.push(["target’s probability", percent(about.target)]);
  const why = about.below ? ", as the one before it was" : "";
  return [add(el("p"), el("b", "", name), ` ${kinds[about.kind]}${why}`), pairList(pairs)];
}

// Without a node, the tooltip disappears.
function point(node) {
  tip.hidden = !node;
  if (!node) return;
  tip.replaceChildren(...describe(details.get(node)));
  node.setAttribute("aria-describedby", tip.id);
  putBeside(tip, root, node.getClientRects()[0]);
}

const tokenAt = (event) => {
  const node = event.target.closest?.(".token, .more");
  return node && details.has(node) ? node : null;
};
for (const kind of ["mouseover", "focusin"])
  text.addEventListener(kind, (event) => pinned || point(tokenAt(event)));
for (const kind of ["mouseleave", "focusout", "scroll"])
  text.addEventListener(kind, () => pinned || point());

document.addEventListener("click", (event) => {
  const node = text.contains(event.target) ? tokenAt(event) : null;
  const opens = node?.matches(".more") && node !== pinned;
  pinned?.setAttribute("aria-expanded", "false");
  pinned = opens ? node : null;
  point(pinned);
  pinned?.setAttribute("aria-expanded", "true");
  if (node?.matches(".token")) chosen(details.get(node));
});

text.addEventListener("keydown", (event) => {
  if (event.key === "Escape") {
    pinned = null;
    point();
  }
  const from = tokenAt(event);
  if (event.key === "Enter" && from?.matches(".token")) chosen(details.get(from));
  const steps = { ArrowRight: 1, ArrowLeft: -1, Home: -Infinity, End: Infinity };
  if (!from || !(event.key in steps)) return;
  event.preventDefault();
  event.stopPropagation(); // else the player would step as well
  const all = [...text.querySelectorAll(".token, .more")].filter((node) => node.offsetParent);
  const place = all.indexOf(from) + steps[event.key];
  const next = all[Math.max(0, Math.min(all.length - 1, place))];
  if (current) current.tabIndex = -1;
  current = next;
  next.tabIndex = 0;
  next.focus();
});
