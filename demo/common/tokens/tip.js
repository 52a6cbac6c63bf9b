// ---- the tip ----

const percent = (p) =>
  p === null ? "–" : p > 0 && p < 0.001 ? "< 0.1 %" : `${(p * 100).toFixed(1)} %`;

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
  return [add(el("p"), el("b", "", name), ` ${kinds[about.kind]}`), pairList(pairs)];
}

function point(node) {
  tip.replaceChildren(...describe(details.get(node)));
  tip.hidden = false;
  node.setAttribute("aria-describedby", tip.id);
  putBeside(tip, root, node.getClientRects()[0]);
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

