// ---- text that the drafter writes offline, and its verification ----

Object.assign(kinds, {
  offline: "written offline: not verified",
  confirmed: "written offline, then confirmed by the target",
  changed: "written offline, then changed: the target chose another token",
  kept: "written offline and kept: not the target’s",
});
const MARKS = {
  offline: "written offline: not verified",
  confirmed: "offline, then confirmed",
  changed: "offline, then changed",
  kept: "offline and kept: not the target’s",
};
const marks = {}; // entries of the legend, shown once they are needed
let always = null; // the one that is always shown
let stretch = null; // offline text that waits for verification
let link = ""; // the sentence about the link
let outcome = [0, 0]; // offline tokens confirmed and changed since it was lost

for (const [kind, words] of Object.entries(MARKS)) {
  marks[kind] = Object.assign(sample(kind, words), { hidden: true });
  if (kind === "confirmed") marks[kind].firstChild.classList.add("accepted");
  if (kind === "changed") marks[kind].className = "rejected";
  add(legend, marks[kind]);
}

// The result of the verification.
const reviewed = (kept, replaced, from = "") =>
  `The target kept ${kept} of ${many(kept + replaced, "offline token")}${replaced ? ` and replaced the rest${from}` : ""}.`;

const unproved = () => [...(stretch?.isConnected ? stretch.querySelectorAll(".token") : [])];

function away(line) {
  if ("run" in line) for (const kind of Object.keys(marks)) marks[kind].hidden = kind !== always;
  if ("back" in line || "run" in line) root.dataset.link = link = "";
  if ("down" in line) {
    root.dataset.link = "lost";
    [link, outcome] = ["The link is lost.", [0, 0]];
  }
  if ("back" in line) link = "The link is back: the target checks the offline text.";
  if ("offline" in line) write_alone(line);
  if (line.dropped) stretch.remove();
}

function write_alone(line) {
  for (const node of unproved()) if (details.get(node).position >= line.at) give_way(node, null);
  if (!stretch?.isConnected) add(text, (stretch = el("span", "stretch")));
  add(stretch, token("offline", line.offline, { position: line.at }));
  marks.offline.hidden = false;
  link = "The link is lost: the drafter continues alone.";
}

// A cycle replaces offline text; tokens that the target changed are shown struck out.
function heal(line, box) {
  const { confirmed = 0, kept = 0, changed = 0 } = line;
  const sure = [...box.querySelectorAll(".token:not(.rejected)")];
  const nodes = unproved();
  const gone = nodes.splice(confirmed + kept, changed);
  for (const node of sure.slice(0, confirmed)) become("confirmed", node);
  for (const node of sure.slice(0, kept)) become("kept", node, "accepted");
  for (const node of gone) become("changed", node, "offline");
  nodes.slice(0, confirmed + kept).forEach((node, place) => give_way(node, sure[place]));
  if (gone.length) {
    // Like a rejected line break, it is shown but does not break the line.
    for (const node of gone)
      for (const child of [...node.childNodes]) if (child.nodeValue === "\n") child.remove();
    const struck = add(el("del", "rejected"), ...gone);
    if (confirmed) sure[confirmed - 1].after(struck);
    else box.prepend(struck);
  }
  outcome = [outcome[0] + confirmed, outcome[1] + changed];
  if (link && root.dataset.link !== "lost")
    link = `The link is back. ${reviewed(...outcome)}`;
  if (!unproved().length) stretch?.remove();
  else add(text, stretch); // waiting text stays at the end
  return box;
}

function become(kind, node, before = "offline") {
  node.classList.remove(before);
  node.classList.add(kind);
  node.dataset.token = HOOKS[kind] ?? kind;
  details.get(node).kind = kind;
  marks[kind].hidden = false;
}

// Remove a token; its keyboard focus moves to the token that replaces it.
function give_way(node, to) {
  const focused = document.activeElement === node;
  if (node === current) {
    current = to;
    if (to) to.tabIndex = 0;
  }
  node.remove();
  if (focused) to?.focus();
}
