// Gives every chart its accessible name, which the figure carries (demo/common/charts.py, told).
// Where a page has a base, Plotly names a chart's stripes by the whole address, which another tab changes:
// then they are not drawn. This page's base, "./", is what holds without one.
document.querySelector("base")?.remove();
const charts = document.getElementsByClassName("js-plotly-plot"); // a live collection

function tell() {
  for (const chart of charts) {
    const words = chart.layout?.meta?.words;
    if (!words || chart.getAttribute("aria-label") === words) continue;
    Object.assign(chart, { role: "img", ariaLabel: words });
  }
}

new MutationObserver(tell).observe(document.body, { childList: true, subtree: true });
tell();
