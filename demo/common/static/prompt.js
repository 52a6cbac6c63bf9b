// One prompt for all tabs: a tab opens with the text that was last typed in any tab, also after a reload.
import { store, stored } from "./kept.js";

const KEPT = "moa-prompt"; // its name in kept.js
let prompt; // the newest; undefined until there is one

export function replace(text) {
  prompt = text;
  store(KEPT, text);
  return text;
}

export const chosen = (texts, index) => replace(texts[index]);

/** A box has a new text. The box of a hidden tab only repeats, late, what it was given. */
export function keep(box, text) {
  if (!document.querySelector(`#${box}`)?.checkVisibility()) return;
  replace(text);
  const address = new URL(window.location);
  if (!address.searchParams.has("prompt") || address.searchParams.get("prompt") === text) return;
  address.searchParams.delete("prompt"); // the address no longer has the box's text
  history.replaceState(history.state, "", address);
}

export const newest = (own) => prompt ?? own;

/** As the page opens: the address's, else the one from before; a lesson has its own. */
export function first(own) {
  const asked = new URL(window.location).searchParams;
  prompt ??= asked.get("prompt") ?? (asked.get("class") === "1" ? null : stored(KEPT)) ?? undefined;
  return newest(own);
}
