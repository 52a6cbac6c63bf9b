// The link between this page's client and the server, with the button that cuts it.
const frame = element.firstElementChild;
const [press, words] = [frame.querySelector("button"), frame.querySelector("p")];
const CUT = ["cut", "lost"];

function show() {
  const { state = "idle", words: text = "" } = props.value || {};
  frame.dataset.state = state;
  press.disabled = state === "idle";
  press.textContent = CUT.includes(state) ? "Restore the link" : "Cut the link";
  if (words.textContent !== text) words.textContent = text; // announced once
}

press.addEventListener("click", () => trigger("pressed"));
watch("value", show);
show();
