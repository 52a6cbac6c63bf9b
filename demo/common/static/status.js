// A status line, with a progress bar during longer work. Text goes in only through textContent, because
// it may quote a visitor.
export function mount({ element, props, watch }) {
  const [line, bar] = element.children;
  let said = null;

  function show() {
    const { kind = "", text = "", share = null } = props.value || {};
    bar.hidden = share === null;
    bar.value = share ?? 0;
    if (said === kind + text) return; // repeated while waiting: announced once
    said = kind + text;
    line.ariaLive = share === null ? "polite" : "off"; // the runs of a longer job are not announced
    line.dataset.kind = text ? kind : "";
    line.textContent = text;
  }

  watch("value", show);
  show();
}
