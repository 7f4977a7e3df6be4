/* axes.js - panes and the surroundings of a drawing: scales, the axes of bytes and of time, phases,
   levels, the frame. */

const GUTTER = { left: 84, right: 14, top: 12, bottom: 24 };

/* --- panes --- */

function makePane(id) {
  const box = document.getElementById(id);
  const [base, top] = box.querySelectorAll("canvas");
  return { box, base, top, width: 0, height: 0, dpr: 1 };
}
const mapPane = makePane("map");
const curvePane = makePane("curve");

/* Fits the canvases to their box; true if something changed. */
function fitPane(pane) {
  const width = pane.box.clientWidth, height = pane.box.clientHeight;
  const dpr = window.devicePixelRatio || 1;
  if (pane.width === width && pane.height === height && pane.dpr === dpr) return false;
  Object.assign(pane, { width, height, dpr });
  for (const canvas of [pane.base, pane.top]) {
    canvas.width = Math.max(1, Math.round(width * dpr));
    canvas.height = Math.max(1, Math.round(height * dpr));
  }
  return true;
}

/* The drawing area of a pane, with both scales, for the current view or another one. */
function scales(pane, seen = view) {
  const width = Math.max(1, pane.width - GUTTER.left - GUTTER.right);
  const height = Math.max(1, pane.height - GUTTER.top - GUTTER.bottom);
  /* the pane of transfers has no byte scale */
  const [y0, y1] = pane === mapPane ? [seen.y0, seen.y1] : [0, curveTop()];
  const sx = width / (seen.x1 - seen.x0), sy = height / (y1 - y0);
  return {
    left: GUTTER.left, top: GUTTER.top, width, height, right: GUTTER.left + width,
    bottom: GUTTER.top + height, sx, sy, y0, y1,
    x: (place) => GUTTER.left + (place - seen.x0) * sx,
    y: (address) => GUTTER.top + height - (address - y0) * sy,
    time: (x) => seen.x0 + (x - GUTTER.left) / sx,
    address: (y) => y0 + (GUTTER.top + height - y) / sy,
  };
}

/* --- bytes --- */

/* Ticks for bytes are powers of two apart, so their labels are exact. */
function byteTicks(low, high, room) {
  const step = 2 ** Math.max(0, Math.ceil(Math.log2((high - low) / Math.max(1, room))));
  const ticks = [];
  for (let i = Math.max(0, Math.ceil(low / step)); i * step <= high && ticks.length < 64; i++)
    ticks.push(i * step);
  return ticks;
}
/* One unit for all labels of an axis: the largest in which its ticks have at most three
   decimals. */
function byteUnit(ticks) {
  const most = Math.max(...ticks, 1), step = ticks.length > 1 ? ticks[1] - ticks[0] : most;
  let unit = Math.min(6, Math.floor(Math.log2(most) / 10));
  while (unit > 0 && (step / 1024 ** unit * 8) % 1 !== 0) unit--;
  return unit;
}
const byteLabel = (value, unit) =>
  `${grouped(+(value / 1024 ** unit).toFixed(3))} ${unit ? `${"_KMGTPE"[unit]}iB` : "B"}`;

/* The title of the axis of bytes, upright at the left edge. */
function drawByteTitle(g, s, words) {
  g.save();
  g.translate(9, s.top + s.height / 2);
  g.rotate(-Math.PI / 2);
  g.textAlign = "center";
  g.textBaseline = "middle";
  g.fillStyle = colour.soft;
  g.fillText(words, 0, 0, s.height);
  g.restore();
}

function drawByteAxis(g, s, ranges) {
  g.textAlign = "right";
  g.textBaseline = "middle";
  const shown = ranges.flatMap((range) => {
    const low = Math.max(s.y0 - range.base, 0), high = Math.min(s.y1 - range.base, range.size);
    if (low > high || (range.base > 0 && (high - low) * s.sy < 14)) return [];
    return [{ ...range, ticks: byteTicks(low, high, (high - low) * s.sy / 34) }];
  });
  const unit = byteUnit(shown.flatMap(({ ticks }) => ticks.length > 1 ? ticks : []).slice(0, 64));
  let above = Infinity; // position of the previous label: those of two banks may meet
  for (const { base, ticks, name } of shown) {
    for (const tick of ticks) {
      const y = Math.round(s.y(base + tick)) + 0.5;
      if (above - y < 11) continue;
      above = y;
      g.fillStyle = colour.grid;
      g.fillRect(s.left, y - 0.5, s.width, 1);
      g.fillStyle = colour.soft;
      g.fillText(byteLabel(tick, unit), s.left - 8, Math.min(y, s.bottom - 2), s.left - 26);
    }
    if (name && base > 0 && s.y(base) > s.top && s.y(base) < s.bottom) {
      g.fillStyle = colour.soft;
      g.fillRect(s.left, Math.round(s.y(base)), s.width, 1);
    }
  }
}

/* --- time --- */

/* The first of 1, 2, 5, 10, 20, ... that is at least `wide` wide. */
function roundStep(least, wide) {
  let step = least;
  for (let i = 0; step < wide; i++) step = least * [1, 2, 5][i % 3] * 10 ** Math.floor(i / 3);
  return step;
}

function drawTick(g, s, place, label) {
  const x = Math.round(s.x(place));
  g.fillStyle = colour.grid;
  g.fillRect(x, s.top, 1, s.height);
  g.fillStyle = colour.soft;
  g.fillRect(x, s.bottom, 1, 4);
  const half = g.measureText(label).width / 2;
  /* the title of the axis stands at the left */
  const inside = Math.min(Math.max(x, s.left + half - 6), s.right + GUTTER.right - half - 2);
  g.fillText(label, inside, s.bottom + 17);
}

