// One prompt for all tabs: a tab opens with the text that was last typed in any tab.
({
  chosen: (text) => (window.newestPrompt = text),
  // box: a selector. The box of a hidden tab only repeats, late, what it was given.
  keep(text, box) {
    if (!document.querySelector(box)?.checkVisibility()) return;
    window.newestPrompt = text;
    const address = new URL(window.location);
    if (!address.searchParams.has("prompt") || address.searchParams.get("prompt") === text) return;
    address.searchParams.delete("prompt"); // the address no longer has the box's text
    history.replaceState(history.state, "", address);
  },
  newest: (own) => window.newestPrompt ?? own,
  first(own) {
    window.newestPrompt ??= new URL(window.location).searchParams.get("prompt") ?? undefined;
    return window.newestPrompt ?? own;
  },
})
