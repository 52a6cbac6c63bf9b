// A progress bar. The value is the share of the work done, 0 to 1, or null for no bar.
const bar = element.firstElementChild;

function show() {
  const share = props.value;
  bar.hidden = typeof share !== "number";
  if (!bar.hidden) bar.value = share;
}

watch("value", show);
show();
