// ?class=1: large, and with no more than a class needs (live/style.css).
for (const frame of [document.body, element.closest(".contain > *")]) // gradio styles the inner one alone
  frame?.classList.toggle("class-mode", new URLSearchParams(window.location.search).get("class") === "1");

// The address names the tab that is open, and Back and Forward lead from tab to tab. `props`, which
// has the tabs' names, and `trigger` come from gradio; this runs once, at mount.
const named = () => {
  const tab = new URLSearchParams(window.location.search).get("tab");
  return props.tabs.includes(tab) ? tab : props.tabs[0]; // an address that names none means the first
};
// A page selects its first tab as it opens, before it turns to the one that the address names.
let awaited = named();

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

for (const kind of ["pointerdown", "keydown"]) // whatever is opened from then on, a person opened
  window.addEventListener(kind, () => (awaited = null), { once: true, capture: true });

window.addEventListener("tab-opened", ({ detail: tab }) => {
  if (awaited) {
    if (tab === awaited) awaited = null;
    return;
  }
  if (tab !== named()) history.pushState(null, "", addressOf(tab));
});

// The address is another one already; the tab follows it. A prompt that is no longer the page's goes.
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

// ---- a way into a tab, followed in the page: what was done here stays, and Back leads to its place ----

let pending = ""; // id of the button that is pressed there

// detail: the tab; of its address more settings; the prompt to bring; the button to press.
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
    else if (tries) setTimeout(press, 50, tries - 1); // the tab is not open yet, or a run goes on
  };
  if (id) press(200);
});

// A link of the page that says what to press ("": nothing). With a key held it opens elsewhere, and
// an address alone, which anybody may send, runs nothing.
document.addEventListener("click", (event) => {
  const link = event.target.closest?.("a[data-press]");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  event.preventDefault();
  const { tab, prompt, ...settings } = Object.fromEntries(new URL(link.href).searchParams);
  const own = document.querySelector("#how-prompt :is(textarea, input)")?.value || prompt;
  const detail = { tab, settings, prompt: prompt && own, press: link.dataset.press };
  window.dispatchEvent(new CustomEvent("open-tab", { detail }));
});
