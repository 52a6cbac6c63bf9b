// Gives every chart its accessible name, which the figure carries (demo/common/charts.py, told).
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
