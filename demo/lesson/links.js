// A link of the lesson brings the prompt of its page along, and one that runs something leaves word
// for the page it opens (press_once.js): an address alone, which anybody may send, runs nothing.
document.addEventListener("click", (event) => {
  const link = event.target.closest?.("a[data-press]");
  if (!link) return;
  const address = new URL(link.href);
  const own = document.querySelector("#how-prompt textarea, #how-prompt input")?.value;
  if (own && address.searchParams.has("prompt")) {
    address.searchParams.set("prompt", own);
    link.href = address;
  }
  const elsewhere = event.ctrlKey || event.metaKey || event.shiftKey || event.altKey;
  if (!link.dataset.press || elsewhere) return;
  const word = { button: link.dataset.press, address: address.search, at: Date.now() };
  try {
    sessionStorage.setItem("press", JSON.stringify(word));
  } catch {} // storage may be forbidden: then it opens and runs nothing
});
