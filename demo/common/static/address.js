// ?class=1: large, and with no more than a class needs (live/style.css).
for (const frame of [document.body, element.closest(".contain > *")]) // gradio styles the inner one alone
  frame?.classList.toggle("class-mode", new URLSearchParams(window.location.search).get("class") === "1");

// The address names the tab that is open, and Back and Forward lead from tab to tab. `props`, which
// has the tabs' names, and `trigger` come from gradio; this runs once, at mount.
const inAddress = () => new URLSearchParams(window.location.search).get("tab");
// A page selects its first tab as it opens, before it turns to the one that the address names.
let awaited = props.tabs.includes(inAddress()) ? inAddress() : props.tabs[0];

// An address of a tab alone: settings belong to the visit that brought them. What gradio and its host
// write there themselves (__theme and the like) stays.
function addressOf(tab) {
  const address = new URL(window.location);
  for (const name of [...address.searchParams.keys()])
    if (!name.startsWith("__") && name !== "class") address.searchParams.delete(name);
  address.searchParams.set("tab", tab);
  address.hash = "";
  return address;
}

// An address that names none of the tabs gets the first one's name. A wrong name stays until the server
// has read the address, to say so.
function settle() {
  if (props.tabs.includes(inAddress())) return;
  const address = new URL(window.location);
  address.searchParams.set("tab", props.tabs[0]);
  history.replaceState(history.state, "", address);
}

if (inAddress() === null) settle();
window.addEventListener("address-read", settle);

for (const kind of ["pointerdown", "keydown"]) // whatever is opened from then on, a person opened
  window.addEventListener(kind, () => (awaited = null), { once: true, capture: true });

window.addEventListener("tab-opened", ({ detail: tab }) => {
  if (awaited) {
    if (tab === awaited) awaited = null;
    return;
  }
  settle();
  if (tab !== inAddress()) history.pushState(null, "", addressOf(tab));
});

// The address is another one already; the tab follows it. A prompt that is no longer the page's goes.
window.addEventListener("popstate", () => {
  const address = new URL(window.location);
  const prompt = address.searchParams.get("prompt");
  if (prompt && ![undefined, prompt].includes(window.newestPrompt)) {
    address.searchParams.delete("prompt");
    history.replaceState(history.state, "", address);
  }
  trigger("back");
});
