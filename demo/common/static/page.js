// Tabs and their addresses: the address names the open tab, and Back and Forward move between tabs.
import "./charts.js";
import { calm, modified, stepped } from "./dom.js";
import "./inputs.js";
import { newest, replace } from "./prompt.js";

const listeners = new Set();
let tabs = [];
let trigger = () => {};
// While it opens, a page first selects its first tab, then the address's.
let awaited = null;
let pending = ""; // id of the button to press in the tab that a link opens
const known = new Set(); // tabs that have the address's settings

export const inClass = new URLSearchParams(window.location.search).get("class") === "1";

/** In class mode, the id of the lesson's step. */
export const stepOf = () => document.querySelector("[data-step]")?.dataset.step;

/** Calls act with the name of each tab that is opened. */
export const onTab = (act) => listeners.add(act);

export function onNextTab(act) {
  const once = (tab) => listeners.delete(once) && act(tab);
  onTab(once);
}

const named = () => {
  const tab = new URLSearchParams(window.location.search).get("tab");
  return tabs.includes(tab) ? tab : tabs[0]; // the first tab by default
};

/** The header: `props.tabs` are the tabs' names. */
export function mount(given) {
  ({ trigger } = given);
  tabs = given.props.tabs;
  awaited = named();
  for (const frame of [document.body, given.element.closest(".contain > *")]) // gradio styles only the inner one
    frame?.classList.toggle("class-mode", inClass);
  for (const kind of ["pointerdown", "keydown"]) // from now on, a person opens the tabs
    window.addEventListener(kind, () => (awaited = null), { once: true, capture: true });
  window.addEventListener("popstate", ({ state }) => {
    const address = new URL(window.location);
    const prompt = address.searchParams.get("prompt");
    if (prompt && newest(prompt) !== prompt) { // it is outdated
      address.searchParams.delete("prompt");
      history.replaceState(history.state, "", address);
    }
    arrive(state?.scroll);
  });
  document.addEventListener("click", follow);
  document.addEventListener("keydown", step);
}

// Left, Right, Home and End open the tab beside, the first and the last one.
function step(event) {
  const { target } = event;
  if (!target.matches?.("#tabs > .tab-wrapper [role=tab]")) return;
  const next = stepped(event, [...target.parentNode.children], target);
  next?.focus();
  next?.click();
}

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

/** gradio tells of each tab that it opens. */
export function opened(tab) {
  for (const act of [...listeners]) act(tab);
  // A chart that was drawn in a hidden tab does not know its width.
  requestAnimationFrame(() => window.dispatchEvent(new Event("resize")));
  if (!tabs.length) return; // the header is not there yet
  if (awaited) {
    if (tab === awaited) awaited = null;
    return;
  }
  if (tab !== named()) history.pushState(null, "", addressOf(tab));
}

function arrive(scroll) {
  const back = () => window.scrollTo({ top: scroll, behavior: "instant" });
  if (scroll !== undefined) onNextTab(() => requestAnimationFrame(() => requestAnimationFrame(back)));
  trigger("back");
}

/** Sets settings of the open tab: its address then names them, and is read again. */
export function setHere(settings) {
  const address = new URL(window.location);
  address.searchParams.delete("prompt"); // it may be outdated
  for (const [name, value] of Object.entries(settings)) address.searchParams.set(name, value);
  history.replaceState(history.state, "", address);
  trigger("follow"); // the server reads them
}

/** Opens a tab in this page: results stay, and Back returns to them. settings: more for its address;
 *  prompt: to take along; press: id of a button to press there. */
export function openTab({ tab, settings = {}, prompt, press = "" }) {
  const address = addressOf(tab);
  for (const [name, value] of Object.entries(settings)) address.searchParams.set(name, value);
  if (prompt) replace(prompt);
  pending = press;
  history.replaceState({ ...history.state, scroll: window.scrollY }, "");
  history.pushState(null, "", address);
  arrive(0);
  trigger("follow"); // the server reads the settings
}

const PROMPTS = "#prompt textarea, #compare-prompt textarea";
const seen = (node) => node?.checkVisibility();

/** Whether a tab has read the address. */
export const read = (tab) => known.has(tab);

/** The settings that a tab reads from an address are there: press the button that its link named. */
export function followed(tab) {
  known.add(tab);
  if (tab !== named()) return;
  const id = pending;
  pending = "";
  const press = (tries) => {
    const found = document.querySelector(`#${id}`);
    const box = [...document.querySelectorAll(PROMPTS)].find(seen);
    const brought = !box || newest(box.value) === box.value;
    if (seen(found) && !found.disabled && brought) found.click();
    else if (tries) setTimeout(press, 50, tries - 1); // the tab is not open yet, or a run is in progress
  };
  if (id) press(200);
}

// A link that names the button to press ("": none). With a modifier key it opens elsewhere. An address
// alone, which anybody may send, never starts a run.
function follow(event) {
  const link = event.target.closest?.("a[data-press]");
  if (!link || modified(event)) return;
  event.preventDefault();
  const { tab, prompt, ...settings } = Object.fromEntries(new URL(link.href).searchParams);
  const own = document.querySelector("#how-prompt :is(textarea, input)")?.value || prompt;
  openTab({ tab, settings, prompt: prompt && own, press: link.dataset.press });
}

/** Scrolls to what is far below the pressed button, or above the window. */
export function showResults(id) {
  const results = document.querySelector(`#${id}`);
  if (!results?.checkVisibility()) return;
  const { top } = results.getBoundingClientRect();
  if (top >= 0 && top < 0.5 * window.innerHeight) return;
  // Not scrollIntoView: in Chromium, it would move the starting point of the Tab key.
  window.scrollBy({ top: top - 12, behavior: calm.matches ? "instant" : "smooth" });
}
