// The text of one run, token by token. view.py beside this file lists the lines that it draws.
import { add, button, el, ends, many, pairList, putBeside, quoted, stepped, tipBox } from "../static/dom.js";

const KINDS = {
  first: "first token: the target’s own, after the prefill",
  accepted: "accepted guess",
  rejected: "rejected guess",
  bonus: "the target’s own token",
  offline: "written alone: unchecked, may be wrong",
  confirmed: "written alone, then kept by the target",
  changed: "written alone, then replaced: the target chose another token",
};
const STRUCK = 10; // offline tokens in a row that stay in sight once the target has changed them
// The hook's value by kind: like the bonus, the first token is the target's own.
const HOOKS = { first: "bonus", confirmed: "accepted", changed: "offline" };
/** What ended a text, by the reason in its last line. */
export const ENDINGS = {
  eos: "the model ended its answer",
  length: "stopped at the token limit",
  context: "ended because the model’s context is full",
  stopped: "stopped by you",
  offline: "ended because the connection stayed lost",
  lost: "ended because the server could not be reached",
  error: "ended by an error",
};

export const percent = (p) =>
  p === null ? "–" : p > 0 && p < 0.001 ? "< 0.1 %" : `${(p * 100).toFixed(1)} %`;

const WORDS = { // of a legend
  accepted: "guessed right", rejected: "rejected", plain: "the target’s own",
  offline: "alone, unchecked", confirmed: "alone, then kept", changed: "alone, then replaced",
};

export const sample = (kind, words = WORDS[kind]) =>
  add(el("li"), add(el("span", `token ${kind}`), el("span", "mark", words)));
/** Of kinds, or of kinds with words of their own. */
export const legendOf = (...kinds) =>
  add(el("ul", "legend"), ...kinds.map((kind) => sample(...[kind].flat())));

/** Adds a piece of text: line breaks are shown, and spaces before a word are not marked. */
export function mark(parent, piece) {
  for (const part of piece.split(/(\n)/)) {
    if (part === "\n") add(parent, el("span", "break mark", "↵"), "\n");
    else if (part) {
      const [, space, rest] = part.match(/^( *)([^]*)$/);
      if (space && rest) add(parent, space);
      add(parent, el("span", "mark", rest || space));
    }
  }
}

// A node as a token: its text, and its probabilities for drafter and target.
function drafted(tree, node) {
  const odds = [tree.draft[node], tree.target[node]].map((whole) => whole / 10_000);
  return [tree.texts[node], ...odds, tree.special.includes(node)];
}

/** The likeliest rejected branch of a tree, and the number of accepted nodes before it. One below the
 *  last accepted node is preferred to one beside the path. */
export function struck({ parents, draft, path }) {
  const odds = [];
  parents.forEach((parent, node) => odds.push(node ? odds[parent] * draft[node] : 1));
  const kept = [0, ...path];
  const likeliest = (...above) => {
    const found = [...parents.keys()].filter((node) => above.includes(parents[node]) && !kept.includes(node));
    return found.reduce((one, other) => (odds[one] >= odds[other] ? one : other), found[0]);
  };
  const chain = (node) => (node === undefined ? [] : [node, ...chain(likeliest(node))]);
  const first = likeliest(kept.at(-1)) ?? likeliest(...kept);
  return [chain(first), kept.indexOf(parents[first])];
}

/** pointed: told of the cycle under pointer or keyboard, null for none; chosen: of one pressed. */
export class TokenView {
  #details = new WeakMap(); // token element -> its tooltip's content
  #current = null; // the token that Tab reaches; arrow keys move from it
  #seen = null; // the token whose tip is shown
  #told = null; // the cycle that was pointed at last
  #stretch = null; // offline text that waits for verification
  #holds = false; // whether struck text stays in sight, and the newest does not
  #follows = false; // whether the newest was in sight
  #struck = null; // text that the target changed in the newest lines
  #judged = [0, 0]; // offline tokens confirmed and changed since the link was lost

  constructor(root, { ariaLabel, pointed = () => {}, chosen = () => {} }) {
    Object.assign(this, { root, pointed, chosen, link: "", outcome: "" });
    this.tip = tipBox();
    this.text = el("div", "text", "", { role: "group", ariaLabel, tabIndex: -1 });
    add(root, this.text, this.tip);
    this.#listen();
  }

  clear() {
    this.#current = this.#stretch = null;
    this.link = this.outcome = this.root.dataset.link = "";
    this.#holds = this.#follows = false;
    this.#struck = null;
    this.text.replaceChildren();
    this.#point();
  }

  /** Draws lines; `settle` then scrolls to them, unless a whole text is drawn at once, to be read. */
  take(lines, atOnce = false) {
    const { text } = this;
    this.#follows = !atOnce && text.scrollHeight - text.scrollTop - text.clientHeight < 60;
    for (const line of lines) this.#draw(line);
    if (!atOnce && lines.some(({ changed }) => changed)) this.#struck = [...text.querySelectorAll(".replaced")].at(-1);
  }

