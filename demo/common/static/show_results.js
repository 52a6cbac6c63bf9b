// Scrolls to results that appeared far below the pressed button.
(id => {
  const results = document.querySelector(`#${id}`);
  if (!results?.checkVisibility()) return;
  const top = results.getBoundingClientRect().top;
  if (top >= 0 && top < 0.5 * window.innerHeight) return;
  const still = window.matchMedia("(prefers-reduced-motion: reduce)").matches;
  // Not scrollIntoView: in Chromium, it would move the starting point of the Tab key.
  window.scrollBy({ top: top - 12, behavior: still ? "instant" : "smooth" });
})
