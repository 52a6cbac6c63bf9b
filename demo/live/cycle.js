// One cycle: its draft tree, where its time goes, and what the same tokens cost plain decoding.
import { add, button, el, many } from "../common/static/dom.js";
import { inClass } from "../common/static/page.js";
import { SMALL, Tree } from "../common/tree/tree.js";

const SAYS = {
  drafted: ({ drafts }) => `${many(drafts, "guess", "guesses")} drafted, not checked yet.`,
  checked: ({ drafts }) => `The target checks all ${drafts} in one call.`,
  kept: ({ drafts, kept, bonus, written }) =>
    `${many(drafts, "guess", "guesses")}: ${kept} accepted` +
    (bonus ? `, 1 from the target (orange${inClass ? ": how sure it was" : ""}).` : `; the text ends here${written < kept ? `, after ${written} of them` : ""}.`),
};
const SLOW = [2500, 2500]; // ms until the target is asked, and until its verdict

// The cycle as Tree draws it, the bonus after the nodes.
function drawable({ tree, bonus, accepted }) {
  const nodes = tree.texts.length;
  const sure = Array(nodes).fill(0);
  sure[tree.path.at(-1) ?? 0] = tree.bonus[1];
  const cycle = {
    tokens: tree.texts.map((_, node) => node), parents: tree.parents, draft: tree.draft,
    path: tree.path, emitted: accepted.length + (bonus ? 1 : 0), bonus: nodes, sure,
    blind: inClass, // before the check, its order does not tell
  };
  return [cycle, [...tree.texts, tree.bonus[0]]];
}

/** Draws a bar for each of rows, [words, [drafting, verifying, the rest]], all on one scale. In ms. */
function bars(root, rows) {
  const sums = rows.map(([, ms]) => ms.reduce((sum, one) => sum + one));
  root.replaceChildren();
  rows.forEach(([words, ms], at) => {
    const track = el("div", "track");
    for (const [kind, name] of ["draft", "verify", "rest"].entries())
      add(track, el("span", `bar ${name}`)).lastChild.style.width = `${(100 * (ms[kind] ?? 0)) / Math.max(...sums)}%`;
    add(root, add(el("p"), `${words} `, el("b", "", `${sums[at].toFixed(0)} ms`)), track);
  });
}

/** The level of each node of a tree; none without one. */
export function depths(tree) {
  const found = [];
  (tree?.parents ?? []).forEach((parent, node) => found.push(node ? found[parent] + 1 : 0));
  return found;
}

export class Cycle {
  rough = false; // whether other work disturbed its run
  room = [0, 0]; // pixels for the tree
  #timers = [];
  #veiled = false;

  /** slowly: what its button does. */
  constructor(slowly) {
    this.root = el("section", "cycle-panel draft-tree", "", { ariaLabel: "One cycle" });
    this.root.dataset.stage = "tree";
    this.tree = new Tree(inClass ? { ...SMALL, top: 22, numbers: true } : SMALL, { "aria-hidden": "true" });
    this.caption = el("p", "caption");
    this.again = button("quiet-button", "This cycle slowly", slowly, { ariaLabel: "Show this cycle slowly", disabled: true });
    this.bars = el("div", "bars");
    const drawing = add(el("div", "drawing", "", { tabIndex: 0, ariaLabel: "Draft tree", role: "group" }), this.tree.svg);
    add(this.root, add(el("div", "title"), this.caption, this.again), drawing, this.bars);
    // Told, not asked, since a question would lay out the page for each cycle. Scroll bars do not change it.
    new ResizeObserver(([{ borderBoxSize: [{ inlineSize, blockSize }] }]) => {
      this.room = [inlineSize, blockSize];
      this.fit();
    }).observe(drawing, { box: "border-box" });
  }

  clear(words = "") {
    this.still();
    this.line = null;
    this.again.disabled = true;
    this.tree.clear();
    this.bars.replaceChildren();
    this.caption.textContent = words;
  }

  /** plain: ms of plain decoding for a token, where they are known; name: which cycle it is. */
  show(line, plain = null, name = `Cycle ${line.cycle + 1}.`) {
    const { rough, told } = this;
    if (line === this.line && plain === this.plain && name === this.name && rough === told) return;
    Object.assign(this, { line, plain, name, told: rough });
    this.again.disabled = !line.tree;
    if (line.tree) {
      this.tree.draw(...drawable(line), this.room[0] || undefined);
      this.fit();
    } else this.tree.clear();
    this.#measure();
    this.still();
  }

  fit() {
    this.tree.fit(inClass ? 4.5 : 1.35, this.room);
  }

  /** Of the tree that is shown, below its root; 0 without one. */
  get levels() {
    return Math.max(0, ...depths(this.line?.tree));
  }

  /** Whether the target's verdict is hidden. */
  veil(on) {
    this.#veiled = on;
    this.still();
  }

  /** Once more, slowly: drafted, checked, kept. box: its words, unjudged meanwhile; after: what follows. */
  slowly(box, after) {
    this.still();
    this.box = box;
    box?.classList.add("unjudged");
    this.#phase("drafted");
    this.root.classList.add("slow");
    this.#timers = [
      setTimeout(() => this.#phase("checked"), SLOW[0]),
      setTimeout(() => (this.still(), after && after()), SLOW[0] + SLOW[1]),
    ];
  }

  still() {
    for (const timer of this.#timers) clearTimeout(timer);
    this.#timers = [];
    this.root.classList.remove("slow");
    this.box?.classList.remove("unjudged");
    this.box = null;
    if (this.line) this.#phase(this.#veiled ? "drafted" : "kept");
  }

  #phase(name) {
    this.root.dataset.phase = name;
    const { tree, accepted, bonus, confirmed = 0, changed = 0, cycle } = this.line;
    const drafts = tree ? tree.texts.length - 1 : 0;
    const about = { drafts, kept: tree?.path.length ?? 0, written: accepted.length, bonus };
    let words = drafts ? SAYS[name](about) : "No guess: the target writes one token.";
    if (confirmed + changed) words = `Written alone: the target kept ${confirmed} and replaced ${changed}.`;
    this.caption.textContent = `${this.#veiled || name !== "kept" ? `Cycle ${cycle + 1}.` : this.name} ${words}`; // a name may judge it
  }

  #measure() {
    const { ms, accepted, bonus } = this.line;
    if (!ms) return this.bars.replaceChildren();
    const count = accepted.length + (bonus ? 1 : 0);
    const [draft, verify, rest] = ms.map((one) => one.toFixed(one < 1 ? 1 : 0));
    const rows = [[`This cycle${this.rough ? ", on a busy machine" : ""}: draft ${draft}, verify ${verify}, rest ${rest} ms, for ${many(count, "token")}`, ms]];
    if (this.plain !== null) rows.push([`Plain decoding: ${many(count, "average call")}`, [0, this.plain * count]]);
    bars(this.bars, rows);
  }
}
