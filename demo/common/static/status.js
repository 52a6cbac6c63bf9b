// A status line. Text goes in through textContent only: it may quote what somebody typed.
const line = element.firstElementChild;
let said = null;

function show() {
  const { kind = "", text = "" } = props.value || {};
  if (said === kind + text) return; // told again while waiting: announced once
  said = kind + text;
  line.dataset.kind = text ? kind : "";
  line.textContent = text;
  if (kind === "load") {
    const bar = document.createElement("progress");
    bar.setAttribute("aria-label", "loading");
    line.append(" ", bar);
  }
}

watch("value", show);
show();
