// One prompt for all tabs: what was written last, in whichever box, is what a tab opens with.
({
  chosen: (text) => (window.newestPrompt = text),
  // box: a selector. A box in a tab that was left only tells, late, what it was given.
  keep(text, box) {
    if (!document.querySelector(box)?.checkVisibility()) return;
    window.newestPrompt = text;
    const address = new URL(window.location);
    if (!address.searchParams.has("prompt") || address.searchParams.get("prompt") === text) return;
    address.searchParams.delete("prompt"); // the address no longer says what stands in the box
    history.replaceState(history.state, "", address);
  },
  newest: (own) => window.newestPrompt ?? own,
  first(own) {
    window.newestPrompt ??= new URL(window.location).searchParams.get("prompt") ?? undefined;
    return window.newestPrompt ?? own;
  },
})
