// A step's cycle: a sentence, and its draft tree. The value is JSON: a trace as inside/view.py packs
// it, with one cycle; what is said of it; whether the target's verdict is shown, and whether this
// step's button was pressed.
import { add, el, quoted, shape } from "../common/static/dom.js";
import { Tree, WIDE } from "../common/tree/tree.js";
import { sentence, spoken } from "../inside/words.js";

export function mount({ element, props, watch }) {
  const root = element.firstElementChild;
  const said = el("p", "how-said", "", { role: "status" });
  const tree = new Tree(WIDE, { role: "img" }, 1.6); // large, for a projector
  const group = { role: "group", ariaLabel: "Draft tree", tabIndex: 0 };
  const frame = add(el("div", "draft-tree", "", group), tree.svg);
  add(root, said, frame);

  function show() {
    root.hidden = !props.value;
    if (root.hidden) return tree.clear();
    const { judged, texts, cycles: [cycle], ...rest } = JSON.parse(props.value);
    said.textContent = rest.said;
    frame.dataset.phase = judged ? "kept" : "drafted";
    const nodes = tree.draw({ ...cycle, blind: true }, texts);
    tree.svg.ariaLabel = judged ? sentence(cycle, texts) : rest.said;
    const known = judged ? nodes : nodes.slice(0, -1); // the bonus is the target's
    for (const node of known) {
      const words = judged ? spoken(cycle, node, texts) : quoted(texts[node.token]);
      node.drawn.append(shape("title", {}, words));
    }
  }

  tree.refill(show);
  watch("value", () => {
    show();
    // On a phone, it is below the button.
    if (props.value && JSON.parse(props.value).pressed) root.scrollIntoView({ block: "nearest" });
  });
  show();
}
