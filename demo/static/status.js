// A status line. Text goes in through textContent only: it may quote what somebody typed.
const line = element.firstElementChild;

function show() {
  const { kind = "", text = "" } = props.value || {};
  line.dataset.kind = text ? kind : "";
  line.textContent = text;
}

watch("value", show);
show();
