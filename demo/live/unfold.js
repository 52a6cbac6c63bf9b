// Shows all methods, or only the first ones.
const press = element.firstElementChild;
press.addEventListener("click", () => {
  const all = document.querySelector("#method").classList.toggle("all");
  press.ariaExpanded = String(all);
  press.textContent = all ? "fewer methods" : "more methods";
});
