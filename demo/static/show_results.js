() => {
  const results = document.querySelector("#sweep-results");
  if (!results || results.getBoundingClientRect().top < 0.7 * window.innerHeight) return;
  const still = window.matchMedia("(prefers-reduced-motion: reduce)").matches;
  results.scrollIntoView({ behavior: still ? "instant" : "smooth", block: "start" });
}
