// A slider's number box may be emptied for typing: until it has a number, no event reaches the page,
// and a box that is left empty shows the slider's number again.
function emptied(event) {
  const box = event.target;
  if (!box.matches?.("input[type=number]") || box.value !== "") return null;
  return box.closest(".block")?.querySelector("input[type=range]");
}

for (const kind of ["input", "change"]) {
  document.addEventListener(kind, (event) => emptied(event) && event.stopImmediatePropagation(), true);
}
document.addEventListener("focusout", (event) => {
  const slider = emptied(event);
  if (slider) event.target.value = slider.value;
}, true);

// The list of a dropdown closes when Tab leaves it, as with Escape.
document.addEventListener("keydown", ({ key, target }) => {
  if (key === "Tab" && target.matches("[role=combobox]")) target.dispatchEvent(new KeyboardEvent("keydown", { key: "Escape", bubbles: true }));
});

// Gradio gives each radio button its own name. With one name per group, arrow keys move within the
// group, and Tab leaves it.
document.addEventListener("focusin", ({ target }) => {
  if (!target.matches("input[type=radio]")) return;
  for (const one of target.closest("fieldset").querySelectorAll("input[type=radio]")) one.name = target.name;
});
