// What outlives a reload of this tab. A browser may forbid it, and a long text may not fit.

/** null: nothing is kept under this name. */
export function stored(name) {
  try {
    return sessionStorage.getItem(name);
  } catch {
    return null;
  }
}

export function store(name, text) {
  try {
    sessionStorage.removeItem(name); // else what does not fit would leave the text before
    sessionStorage.setItem(name, text);
  } catch {
    // the page goes on without
  }
}