/* Milliseconds: one unit, with as many decimals as the tick distance needs. */
function drawClockAxis(g, s) {
  const step = roundStep(1e-9, 86 / s.sx);
  const [unit, scale] = axis.span >= 1000 ? ["s", 1000] : axis.span >= 1 ? ["ms", 1] : ["\u00b5s", 1e-3];
  const decimals = Math.min(9, Math.max(0, -Math.floor(Math.log10(step / scale) + 1e-9)));
  for (let i = Math.ceil(view.x0 / step), n = 0; i * step <= view.x1 && n < 400; i++, n++)
    drawTick(g, s, i * step, `${(i * step / scale).toFixed(decimals)} ${unit}`);
}

const timeTitle = () => (axis.clock ? "time of the run" : plan.step.count ? "time (steps)"
  : plan.ooms ? "time (events)" : "time");

function drawTimeAxis(g, s) {
  g.textAlign = "right";
  g.textBaseline = "alphabetic";
  g.fillStyle = colour.soft;
  g.fillText(timeTitle(), s.left - 8, s.bottom + 17, s.left - 10);
  g.textAlign = "center";
  if (axis.clock) return drawClockAxis(g, s);
  const widest = 26 + Math.max(g.measureText(instant(Math.ceil(view.x1))).width,
    g.measureText(instant(Math.floor(view.x0))).width);
  const step = roundStep(1, widest / s.sx);
  const zero = BigInt(plan.time[0]), whole = BigInt(step);
  const skip = Number(((-zero % whole) + whole) % whole); // to the first round instant
  for (let i = Math.ceil((view.x0 - skip) / step), n = 0; n < 400; i++, n++) {
    const time = skip + i * step;
    if (time > view.x1) return;
    drawTick(g, s, time, instant(time));
  }
}

/* Where each of forward, backward and update begins for the first time: [step, words, phase]. If updates
   lie between steps of backward, both together are one part: a line at every change would hide the
   picture. */
const mixed = (plan.phases || []).filter(([, name]) => name === "update").length > 1;
const borders = (plan.phases || []).filter(([, name], k, all) =>
  all.findIndex((one) => one[1] === name) === k && !(mixed && name === "update"))
  .map(([first, name]) => [first, mixed && name === "backward" ? "backward and update" : name, name]);

/* The band above the drawing: the phase of each step, and hatched the steps that compute a tensor
   again; one line where a phase begins. */
function drawPhases(g, s) {
  if (!plan.phases && !(plan.again || []).length) return;
  g.textAlign = "left";
  g.textBaseline = "middle";
  (plan.phases || []).forEach(([first, name], k) => {
    const next = k + 1 < plan.phases.length ? plan.phases[k + 1][0] : span;
    const x = Math.max(s.x(onAxis(first)), s.left), right = Math.min(s.x(onAxis(next)), s.right);
    if (right <= s.left || x >= s.right) return;
    g.fillStyle = colour[name];
    g.fillRect(x, 0, Math.max(1, right - x), s.top - 1);
  });
  for (const [from, to] of plan.again || []) {
    const x = Math.max(s.x(onAxis(from)), s.left), right = Math.min(s.x(onAxis(to)), s.right);
    if (right <= s.left || x >= s.right) continue;
    g.fillStyle = colour.again;
    g.fillRect(x, 0, Math.max(2, right - x), s.top - 1);
  }
  drawBorders(g, s);
}

function drawBorders(g, s) {
  let room = s.right; // for a label, up to the label of the next border
  [...borders].reverse().forEach(([first, name, phase]) => {
    const line = s.x(onAxis(first)), x = Math.max(line, s.left);
    /* a label that has no room after its line ends before the line and points at it */
    const fits = x + g.measureText(name).width + 8 <= room, words = fits ? name : `${name} \u2192`;
    const width = g.measureText(words).width + 8;
    if (line >= s.right) return;
    if (line > s.left) {
      g.fillStyle = colour.phase;
      g.fillRect(Math.round(line), 0, 1, s.bottom);
    }
    const at = fits ? x : Math.min(x, room) - width;
    if (at < s.left) return;
    g.globalAlpha = 0.8; /* a hatch behind the words stays faint */
    g.fillStyle = colour[fits ? phase : "back"];
    g.fillRect(at + 1, 0, width - 1, s.top - 1);
    g.globalAlpha = 1;
    g.fillStyle = colour.phase;
    g.fillText(words, at + 4, s.top / 2);
    room = at;
  });
}

function drawFrame(g, s) {
  g.strokeStyle = colour.line;
  g.lineWidth = 1;
  g.strokeRect(s.left - 0.5, s.top - 0.5, s.width + 1, s.height + 1);
}

/* A level across the drawing with its words at the right, above or below the line. */
function drawLevel(g, s, { value, words, stroke, dash = [], above = true }) {
  const y = Math.round(s.y(value)) + 0.5;
  if (y < s.top - 1 || y > s.bottom + 1) return;
  g.strokeStyle = stroke;
  g.lineWidth = 1.5;
  g.setLineDash(dash);
  g.beginPath();
  g.moveTo(s.left, y);
  g.lineTo(s.right, y);
  g.stroke();
  g.setLineDash([]);
  const at = (above && y - 17 >= s.top - 8) || y + 18 > s.bottom ? y - 17 : y + 2;
  drawWords(g, s.right - g.measureText(words).width - 10, at, words, stroke);
}

/* Words on a background of their own. */
function drawWords(g, x, y, words, fill) {
  g.globalAlpha = 0.85;
  g.fillStyle = colour.back;
  g.fillRect(x, y, g.measureText(words).width + 10, 15);
  g.globalAlpha = 1;
  g.fillStyle = fill;
  g.textAlign = "left";
  g.textBaseline = "middle";
  g.fillText(words, x + 5, y + 8);
}
