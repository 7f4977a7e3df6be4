/* curve.js - draws the curve of live bytes below the map, optionally on top of the memory outside
   the arena; the marks that follow the pointer, on canvases above both; and schedules the frames
   that draw everything. */

/* --- levels --- */

const staticBytes = Number(plan.static || 0);
const device = plan.device ? { name: plan.device[0], bytes: Number(plan.device[1]) } : null;
state.weights = staticBytes > 0 && Boolean(device || plan.phases);

/* The bytes below the curve. */
const ground = () => (state.weights ? staticBytes : 0);

/* A second curve to compare with: {at, live} as arrays, steps as shares of all; null: none. */
let other = null;

const HILLS = 256; // steps of the curve in a block with a known maximum and minimum
const hills = (() => {
  const count = Math.ceil(curve.count / HILLS);
  const high = new Float64Array(count), low = new Float64Array(count).fill(Infinity);
  for (let i = 0; i < curve.count; i++) {
    const b = Math.floor(i / HILLS);
    high[b] = Math.max(high[b], curve.live[i]);
    low[b] = Math.min(low[b], curve.live[i]);
  }
  return { high, low };
})();
const curveMost = hills.high.reduce((a, b) => Math.max(a, b), Math.max(peakBytes, boundBytes, 1));

/* The highest byte of the axis; a much larger device is not shown, because it would flatten the
   curve. */
function curveTop() {
  const most = Math.max(curveMost, other ? Math.max(other.most, other.peak) : 0) + ground();
  return 1.25 * (device && device.bytes < 3 * most ? Math.max(device.bytes, most) : most);
}

/* Maximum and minimum of the curve's entries [from, to). */
function extremes(from, to) {
  let high = 0, low = Infinity;
  for (let i = from; i < to;) {
    const whole = i % HILLS === 0 && i + HILLS <= to;
    high = Math.max(high, whole ? hills.high[i / HILLS] : curve.live[i]);
    low = Math.min(low, whole ? hills.low[i / HILLS] : curve.live[i]);
    i += whole ? HILLS : 1;
  }
  return [high, low];
}

/* The first entry of the curve that begins after `place` on the axis. */
function entryBehind(place) {
  let low = 0, high = curve.count;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (onAxis(curve.at[middle]) <= place) low = middle + 1;
    else high = middle;
  }
  return low;
}

/* The steps of the curve as a path; of several in one pixel, their maximum and minimum. */
function traceCurve(g, s) {
  const base = ground();
  let next = entryBehind(view.x0);
  let y = s.y(base + (next > 0 ? curve.live[next - 1] : 0));
  g.moveTo(s.left, y);
  for (let x = Math.floor(s.left); x <= s.right && next < curve.count; x++) {
    const end = entryBehind(s.time(x + 0.5));
    if (end <= next) continue;
    g.lineTo(x, y);
    const [high, low] = extremes(next, end);
    if (end - next > 1) { g.lineTo(x, s.y(base + high)); g.lineTo(x, s.y(base + low)); }
    y = s.y(base + curve.live[end - 1]);
    g.lineTo(x, y);
    next = end;
  }
  g.lineTo(s.right, y);
}

function drawOther(g, s) {
  g.beginPath();
  const whole = fullView(0).x1, base = ground();
  other.at.forEach((at, i) => {
    const x = s.x(at * whole);
    if (i > 0) g.lineTo(x, s.y(base + other.live[i - 1]));
    g.lineTo(x, s.y(base + other.live[i]));
  });
  g.strokeStyle = colour.other;
  g.lineWidth = 1.5;
  g.setLineDash([4, 3]);
  g.stroke();
  g.setLineDash([]);
  drawWords(g, s.left + 2, s.top + (device ? 18 : 2), "dashed: the other plan", colour.other);
}

function drawGround(g, s) {
  const y = s.y(staticBytes);
  g.fillStyle = colour.static;
  g.fillRect(s.left, y, s.width, s.bottom - y);
  if (s.bottom - y < 13) return;
  const words = plan.kinds.filter(([, total, fixed]) => fixed && Number(total) > 0)
    .map(([name, total]) => `${name.replace("_", " ")} ${iec(total)}`).join(", ");
  g.fillStyle = colour.text;
  g.textAlign = "left";
  g.textBaseline = "middle";
  g.fillText(`outside the arena ${iec(plan.static)}: ${words}`, s.left + 6, Math.max(y + 8, s.top + 8), s.width - 12);
}

function drawCurveLevels(g, s) {
  const same = String(plan.peak) === String(plan.bound), base = ground();
  const what = base ? "in all" : same ? "arena = lower bound" : "arena";
  drawLevel(g, s, { value: peakBytes + base, stroke: colour.mark, words: `${what} ${iec(peakBytes + base)}` });
  if (!same && !base) drawLevel(g, s, { value: boundBytes, stroke: colour.bound, dash: [5, 4], above: false,
    words: `lower bound ${iec(plan.bound)}` });
  if (!device) return;
  const words = `${device.name || "device"} ${iec(plan.device[1])}`;
  if (device.bytes <= curveTop()) drawLevel(g, s, { value: device.bytes, stroke: colour.text, dash: [2, 3], words });
  else drawWords(g, s.left + 2, s.top + 2,
    `${percent((peakBytes + staticBytes) / device.bytes * 100)} of ${words}`, colour.text);
}

/* Where memory ran out: [time from the first one, bytes of the request, ...] of each failed
   request. */
const ooms = (plan.ooms || []).map(([time, wanted, requested, reserved, free]) =>
  ({ at: Number(BigInt(time) - BigInt(plan.time[0])), time, wanted, requested, reserved, free }));

