/* link.js - draws the transfers to the host below the curve, on the same axis of steps: bytes to
   the host (up) and back (down), and where computing waits for them. Predictions stand above
   measurements of a run.

   A copy has a start and an end in seconds; its position among the steps is that of the main stream
   at that time. */

const links = (fit ? plan.links : []).map(({ name, reach, copies, waits, waited }) => ({
  name, waited, reach: reach.map(Number),
  copies: copies.map(([step, out, bytes, start, end]) => ({ step, out, bytes, start, end })),
  waits: waits.map(([step, start, duration]) => ({ step, start, duration })),
}));
const hasLink = links.some(({ copies }) => copies.length > 0);
const linkPane = hasLink ? makePane("link") : null;

/* The position of an instant among the steps. */
function placeOf({ reach }, time) {
  let low = 0, high = reach.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (reach[middle] <= time) low = middle + 1;
    else high = middle;
  }
  const step = low - 1;
  if (step < 0) return 0;
  if (step + 1 >= reach.length) return reach.length - 1;
  return step + (time - reach[step]) / (reach[step + 1] - reach[step]);
}
let linkTop = 1;
for (const link of links) {
  for (const copy of link.copies) {
    linkTop = Math.max(linkTop, Number(copy.bytes));
    copy.x0 = placeOf(link, Number(copy.start));
    copy.x1 = placeOf(link, Number(copy.end));
  }
  for (const wait of link.waits) {
    wait.x0 = placeOf(link, Number(wait.start));
    wait.x1 = placeOf(link, Number(wait.start) + Number(wait.duration));
  }
}

const total = (copies, out) =>
  copies.reduce((sum, copy) => sum + (copy.out === out ? BigInt(copy.bytes) : 0n), 0n);
function linkWords({ name, copies, reach, waited }) {
  return `${name}: ${iec(total(copies, 1))} to the host, ${iec(total(copies, 0))} back, ` +
    `waits ${durationText(waited)} of ${durationText(reach[reach.length - 1])}`;
}

/* Lane k of a pane: its middle, and the height for the largest number of bytes. */
function laneOf(s, k) {
  const tall = s.height / links.length, top = s.top + k * tall;
  return { top, bottom: top + tall, middle: top + tall / 2 + 6, reach: tall / 2 - 12 };
}

function barOf(s, lane, copy) {
  const x = Math.max(s.x(onAxis(copy.x0)), s.left), right = Math.min(s.x(onAxis(copy.x1)), s.right);
  const tall = Math.max(2, Number(copy.bytes) / linkTop * lane.reach);
  return { x, width: Math.max(1.5, right - x), y: copy.out ? lane.middle - tall : lane.middle, tall };
}

function drawLane(g, s, link, k) {
  const lane = laneOf(s, k);
  for (const wait of link.waits) {
    const x = Math.max(s.x(onAxis(wait.x0)), s.left), right = Math.min(s.x(onAxis(wait.x1)), s.right);
    if (right < s.left || x > s.right) continue;
    g.fillStyle = colour.mark;
    g.globalAlpha = 0.22;
    g.fillRect(x, lane.top, Math.max(2, right - x), lane.bottom - lane.top);
    g.globalAlpha = 1;
    g.fillRect(x, lane.bottom - 3, Math.max(2, right - x), 3);
  }
  for (const copy of link.copies) {
    const { x, y, width, tall } = barOf(s, lane, copy);
    if (x + width < s.left || x > s.right) continue;
    g.fillStyle = copy.out ? colour.out : colour.in;
    g.fillRect(x, y, width, tall);
  }
  g.fillStyle = colour.soft;
  g.fillRect(s.left, Math.round(lane.middle), s.width, 1);
  if (k > 0) g.fillRect(s.left, Math.round(lane.top), s.width, 1);
}

function laneWords(g, s, link, k) {
  const lane = laneOf(s, k);
  g.textBaseline = "middle";
  g.textAlign = "right";
  g.fillStyle = colour.soft;
  g.fillText("to host", s.left - 8, lane.middle - lane.reach / 2);
  g.fillText("back", s.left - 8, lane.middle + lane.reach / 2);
  g.textAlign = "left";
  const words = linkWords(link), wide = Math.min(g.measureText(words).width, s.width - 12);
  g.globalAlpha = 0.85;
  g.fillStyle = colour.back;
  g.fillRect(s.left + 1, lane.top + 1, wide + 10, 14);
  g.globalAlpha = 1;
  g.fillStyle = colour.text;
  g.fillText(words, s.left + 6, lane.top + 8, s.width - 12);
}

function drawLink(g, pane) {
  const s = scales(pane);
  clearPane(g, pane);
  drawTimeAxis(g, s);
  insideFrame(g, s, () => links.forEach((link, k) => drawLane(g, s, link, k)));
  links.forEach((link, k) => laneWords(g, s, link, k));
  drawFrame(g, s);
}

/* The object under a point of the pane: [title, facts], or null. */
function linkAt({ x, y }, s) {
  const k = links.findIndex((_, index) => y < laneOf(s, index).bottom);
  if (k < 0) return null;
  const link = links[k], lane = laneOf(s, k), out = y < lane.middle ? 1 : 0;
  const copy = link.copies.find((one) => {
    const bar = barOf(s, lane, one);
    return one.out === out && x >= bar.x - 1 && x <= bar.x + bar.width + 1;
  });
  const span = ({ start, end }) => `${durationText(start)} to ${durationText(end)}`;
  if (copy) return [`${copy.out ? "to the host" : "back"}, ${link.name}`,
    [["tensor", actTensor(copy.step)], ["bytes", bytesText(copy.bytes)], ["time", span(copy)],
      ["asked for", `at step ${copy.step}`]]];
  const wait = link.waits.find(({ x0, x1 }) => x >= s.x(onAxis(x0)) - 1 &&
    x <= Math.max(s.x(onAxis(x1)), s.x(onAxis(x0)) + 2));
  return wait ? [`computing waits, ${link.name}`, [["for", durationText(wait.duration)],
    ["step", `${wait.step} ${stepText(wait.step)}`]]] : null;
}

/* The name of the tensor that a step copies. */
function actTensor(step) {
  const act = plan.act.find(([what, at]) => at === step && (what === ACTS.out || what === ACTS.in));
  const i = act ? plan.tensor.indexOf(act[2]) : -1;
  return i < 0 ? "" : itemName(i);
}

/* Brings the next wait for a transfer into view. */
function nextWait() {
  const waits = links.flatMap((link) => link.waits).sort((a, b) => a.x0 - b.x0);
  if (!waits.length) return;
  const wait = waits.find(({ step }) => step > state.time) || waits[0];
  showMoment(wait.step);
  bringStep(wait.step);
}
