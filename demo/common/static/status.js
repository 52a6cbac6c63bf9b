// A status line, with a bar below it while something is under way. Text goes in through textContent
// only: it may quote what somebody typed.
const [line, bar] = element.children;
let said = null;

function show() {
  const { kind = "", text = "", share = null } = props.value || {};
  bar.hidden = share === null;
  bar.value = share ?? 0;
  if (said === kind + text) return; // told again while waiting: announced once
  said = kind + text;
  line.ariaLive = share === null ? "polite" : "off"; // not each of many runs is announced
  line.dataset.kind = text ? kind : "";
  line.textContent = text;
}

watch("value", show);
show();
