// Run, Stop and the switch that cuts the link, for all lanes.
const net = (window.network ??= { lanes: [] });
const frame = element.firstElementChild;
const mark = frame.querySelector("b");
const press = (name) => document.querySelector(`#net-${name}`);
const on = () => net.lanes.slice(0, net.used);
const busy = (lane) => ["running", "lost", "back"].includes(lane.state);
Object.assign(net, { used: 1, isCut: false });

net.choose = (method) => {
  const names = props.lanes[method];
  net.used = names.length;
  net.lanes.forEach((lane, at) => names[at] && lane.choose(names[at][0], names[at][1]));
  net.show();
};

net.run = async (method, text, count, ...link) => {
  if (press("run").disabled) return;
  press("run").disabled = true;
  document.querySelector("#net-status .status-line").dataset.kind = "";
  net.choose(method);
  net.link(...link);
  try {
    const answer = await fetch(new URL("device/ids", document.baseURI), { method: "POST", body: JSON.stringify({ text }) });
    const { ids, error } = await answer.json();
    if (!ids) throw new Error(error ?? "The server does not answer.");
    for (const lane of on()) lane.start({ prompt: ids, count, patience: 60_000 });
    net.show();
  } catch (error) {
    net.lanes[0].said = error.message;
    net.show();
  }
};

net.stop = () => on().forEach((lane) => lane.send({ do: "stop" }));

net.cut = () => {
  net.isCut = !net.isCut;
  for (const lane of on()) lane.send({ do: net.isCut ? "cut" : "mend" });
  net.show();
};

// A round trip in ms, and Mbit/s to and from the server.
net.link = (trip, up, down) => net.lanes.forEach((lane) => lane.send({ do: "link", delay: trip / 2, up, down }));

// Of a duel that is over: who gained more, and whether both wrote the same.
function verdict(lanes) {
  if (lanes.length < 2 || lanes.some((lane) => lane.state !== "done" || !lane.tau)) return [];
  const [first, second] = lanes.toSorted((one, other) => other.tau - one.tau);
  const [most, less] = [first, second].map(({ tau }) => tau.toFixed(2));
  const who = most === less
    ? `Both gain ${most} tokens per round trip.`
    : `${first.title} gains more per round trip: ${most} tokens, ${second.title} ${less}.`;
  return [who, first.text === second.text ? "Both wrote the same text." : "Their texts differ."];
}

net.show = () => {
  const lanes = on(), running = lanes.some(busy);
  if (!running && net.isCut) return net.cut(); // the next run begins with a link
  const each = lanes.filter((lane) => lane.said).map((lane) => (lanes.length > 1 ? `${lane.title}: ` : "") + lane.said);
  const words = [...each, ...verdict(lanes)].join(" ");
  const said = document.querySelector("#net-status .status-line");
  if (said.dataset.kind !== "error" && said.textContent !== words) said.textContent = words;
  const share = lanes.find((lane) => lane.share)?.share;
  const bar = document.querySelector("#net-status progress");
  bar.hidden = !share;
  bar.value = share ?? 0;
  frame.dataset.state = !running ? "idle" : net.isCut ? "cut" : lanes.some((lane) => lane.state === "lost") ? "lost" : "up";
  mark.textContent = { cut: "✂", lost: "?" }[frame.dataset.state] ?? "";
  press("run").disabled = running;
  for (const name of ["stop", "cut"]) press(name).disabled = !running;
  press("cut").textContent = net.isCut ? "Restore the link" : "Cut the link";
};

window.addEventListener("tab-opened", ({ detail }) => {
  if (detail === "network" && !net.lanes[0].name) net.choose(props.first);
});
