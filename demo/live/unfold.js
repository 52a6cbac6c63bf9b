// Shows all choices of a component, or only the first ones.
const press = element.firstElementChild;
press.addEventListener("click", () => {
  const all = document.querySelector(props.of).classList.toggle("all");
  press.ariaExpanded = String(all);
  press.textContent = (all ? "fewer " : "more ") + props.what;
});
