// A progress bar with words.
const [line] = element.children;
const [bar, words] = line.children;

function show() {
  const { words: said = "", share = 0 } = props.value || {};
  line.hidden = !said;
  bar.value = share;
  bar.setAttribute("aria-label", said);
  words.textContent = said;
}

watch("value", show);
show();
