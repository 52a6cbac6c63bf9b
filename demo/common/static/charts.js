// Gives every chart of the page its words, as its name for those who cannot see it. A figure brings
// them along (demo/common/charts.py, told).
const charts = document.getElementsByClassName("js-plotly-plot"); // those that are there by then

function tell() {
  for (const chart of charts) {
    const words = chart.layout?.meta?.words;
    if (!words || chart.getAttribute("aria-label") === words) continue;
    Object.assign(chart, { role: "img", ariaLabel: words });
  }
}

// Drawn while its tab was out of sight, a chart does not know how wide it is.
window.addEventListener("tab-opened", () =>
  requestAnimationFrame(() => window.dispatchEvent(new Event("resize"))),
);
new MutationObserver(tell).observe(document.body, { childList: true, subtree: true });
tell();
