// Shows all choices of a component, or only a few.
const press = element.firstElementChild;
press.addEventListener("click", () => {
  const all = document.querySelector(props.of).classList.toggle("all");
  press.setAttribute("aria-expanded", String(all));
  press.textContent = all ? press.textContent.replace("more", "fewer") : press.textContent.replace("fewer", "more");
});