function drawOoms(g, s, tells) {
  let behind = -Infinity; // the end of the previous label
  const marks = ooms.map(({ at, wanted }) => ({ x: Math.round(s.x(onAxis(at))), wanted }))
    .filter(({ x }) => x >= s.left && x <= s.right);
  g.fillStyle = colour.oom;
  for (const { x } of marks) g.fillRect(x - 1, s.top, 2, s.height);
  /* the words of the arena's level are at the right, above its line */
  const level = g.measureText(arenaWords()).width + 10, room = s.y(peakBytes) - s.top < 36 ? s.right - level : s.right;
  for (const { x, wanted } of marks) {
    const short = `out of memory: ${iec(wanted)}`, wide = (words) => g.measureText(words).width + 10;
    const words = [`${short} asked for`, short, "out of memory"].find((one) => x + 2 + wide(one) <= room);
    const left = Math.max(s.left, words ? x + 2 : Math.min(x - 2, room) - wide(short));
    if (!tells || left < behind) continue;
    drawWords(g, left, s.top + 2, words || short, colour.oom);
    behind = left + wide(words || short);
  }
}

function drawCurve(g, pane) {
  const s = scales(pane);
  clearPane(g, pane);
  drawByteAxis(g, s, [{ base: 0, size: Infinity }]);
  drawTimeAxis(g, s);
  insideFrame(g, s, () => {
    if (ground()) drawGround(g, s);
    if (other) drawOther(g, s);
    g.beginPath();
    traceCurve(g, s);
    g.strokeStyle = colour.curve;
    g.lineWidth = 1.5;
    g.stroke();
    g.lineTo(s.right, s.y(ground()));
    g.lineTo(s.left, s.y(ground()));
    g.fillStyle = colour.area;
    g.fill();
  });
  drawFrame(g, s);
  drawByteTitle(g, s, "live bytes");
  drawPhases(g, s);
  drawOoms(g, s, false);
  drawCurveLevels(g, s);
}

/* --- marks that follow the pointer --- */

function outline(g, s, i, stroke, lineWidth) {
  g.strokeStyle = stroke;
  g.lineWidth = lineWidth;
  for (const r of rectsOf(i)) {
    if (!isShown(r)) continue;
    const x = s.x(rect.x0[r]), y = s.y(lowOf(r) + heightOf(r));
    const width = Math.max(2, s.x(rect.x1[r]) - x), height = Math.max(2, s.y(lowOf(r)) - y);
    g.strokeRect(x - 0.5, y - 0.5, width, height);
  }
}

function drawRange(g, s) {
  const [from, to] = state.range.map((step) => s.x(onAxis(step)));
  g.fillStyle = colour.accent;
  g.globalAlpha = 0.14;
  g.fillRect(from, s.top, to - from, s.height);
  g.globalAlpha = 1;
  for (const x of [from, to]) g.fillRect(x - 0.75, s.top, 1.5, s.height);
}

function drawTop(pane) {
  const g = pane.top.getContext("2d"), s = scales(pane);
  g.setTransform(pane.dpr, 0, 0, pane.dpr, 0, 0);
  g.clearRect(0, 0, pane.width, pane.height);
  g.save();
  g.beginPath();
  g.rect(s.left - 1, s.top - 1, s.width + 2, s.height + 2);
  g.clip();
  const upright = (x, style, alpha, width) => {
    g.globalAlpha = alpha;
    g.fillStyle = style;
    g.fillRect(x, s.top, width, s.height);
    g.globalAlpha = 1;
  };
  if (state.range) drawRange(g, s);
  if (curve.count) {
    const x = s.x(onAxis(state.time));
    upright(x, colour.mark, 0.14, Math.max(1, s.x(onAxis(state.time + 1)) - x));
    upright(x - 0.75, colour.mark, 0.8, 1.5);
  }
  if (state.pointer) upright(Math.round(state.pointer.x), colour.soft, 0.7, 1);
  if (pane === mapPane) {
    if (state.selected >= 0) outline(g, s, state.selected, colour.mark, 2.5);
    if (state.hover >= 0) outline(g, s, state.hover, colour.text, 1.5);
  } else if (pane === curvePane && state.pointer) {
    const live = s.y(ground() + Number(liveAt(stepAt(s.time(state.pointer.x)))));
    g.fillStyle = colour.curve;
    g.beginPath();
    g.arc(state.pointer.x, live, 3.5, 0, 7);
    g.fill();
  }
  g.restore();
}

/* --- frames --- */

const pending = { base: false, top: false, asked: false, anew: false };
function ask() {
  if (!pending.asked) requestAnimationFrame(paint);
  pending.asked = true;
}
/* `base`: more than the marks of the pointer changed; `anew`: more than the view changed. */
function redraw(base = true, anew = base) {
  pending.top = true;
  pending.base ||= base;
  pending.anew ||= anew;
  ask();
}
function paint() {
  pending.asked = false;
  const panes = [mapPane, curvePane, ...(linkPane ? [linkPane] : [])];
  const resized = panes.map(fitPane).some(Boolean);
  let whole = true;
  if (pending.base || resized) {
    const start = performance.now();
    whole = drawMap(mapPane.base.getContext("2d"), mapPane, pending.anew || resized);
    drawCurve(curvePane.base.getContext("2d"), curvePane);
    if (linkPane) drawLink(linkPane.base.getContext("2d"), linkPane);
    state.paintMs = performance.now() - start;
  }
  panes.forEach(drawTop);
  pending.top = pending.anew = false;
  pending.base = !whole;
  if (!whole) ask();
}
