// ---- a recording's own: a slider through its cycles, and what is said of the link by then ----

const scrub = Object.assign(el("input"), { type: "range", min: 0 });
const link = document.querySelector("#link");
scrub.setAttribute("aria-label", "Cycle");
scrub.addEventListener("input", () => rewind(Number(scrub.value)));
count.before(scrub);

function follow() {
  [scrub.max, scrub.value] = [lines.filter((line) => "cycle" in line).length, painted()];
  const said = lines.slice(0, next).findLast((line) => "said" in line)?.said ?? "";
  if (link.textContent !== said) link.textContent = said;
}
new MutationObserver(follow).observe(count, { childList: true }); // written with each step
follow();
