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
  const box = el("span", "cycle newest");
  text.querySelector(".cycle.newest")?.classList.remove("newest");
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
  return box;
}

// The cycle's end is marked before a line break, not on the next line.
function close(box) {
  const last = [...box.querySelectorAll(".token:not(.rejected)")].at(-1);
  const ending = last?.lastChild.nodeValue === "\n" ? [last.lastChild] : [];
  add(text, add(box, el("span", "edge"), ...ending));
}

