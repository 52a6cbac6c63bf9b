// ?class=1: large type and few controls (live/style.css).
for (const frame of [document.body, element.closest(".contain > *")]) // gradio styles only the inner one
  frame?.classList.toggle("class-mode", new URLSearchParams(window.location.search).get("class") === "1");

// The address names the open tab, and Back and Forward move between tabs. gradio provides `props`,
// with the tabs' names, and `trigger`; this runs once, at mount.
const named = () => {
  const tab = new URLSearchParams(window.location.search).get("tab");
  return props.tabs.includes(tab) ? tab : props.tabs[0]; // the first tab by default
};
// While it opens, a page first selects its first tab, then the address's.
let awaited = named();

// The address of a tab, without settings, which belong to one visit. Parameters of gradio and its host
// (such as __theme) stay.
function addressOf(tab) {
  const address = new URL(window.location);
  for (const name of [...address.searchParams.keys()])
    if (!name.startsWith("__") && name !== "class") address.searchParams.delete(name);
  address.searchParams.set("tab", tab);
  address.hash = "";
  return address;
}

for (const kind of ["pointerdown", "keydown"]) // from now on, a person opens the tabs
  window.addEventListener(kind, () => (awaited = null), { once: true, capture: true });

window.addEventListener("tab-opened", ({ detail: tab }) => {
  if (awaited) {
    if (tab === awaited) awaited = null;
    return;
  }
  if (tab !== named()) history.pushState(null, "", addressOf(tab));
});

// The address has changed; the tab follows it. An outdated prompt is removed from it.
window.addEventListener("popstate", ({ state }) => {
  const address = new URL(window.location);
  const prompt = address.searchParams.get("prompt");
  if (prompt && ![undefined, prompt].includes(window.newestPrompt)) {
    address.searchParams.delete("prompt");
    history.replaceState(history.state, "", address);
  }
  arrive(state?.scroll);
});

function arrive(scroll) {
  if (scroll !== undefined)
    window.addEventListener(
      "tab-opened",
      () => requestAnimationFrame(() => requestAnimationFrame(() => window.scrollTo({ top: scroll, behavior: "instant" }))),
      { once: true },
    );
  trigger("back");
}

// ---- links to tabs, without loading the page again: results stay, and Back returns to them ----

let pending = ""; // id of the button to press there

// detail: the tab, more settings for the address, the prompt to take along, the button to press.
window.addEventListener("open-tab", ({ detail: { tab, settings = {}, prompt, press = "" } }) => {
  const address = addressOf(tab);
  for (const [name, value] of Object.entries(settings)) address.searchParams.set(name, value);
  if (prompt) window.newestPrompt = prompt;
  pending = press;
  history.replaceState({ ...history.state, scroll: window.scrollY }, "");
  history.pushState(null, "", address);
  arrive(0);
  trigger("follow"); // the server reads the settings
});

const PROMPTS = "#prompt textarea, #compare-prompt textarea, #sweep-prompt textarea";
const seen = (node) => node?.checkVisibility();

window.addEventListener("followed", () => {
  const id = pending;
  pending = "";
  const press = (tries) => {
    const found = document.querySelector(`#${id}`);
    const box = [...document.querySelectorAll(PROMPTS)].find(seen);
    const brought = !box || [undefined, box.value].includes(window.newestPrompt);
    if (seen(found) && !found.disabled && brought) found.click();
    else if (tries) setTimeout(press, 50, tries - 1); // the tab is not open yet, or a run is in progress
  };
  if (id) press(200);
});

// A link that names the button to press ("": none). With a modifier key it opens elsewhere. An address
// alone, which anybody may send, never starts a run.
document.addEventListener("click", (event) => {
  const link = event.target.closest?.("a[data-press]");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  event.preventDefault();
  const { tab, prompt, ...settings } = Object.fromEntries(new URL(link.href).searchParams);
  const own = document.querySelector("#how-prompt :is(textarea, input)")?.value || prompt;
  const detail = { tab, settings, prompt: prompt && own, press: link.dataset.press };
  window.dispatchEvent(new CustomEvent("open-tab", { detail }));
});
