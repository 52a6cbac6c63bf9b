// One prompt for all tabs: what was written last, in whichever box, is what a tab opens with, also when
// the page is loaded again. It stays in this window of the browser.
({
  remember(text) {
    window.newestPrompt = text;
    try {
      sessionStorage.setItem("prompt", text);
    } catch {} // storage may be forbidden or full: then a reload forgets it
  },
  chosen(text) {
    this.remember(text);
    return text;
  },
  // box: a selector. A box in a tab that was left only tells, late, what it was given.
  keep(text, box) {
    if (!document.querySelector(box)?.checkVisibility()) return;
    this.remember(text);
    const address = new URL(window.location);
    if (!address.searchParams.has("prompt") || address.searchParams.get("prompt") === text) return;
    address.searchParams.delete("prompt"); // the address no longer says what stands in the box
    history.replaceState(history.state, "", address);
  },
  newest(own) {
    if (window.newestPrompt !== undefined) return window.newestPrompt;
    try {
      return sessionStorage.getItem("prompt") ?? own;
    } catch {
      return own;
    }
  },
  first(own) {
    const given = new URL(window.location).searchParams.get("prompt");
    if (given) this.remember(given);
    return this.newest(own);
  },
})
