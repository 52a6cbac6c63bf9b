// Traces as files: the newest run's to be saved, and others to be opened.
import { el } from "../common/static/dom.js";

const MOST = 15_000_000; // bytes

/** act: {saved: {trace, method} of the newest run, or null; open: shows the text of a file; said: tells
 *  what is wrong}. */
export function files(element, { saved, open, said }) {
  const [save, choose] = ["#save", "#open"].map((id) => element.querySelector(id));
  save.onclick = () => {
    const newest = saved();
    if (!newest) return said("Press Run first: there is no trace to save.");
    const href = URL.createObjectURL(new Blob([newest.trace], { type: "application/json" }));
    el("a", "", "", { href, download: `trace-${newest.method.replace(/[^\w-]/g, "") || "run"}.json` }).click();
    setTimeout(() => URL.revokeObjectURL(href), 1000);
  };
  choose.onchange = async () => {
    const [file] = choose.files;
    choose.value = "";
    if (!file) return;
    if (file.size > MOST) said("This file is too large to open: the limit is 15 MB.");
    else open(await file.text());
  };
}
