// The drafter's file: downloaded once, cached by the browser, and opened as float32.
import { Eagle } from "./eagle.js";
import { MoA } from "./moa.js";
import { product, scaled, widen } from "./numbers.js";

const STORE = "moa-drafters";

/** {name, bytes, hash} of a drafter's file, before its download. */
export async function facts(base, name) {
  const found = await fetch(`${base}/facts/${name}`), told = await found.json().catch(() => ({}));
  if (!found.ok) throw new Error(told.error ?? told.detail ?? `The server does not answer (${found.status}).`);
  return told;
}

/** The file, from the browser's cache if it is there. progress: gets the bytes so far. */
export async function fetchFile(base, { name, hash }, progress) {
  const url = `${base}/weights/${name}/${hash}`;
  const store = await globalThis.caches?.open(STORE); // none on a page without https
  const kept = await store?.match(url);
  if (kept) return kept.arrayBuffer();
  const found = await answer(url), parts = [];
  let bytes = 0;
  for await (const part of chunks(found.body)) {
    parts.push(part);
    progress((bytes += part.length));
  }
  const file = new Blob(parts);
  for (const older of (await store?.keys()) ?? []) {
    if (older.url.startsWith(new URL(`${base}/weights/${name}/`, self.location))) {
      await store.delete(older);
    }
  }
  await store?.put(url, new Response(file)).catch(() => {}); // it may be full
  return file.arrayBuffer();
}

async function answer(url) {
  const found = await fetch(url);
  if (!found.ok) throw new Error(`The server has no such drafter (${found.status}).`);
  return found;
}

async function* chunks(body) {
  const reader = body.getReader();
  for (let part; !(part = await reader.read()).done; ) yield part.value;
}

/** Header and tensors {data: Float32Array, shape} of a file. */
export function open(file) {
  const size = new DataView(file).getUint32(0, true), start = 4 + size;
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(file, 4, size)));
  if (header.format !== 2) throw new Error("This page is older than its server: reload it.");
  const tensors = {};
  for (const [name, place] of Object.entries(header.tensors)) {
    tensors[name] = { shape: place.shape, data: read(file, start, place) };
  }
  return { header, tensors };
}

function read(file, start, { shape, data, scales }) {
  if (scales === undefined) return new Float32Array(file, start + data, product(shape));
  const whole = new Int8Array(file, start + data, product(shape));
  return scaled(whole, new Float32Array(file, start + scales, shape[0]));
}

/** A drafter at the start of a run. capacity: tokens of text, plus one tree. */
export const drafter = (model, capacity) =>
  model.header.method === "moa" ? new MoA(model, capacity) : new Eagle(model, capacity);
