// A drafter's files: downloaded in parts that are kept by their hash, so a download goes on where it
// stopped, and drafters share what they have in common.

import { LinkLost } from "./connection.js";

const STORE = "moa-drafters";
// None on a page without https, or where the visitor blocks it.
const store = () => globalThis.caches?.open(STORE).catch(() => null);

/** What a drafter is (demo/device/weights.py); its bytes, those left to fetch, and the parts with them. */
export async function facts(base, name) {
  const url = `${base}/facts/${name}`, found = await fetch(url).catch(() => null);
  if (!found) throw new LinkLost();
  const told = (await found.json().catch(() => null)) ?? {};
  if (!found.ok) throw new Error(told.error ?? told.detail ?? "The server does not answer.");
  if (told.format !== 4) throw new Error("This page is older than its server: reload it.");
  const kept = await store(), parts = Object.values(told.files).flat();
  await kept?.put(url, new Response(JSON.stringify(told))).catch(() => {});
  const here = await Promise.all(parts.map(([hash]) => kept?.match(`${base}/parts/${hash}`)));
  const sum = (some) => some.reduce((sum, [, , sent]) => sum + sent, 0);
  const missing = parts.filter((_, at) => !here[at]);
  return { ...told, bytes: sum(parts), left: sum(missing), missing };
}

/** Its files by name. progress: gets the bytes that are here, while some are fetched. */
export async function download(base, { files }, progress) {
  const kept = await store(), found = {};
  let before = 0;
  for (const [name, parts] of Object.entries(files)) {
    const whole = new Uint8Array(parts.reduce((sum, [, size]) => sum + size, 0));
    let at = 0;
    for (const [hash, size, sent] of parts) {
      const url = `${base}/parts/${hash}`, here = await kept?.match(url);
      whole.set(new Uint8Array(await (here?.arrayBuffer() ?? fetched(url, size, kept))), at);
      [at, before] = [at + size, before + sent];
      if (!here) progress(before);
    }
    found[name] = whole;
  }
  if (kept) await tidy(kept);
  return found;
}

async function fetched(url, size, kept) {
  const found = await fetch(url, { cache: kept ? "no-store" : "default" }); // kept once, not twice
  if (!found.ok) throw new Error(`The server has other weights by now (${found.status}): reload this page.`);
  const again = found.clone(), data = await found.arrayBuffer().catch(() => null);
  if (data?.byteLength !== size) throw new Error("The download broke off: press again to go on.");
  await kept?.put(url, again).catch(() => {}); // it may be full
  return data;
}

/** Drop what no drafter in this browser has any more. */
async function tidy(kept) {
  const keys = await kept.keys(), used = new Set();
  for (const key of keys.filter(({ url }) => url.includes("/facts/"))) {
    const { files } = await (await kept.match(key)).json();
    for (const [hash] of Object.values(files ?? {}).flat()) used.add(hash);
  }
  for (const key of keys) {
    if (!key.url.includes("/facts/") && !used.has(key.url.split("/").at(-1))) await kept.delete(key);
  }
}
