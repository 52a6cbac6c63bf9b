// The number box of a slider may be emptied to type another number: until there is one, the page is
// told nothing, and a box that is left empty shows the slider's number again.
function emptied(event) {
  const box = event.target;
  if (!box.matches?.("input[type=number]") || box.value !== "") return null;
  return box.closest(".block")?.querySelector("input[type=range]");
}

for (const kind of ["input", "change"]) {
  document.addEventListener(kind, (event) => emptied(event) && event.stopImmediatePropagation(), true);
}
document.addEventListener(
  "focusout",
  (event) => {
    const slider = emptied(event);
    if (slider) event.target.value = slider.value;
  },
  true,
);

// Gradio names each radio button apart: with one name for all of a group, arrow keys move among them,
// and Tab passes on.
document.addEventListener("focusin", ({ target }) => {
  if (!target.matches("input[type=radio]")) return;
  for (const one of target.closest("fieldset").querySelectorAll("input[type=radio]")) one.name = target.name;
});
