// ---- a recording's own: a slider through its cycles ----

const scrub = el("input", "", "", { type: "range", min: 0, ariaLabel: "Cycle" });
scrub.addEventListener("input", () => rewind(Number(scrub.value)));
count.before(scrub);

const follow = () => ([scrub.max, scrub.value] = [cycles().length, painted()]);
new MutationObserver(follow).observe(count, { childList: true }); // written with each step
follow();
pace = TEMPOS.slow;
tempo &&= pace;