  /** Keeps the newest tokens in sight, or those that the target changed. Called once all of a frame is drawn:
   *  the browser lays out the page for it, which takes time from a run on the same machine. */
  settle() {
    const { text } = this;
    const down = (node) => text.scrollTop + node.getBoundingClientRect().top - text.getBoundingClientRect().top - 60;
    const [alone] = this.root.closest(".class-mode") ? this.#unproved : []; // a lesson asks where it begins
    if (this.#struck) text.scrollTop = down(this.#struck);
    else if (this.#follows && !this.#holds) text.scrollTop = alone ? Math.min(down(alone), text.scrollHeight) : text.scrollHeight;
    [this.#struck, this.#follows] = [null, false];
    this.edge();
  }

  /** Tells the style sheet whether there is more text below, or above. */
  edge() {
    const { scrollHeight, scrollTop, clientHeight } = this.text;
    this.root.classList.toggle("more", scrollHeight - scrollTop - clientHeight > 8);
    this.root.classList.toggle("less", scrollTop > 8);
  }

  get written() {
    const kept = this.text.cloneNode(true);
    for (const node of kept.querySelectorAll(".rejected, .break")) node.remove();
    return kept.textContent;
  }

  /** How many of the tokens that were written alone were checked. */
  get alone() {
    return this.#judged[0] + this.#judged[1];
  }

  #draw(line) {
    if ("down" in line) {
      this.root.dataset.link = "lost";
      Object.assign(this, { link: "The connection is lost: the drafter writes on alone.", outcome: "" });
      [this.#judged, this.#holds] = [[0, 0], false];
    } else if ("back" in line) {
      this.root.dataset.link = "";
      this.link = "The connection is back: the target checks what was written alone.";
    } else if ("offline" in line) this.#alone(line);
    else if ("first" in line) {
      const token = this.#token("first", line.first, { position: line.at });
      this.#close(add(el("span", "cycle"), token));
    } else if ("cycle" in line) this.#heal(line, this.#cycle(line));
    else if (line.dropped) this.#stretch?.remove();
  }

  #token(kind, [piece, draft, target, special], about) {
    const node = el(kind === "rejected" ? "del" : "span", `token ${kind}`);
    node.dataset.token = HOOKS[kind] ?? kind;
    if (special) node.classList.add("special");
    // A rejected line break is shown but does not break the line.
    const shown = special && ends(piece) ? "end" : piece;
    if (shown) mark(node, kind === "rejected" ? shown.replaceAll("\n", "↵") : shown);
    else add(node, el("span", "mark partial", "·"));
    this.#details.set(node, { kind, piece, draft, target, ...about });
    node.tabIndex = this.#current ? -1 : 0;
    this.#current ||= node;
    return node;
  }

  // The best rejected branch is struck out where it was rejected: before the target's own token.
  #cycle(line) {
    const number = line.cycle + 1;
    const box = el("span", "cycle");
    box.dataset.cycle = String(line.cycle);
    let position = line.at;
    const place = () => ({ cycle: number, position: (position += 1) });
    const [branch, after] = line.bonus && line.tree ? struck(line.tree) : [[], 0];
    const strike = () => {
      const from = position;
      branch.forEach((node, order) =>
        add(box, this.#token("rejected", drafted(line.tree, node), { ...place(), below: order > 0 })));
      position = from;
    };
    line.accepted.forEach((item, order) => {
      if (order === after) strike();
      add(box, this.#token("accepted", item, place()));
    });
    if (after === line.accepted.length) strike();
    const instead = after === line.accepted.length && branch.length ? drafted(line.tree, branch[0]) : null;
    if (line.bonus) add(box, this.#token("bonus", line.bonus, { ...place(), instead }));
    this.#close(box);
    return box;
  }

  // The cycle's end is marked before a line break, not on the next line.
  #close(box) {
    const last = [...box.querySelectorAll(".token:not(.rejected)")].at(-1);
    const ending = last?.lastChild?.nodeValue === "\n" ? [last.lastChild] : [];
    add(this.text, add(box, el("span", "edge"), ...ending));
  }

  // ---- text that is written offline, and its verification ----

  get #unproved() {
    return [...(this.#stretch?.isConnected ? this.#stretch.querySelectorAll(".token") : [])];
  }

  #alone(line) {
    for (const node of this.#unproved)
      if (this.#details.get(node).position >= line.at) this.#giveWay(node, null);
    if (!this.#stretch?.isConnected) add(this.text, (this.#stretch = el("span", "stretch")));
    add(this.#stretch, this.#token("offline", line.offline, { position: line.at }));
  }

  // A cycle replaces offline text; tokens that the target changed are shown struck out.
  #heal(line, box) {
    const { confirmed = 0, changed = 0 } = line;
    const sure = [...box.querySelectorAll(".token:not(.rejected)")];
    const nodes = this.#unproved;
    const gone = nodes.splice(confirmed, changed);
    for (const node of sure.slice(0, confirmed)) this.#become("confirmed", node);
    for (const node of gone) this.#become("changed", node);
    nodes.slice(0, confirmed).forEach((node, place) => this.#giveWay(node, sure[place]));
    this.#holds ||= gone.length > 0;
    if (gone.length) {
      // Like a rejected line break, it is shown but does not break the line.
      for (const node of gone)
        for (const child of [...node.childNodes]) if (child.nodeValue === "\n") child.remove();
      const out = add(el("del", "rejected replaced"), ...gone.slice(0, STRUCK));
      if (gone.length > STRUCK) this.#fold(out, gone.slice(STRUCK));
      if (confirmed) sure[confirmed - 1].after(out);
      else box.prepend(out);
    }
    this.#judged = [this.#judged[0] + confirmed, this.#judged[1] + changed];
    if (this.link && this.root.dataset.link !== "lost") this.outcome = reviewed(...this.#judged);
    if (!this.#unproved.length) this.#stretch?.remove();
    else add(this.text, this.#stretch); // waiting text stays at the end
  }

  // What the target wrote instead would else be out of sight.
  #fold(struck, nodes) {
    const rest = add(el("span", "", "", { hidden: true }), ...nodes);
    const more = button("unfold", `… ${nodes.length} more`, () => {
      rest.hidden = false;
      more.remove();
    });
    add(struck, rest, more);
  }

  #become(kind, node) {
    node.classList.remove("offline");
    node.classList.add(kind);
    node.dataset.token = HOOKS[kind] ?? kind;
    this.#details.get(node).kind = kind;
  }

  // Remove a token; its keyboard focus moves to the token that replaces it.
  #giveWay(node, to) {
    const focused = document.activeElement === node;
    if (node === this.#current) {
      this.#current = to;
      if (to) to.tabIndex = 0;
    }
    node.remove();
    if (focused) to?.focus();
  }

  // ---- the tip ----

  #describe(about) {
    const name = about.piece ? quoted(about.piece) : "part of a character";
    const pairs = [["position, prompt included", String(about.position)]];
    if (about.cycle) pairs.unshift(["cycle", String(about.cycle)]);
    if (about.draft !== null) pairs.push(["drafter’s probability", percent(about.draft)]);
    pairs.push(["target’s probability", percent(about.target)]);
    if (about.instead) pairs.push(["the drafter’s likeliest guess", `${quoted(about.instead[0])}, ${percent(about.instead[1])}`]);
    const what = about.below ? "rejected, because the guess before it was wrong" : KINDS[about.kind];
    return [add(el("p"), el("b", "", name), ` ${what}`), pairList(pairs)];
  }

  // Without a node, the tooltip disappears.
  #point(node) {
    this.#seen = node;
    this.tip.hidden = !node;
    const cycle = node ? (this.#details.get(node).cycle ?? null) : null;
    if (cycle !== this.#told) this.pointed((this.#told = cycle));
    if (!node) return;
    this.tip.replaceChildren(...this.#describe(this.#details.get(node)));
    node.setAttribute("aria-describedby", this.tip.id);
    putBeside(this.tip, this.root, node.getClientRects()[0] ?? node.getBoundingClientRect());
  }

  #listen() {
    const on = (kinds, act) => {
      for (const kind of kinds) this.text.addEventListener(kind, (event) => act(event.target.closest(".token"), event));
    };
    // A text that moves under the pointer is not pointed at.
    on(["mousemove", "focusin"], (node) => node === this.#seen || this.#point(node));
    on(["mouseleave", "focusout", "scroll"], () => this.#point());
    on(["scroll"], () => this.edge());
    new ResizeObserver(() => this.edge()).observe(this.text);
    on(["click"], (node) => this.#press(node));
    on(["keydown"], (node, event) => this.#keyed(event, node));
  }

  #press(node) {
    if (node) this.chosen(this.#details.get(node).cycle ?? 1);
  }

  #keyed(event, from) {
    if (event.key === "Escape") this.#point();
    if (event.key === "Enter") this.#press(from);
    const seen = [...this.text.querySelectorAll(".token")].filter((node) => node.offsetParent);
    const next = from && stepped(event, seen, from);
    if (!next) return;
    event.stopPropagation(); // else the player would step as well
    if (this.#current) this.#current.tabIndex = -1;
    this.#current = next;
    next.tabIndex = 0;
    next.focus();
  }
}

/** The result of a verification of text that was written alone. */
export function reviewed(right, wrong) {
  return right + wrong ? `Of ${many(right + wrong, "token")} written alone, the target kept ${right || "none"}.` : "Nothing was written alone.";
}
