// Brings results into sight that have come far below the button that was pressed.
(id => {
  const results = document.querySelector(`#${id}`);
  if (!results?.checkVisibility()) return;
  const top = results.getBoundingClientRect().top;
  if (top >= 0 && top < 0.5 * window.innerHeight) return;
  const still = window.matchMedia("(prefers-reduced-motion: reduce)").matches;
  // Not scrollIntoView: Chromium then lets the Tab key go on from there.
  window.scrollBy({ top: top - 12, behavior: still ? "instant" : "smooth" });
})
