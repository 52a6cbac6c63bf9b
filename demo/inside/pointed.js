// A cycle's tree whose nodes tell their odds, under the pointer or by the keyboard.
import { add, el, pairList, putBeside, quoted } from "../common/static/dom.js";
import { Tree } from "../common/tree/tree.js";
import { facts, spoken, verdict } from "./words.js";

export class Pointed {
  /** root: the view; tip: the tooltip, which both trees share. */
  constructor(root, tip, className) {
    Object.assign(this, { root, tip, tree: new Tree(), nodes: [] });
    this.box = add(el("div", className, "", { role: "group" }), this.tree.svg);
    const nodeOf = (target) => this.nodes[target.closest?.(".node")?.dataset.index] ?? null;
    for (const kind of ["pointerover", "focusin"]) {
      this.box.addEventListener(kind, ({ target }) => nodeOf(target) && this.#point(nodeOf(target)));
    }
    this.box.addEventListener("pointerout", ({ target }) => {
      const { activeElement } = document; // the tip of the node that has the keyboard comes back
      if (nodeOf(target)) this.#point(this.box.contains(activeElement) && nodeOf(activeElement));
    });
    for (const kind of ["focusout", "scroll"]) this.box.addEventListener(kind, () => this.#point());
    this.box.addEventListener("click", ({ target }) => nodeOf(target) && this.#reach(nodeOf(target)));
    this.box.addEventListener("keydown", (event) => this.#keyed(event, nodeOf(event.target)));
  }

  /** name: what it is called, for screen readers. */
  show(cycle, texts, name) {
    this.#point();
    Object.assign(this, { cycle, texts });
    this.nodes = this.tree.draw(cycle, texts);
    for (const node of this.nodes) {
      const ariaLabel = spoken(cycle, node, texts);
      Object.assign(node.drawn, { role: "img", tabIndex: node.index ? -1 : 0, ariaLabel });
    }
    this.box.ariaLabel = `${name}. Arrow keys move between its guesses.`;
    [this.box.scrollLeft, this.box.scrollTop] = [0, 0];
  }

  // Without a node the tip goes.
  #point(node) {
    const { cycle, texts, tip } = this;
    tip.hidden = !node;
    if (!node) return;
    const head = add(el("p"), el("b", "", quoted(texts[node.token])), " ", verdict(cycle, node, texts));
    tip.replaceChildren(head, pairList(facts(cycle, node, texts)));
    putBeside(tip, this.root, this.#spotOf(node.drawn.getBoundingClientRect()));
  }

  // Right of the tree, else below or above it, else at the node: the tip hides no other node if it can,
  // and not the other tree.
  #spotOf(node) {
    const [whole, edge] = [this.tree.svg, this.box].map((one) => one.getBoundingClientRect());
    const right = whole.right + 12;
    if (right + this.tip.offsetWidth < edge.right) return new DOMRect(right, node.top - 8);
    const room = Math.max(edge.top, window.innerHeight - edge.bottom);
    return room > this.tip.offsetHeight + 16 ? new DOMRect(node.left, edge.top, 0, edge.height) : node;
  }

  #reach(node) {
    for (const one of this.nodes) one.drawn.tabIndex = one === node ? 0 : -1;
    node.drawn.focus();
    node.drawn.scrollIntoView({ block: "nearest", inline: "nearest" });
  }

  #keyed(event, node) {
    if (event.key === "Escape") return this.#point();
    if (!node) return;
    const column = this.nodes.filter((one) => one.level === node.level);
    column.sort((one, other) => one.row - other.row);
    const at = column.indexOf(node);
    const next = {
      ArrowRight: node.children[0],
      ArrowLeft: this.nodes[node.parent],
      ArrowDown: column[at + 1],
      ArrowUp: column[at - 1],
      Home: this.nodes[0],
    };
    if (!(event.key in next)) return;
    event.preventDefault();
    if (next[event.key]) this.#reach(next[event.key]);
  }
}
