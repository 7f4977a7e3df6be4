/* map.js - the picture: rectangles in the plane of time and address, on a canvas.

   Every rectangle has two heights above zero: its planned address, and its place in the stack
   where nothing is reused; `mix` slides between them. Rectangles are kept in order of colour, so
   that a frame sets few colours; those outside the view are skipped, and those that would paint
   the same pixels as the one before. */

const GUTTER = { left: 84, right: 14, top: 12, bottom: 24 };
const SHADES = 3;

const rect = (() => { // layers: 0 reserved by a body of several tensors, 1 tensors, 2 views
  const background = plan.item ? piece.count : 0;
  const list = [];
  if (plan.item) {
    for (let p = 0; p < piece.count; p++)
      list.push([-1, piece.body[p], piece.first[p], piece.last[p], piece.lo[p], piece.hi[p]]);
  }
  for (let i = 0; i < item.count; i++) {
    const b = item.body[i];
    if (plan.item || !hasPieces(b))
      list.push([i, b, item.first[i], item.last[i], item.lo[i], item.hi[i]]);
    else
      for (let p = pieceStart[b]; p < pieceStart[b + 1]; p++)
        list.push([i, b, piece.first[p], piece.last[p], piece.lo[p], piece.hi[p]]);
  }
  const alone = new Float64Array(item.count);
  let sum = 0;
  for (let i = 0; i < item.count; i++) {
    const source = item.source[i], align = body.align[item.body[i]];
    if (item.flags[i] & FLAG.alias && source >= 0 && source < i) {
      alone[i] = alone[source] + item.lo[i] - item.lo[source];
    } else {
      alone[i] = sum;
      sum += Math.ceil(item.bytes[i] / align) * align;
    }
  }
  const shade = (i) => (Math.imul(i, 0x9e3779b1) >>> 16) % SHADES; // models repeat: scatter
  const style = ([i, b]) => i < 0 ? 0 : item.share[i] === SHARE.view
    ? 1 + (kinds.length + item.kind[i]) * SHADES + shade(b)
    : 1 + item.kind[i] * SHADES + shade(i);
  list.forEach((row, index) => row.push(style(row), index));
  list.sort((a, b) => a[6] - b[6] || a[7] - b[7]);
  const column = (f, T = Float64Array) => T.from(list, f);
  return {
    count: list.length, background, stackTop: sum,
    item: column((r) => r[0], Int32Array), body: column((r) => r[1], Int32Array),
    x0: column((r) => r[2]), x1: column((r) => r[3]),
    low: [column((r) => banks[body.bank[r[1]]].base + body.offset[r[1]] + r[4]),
          column((r) => r[0] < 0 ? 0 : alone[r[0]] + (plan.item ? 0 : r[4]))],
    height: [column((r) => r[5] - r[4]),
             column((r) => r[0] < 0 ? 0 : plan.item ? item.bytes[r[0]] : r[5] - r[4])],
    style: column((r) => r[6], Int32Array),
    fate: column((r) => (plan.fit && r[0] >= 0 ? plan.fate[r[0]] : -1), Int32Array),
  };
})();

const naiveTop = Math.max(rect.stackTop, Number(plan.naive));
const topOf = (mode) => Math.max(mode ? naiveTop : peakBytes, 1);

const state = {
  mode: 0, mix: 0, // 0: with reuse, 1: without
  hidden: new Set(), matched: null, // kinds; Uint8Array over items
  byFate: Boolean(plan.fit), hiddenFates: new Set(), // colours by what became of tensors
  hover: -1, selected: -1, // items
  time: peakTime, pointer: null, // the instant of the table; {x, y} of the pointer
  paintMs: 0,
};
const view = { x0: 0, x1: 1, y0: 0, y1: 1 };

function fullView(mode) {
  return { x0: 0, x1: Math.max(span, 1), y0: 0, y1: topOf(mode) * 1.06 };
}

/* Keeps the view inside the picture and away from depths that doubles cannot draw. */
function clampView() {
  const full = fullView(state.mode);
  for (const [a, b] of [["x0", "x1"], ["y0", "y1"]]) {
    const whole = full[b] - full[a];
    const length = Math.min(whole, Math.max(view[b] - view[a], Math.max(2, whole * 1e-9)));
    view[a] = Math.min(Math.max(view[a], full[a]), full[b] - length);
    view[b] = view[a] + length;
  }
}

/* --- colours --- */

const colour = { style: [] };
const channels = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
const blend = (a, b, share) => {
  const to = channels(b);
  const mixed = channels(a).map((v, i) => Math.round(v + (to[i] - v) * share));
  return `#${mixed.map((v) => v.toString(16).padStart(2, "0")).join("")}`;
};
function readColours() {
  const css = getComputedStyle(document.documentElement);
  for (const name of ["back", "line", "text", "soft", "reserved", "grid", "mark", "accent", "bound",
    "curve", "area", "out", "in"]) colour[name] = css.getPropertyValue(`--${name}`).trim();
  colour.style = [colour.reserved];
  colour.kind = kinds.map(({ name }) => css.getPropertyValue(`--${name}`).trim() || "#8a93a0");
  const shades = colour.kind.flatMap((base) =>
    [base, blend(base, "#ffffff", 0.22), blend(base, "#000000", 0.1)]);
  colour.style.push(...shades, ...shades.map((shade) => blend(shade, colour.back, 0.25)));
  const bases = (plan.fates || []).map(([name]) => css.getPropertyValue(`--${name}`).trim());
  colour.fate = bases.map((base, fate) => [base, blend(base, colour.back, 0.25)].flatMap((paint) =>
    [paint, blend(paint, "#ffffff", 0.18), blend(paint, "#000000", 0.1)]
      .map((shade) => fatePaint(shade, fate))));
}


/* --- panes --- */

function makePane(id) {
  const box = document.getElementById(id);
  const [base, top] = box.querySelectorAll("canvas");
  return { box, base, top, width: 0, height: 0, dpr: 1 };
}
const mapPane = makePane("map");
const curvePane = makePane("curve");

/* Fits the canvases to their box; true when something changed. */
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

/* The drawing area of a pane, with the two scales; `curveTop` is the curve's highest byte. */
const curveTop =
  1.25 * curve.live.reduce((a, b) => Math.max(a, b), Math.max(peakBytes, boundBytes, 1));
function scales(pane) {
  const width = Math.max(1, pane.width - GUTTER.left - GUTTER.right);
  const height = Math.max(1, pane.height - GUTTER.top - GUTTER.bottom);
  const [y0, y1] = pane === mapPane ? [view.y0, view.y1] : [0, curveTop]; // the link has no scale
  const sx = width / (view.x1 - view.x0), sy = height / (y1 - y0);
  return {
    left: GUTTER.left, top: GUTTER.top, width, height, right: GUTTER.left + width,
    bottom: GUTTER.top + height, sx, sy, y0, y1,
    x: (time) => GUTTER.left + (time - view.x0) * sx,
    y: (address) => GUTTER.top + height - (address - y0) * sy,
    time: (x) => view.x0 + (x - GUTTER.left) / sx,
    address: (y) => y0 + (GUTTER.top + height - y) / sy,
  };
}

/* --- axes --- */

/* Ticks for bytes are powers of two apart: their labels are exact. */
function byteTicks(low, high, room) {
  const step = 2 ** Math.max(0, Math.ceil(Math.log2((high - low) / Math.max(1, room))));
  const ticks = [];
  for (let i = Math.max(0, Math.ceil(low / step)); i * step <= high && ticks.length < 64; i++)
    ticks.push(i * step);
  return ticks;
}
function byteLabel(value) {
  if (value < 1024) return `${value} B`;
  let unit = Math.min(6, Math.floor(Math.log2(value) / 10));
  while (unit > 1 && (value / 1024 ** unit * 8) % 1 !== 0) unit--; // 1.5 MiB, but 1100 KiB
  return `${grouped(+(value / 1024 ** unit).toFixed(3))} ${"_KMGTPE"[unit]}iB`;
}

function drawByteAxis(g, s, ranges) {
  g.textAlign = "right";
  g.textBaseline = "middle";
  for (const { base, size, name } of ranges) {
    const low = Math.max(s.y0 - base, 0), high = Math.min(s.y1 - base, size);
    if (low > high || (base > 0 && (high - low) * s.sy < 14)) continue;
    for (const tick of byteTicks(low, high, (high - low) * s.sy / 34)) {
      const y = Math.round(s.y(base + tick)) + 0.5;
      g.fillStyle = colour.grid;
      g.fillRect(s.left, y - 0.5, s.width, 1);
      g.fillStyle = colour.soft;
      g.fillText(byteLabel(tick), s.left - 8, Math.min(y, s.bottom - 2));
    }
    if (name && base > 0 && s.y(base) > s.top && s.y(base) < s.bottom) {
      g.fillStyle = colour.soft;
      g.fillRect(s.left, Math.round(s.y(base)), s.width, 1);
    }
  }
}

function drawTimeAxis(g, s) {
  const widest = 26 + Math.max(g.measureText(instant(Math.ceil(view.x1))).width,
    g.measureText(instant(Math.floor(view.x0))).width);
  let step = 1;
  for (let i = 0; step * s.sx < widest; i++) step = [1, 2, 5][i % 3] * 10 ** Math.floor(i / 3);
  g.textAlign = "center";
  g.textBaseline = "alphabetic";
  const zero = BigInt(plan.time[0]), whole = BigInt(step);
  const skip = Number(((-zero % whole) + whole) % whole); // to the first round instant
  for (let i = Math.ceil((view.x0 - skip) / step), n = 0; n < 400; i++, n++) {
    const time = skip + i * step;
    if (time > view.x1) return;
    const x = Math.round(s.x(time));
    g.fillStyle = colour.grid;
    g.fillRect(x, s.top, 1, s.height);
    g.fillStyle = colour.soft;
    g.fillRect(x, s.bottom, 1, 4);
    const label = instant(time), half = g.measureText(label).width / 2;
    const inside = Math.min(Math.max(x, half + 2), s.right + GUTTER.right - half - 2);
    g.fillText(label, inside, s.bottom + 17);
  }
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
  const width = g.measureText(words).width + 10;
  const at = (above && y - 17 >= s.top - 8) || y + 18 > s.bottom ? y - 17 : y + 2;
  g.globalAlpha = 0.85;
  g.fillStyle = colour.back;
  g.fillRect(s.right - width, at, width, 15);
  g.globalAlpha = 1;
  g.fillStyle = stroke;
  g.textAlign = "right";
  g.textBaseline = "middle";
  g.fillText(words, s.right - 5, at + 8);
}

/* --- the map --- */

const ease = (t) => t * t * (3 - 2 * t);

/* Address and height of rectangle r as drawn now. */
function lowOf(r) {
  if (state.mix === 0) return rect.low[0][r];
  return rect.low[0][r] + (rect.low[1][r] - rect.low[0][r]) * ease(state.mix);
}
function heightOf(r) {
  if (state.mix === 0) return rect.height[0][r];
  return rect.height[0][r] + (rect.height[1][r] - rect.height[0][r]) * ease(state.mix);
}
const isShown = (r) => rect.item[r] < 0 ? state.mix === 0
  : state.byFate ? !state.hiddenFates.has(rect.fate[r]) : !state.hidden.has(item.kind[rect.item[r]]);

/* Fills the rectangles that `wanted` takes; returns those with room for a name. */
function fillRects(g, s, dpr, wanted) {
  const labels = [], right = s.right, bottom = s.bottom;
  const snap = (v) => Math.round(v * dpr) / dpr;
  let paint = null, lastX = NaN, lastY = NaN, lastW = NaN, lastH = NaN;
  for (let r = 0; r < rect.count; r++) {
    if (rect.x1[r] <= view.x0 || rect.x0[r] >= view.x1 || !wanted(r)) continue;
    const height = heightOf(r), low = lowOf(r);
    if (height <= 0 || low >= view.y1 || low + height <= view.y0) continue;
    const x = snap(Math.max(s.x(rect.x0[r]), s.left)), y = snap(Math.max(s.y(low + height), s.top));
    let w = snap(Math.min(s.x(rect.x1[r]), right)) - x, h = snap(Math.min(s.y(low), bottom)) - y;
    if (w > 3) w -= 1; // a seam between neighbours, where there is room for it
    if (h > 3) h -= 1;
    w = Math.max(w, 1 / dpr);
    h = Math.max(h, 1 / dpr);
    const wish = paintOf(r);
    if (wish !== paint) g.fillStyle = paint = wish;
    else if (x === lastX && y === lastY && w === lastW && h === lastH) continue;
    lastX = x; lastY = y; lastW = w; lastH = h;
    g.fillRect(x, y, w, h);
    if (w > 46 && h > 13 && rect.item[r] >= 0) labels.push([r, x, y, w, h]);
  }
  return labels;
}

/* A name stands where its tensor is longest in sight: between those of the same body that are
   painted over it. The next few decide; more of them leave no room anyway. */
const nameSpan = (() => {
  const from = Float64Array.from(item.first), to = Float64Array.from(item.last);
  if (!plan.item) return { from, to };
  const chains = Array.from({ length: body.count }, () => []);
  for (let i = 0; i < item.count; i++) chains[item.body[i]].push(i); // by first
  for (const chain of chains) {
    chain.forEach((i, at) => {
      let seen = item.first[i], best = 0;
      const offer = (end) => {
        if (end - seen > best) [best, from[i], to[i]] = [end - seen, seen, end];
      };
      for (const j of chain.slice(at + 1, at + 17)) {
        if (item.first[j] >= item.last[i]) break;
        offer(item.first[j]);
        seen = Math.max(seen, item.last[j]);
      }
      offer(item.last[i]);
    });
  }
  return { from, to };
})();

function drawLabels(g, s, labels) {
  g.textAlign = "left";
  g.textBaseline = "alphabetic";
  g.fillStyle = "#10151b";
  const advance = g.measureText("m").width;
  labels.sort((a, b) => b[3] * b[4] - a[3] * a[4]).splice(500);
  for (const [r, x, y, width, h] of labels) {
    const i = rect.item[r], isView = item.share[i] === SHARE.view;
    const left = isView ? x : Math.max(x, s.x(nameSpan.from[i]));
    const room = (isView ? width : Math.min(x + width, s.x(nameSpan.to[i])) - left) - 8;
    const words = shortened(itemName(i), Math.floor(room / advance));
    if (!words) continue;
    const inside = state.mix === 0 && isView;
    g.fillText(words, left + 4, inside ? y + h - 4 : y + 11, room);
    if (!inside && h > 30 && room > 60) g.fillText(iec(item.bytes[i]), left + 4, y + 24, room);
  }
}
const darkScheme = window.matchMedia("(prefers-color-scheme: dark)");

function mapRanges() {
  if (state.mode || banks.length < 2) return [{ base: 0, size: Infinity }];
  return banks.map(({ base, peak, name }) => ({ base, size: Number(peak), name }));
}

function drawMap(g, pane) {
  const s = scales(pane);
  g.setTransform(pane.dpr, 0, 0, pane.dpr, 0, 0);
  g.clearRect(0, 0, pane.width, pane.height);
  g.font = "11px system-ui, sans-serif";
  drawByteAxis(g, s, mapRanges());
  drawTimeAxis(g, s);
  g.save();
  g.beginPath();
  g.rect(s.left, s.top, s.width, s.height);
  g.clip();
  let labels;
  if (state.matched) {
    const hit = (r) => rect.item[r] >= 0 && state.matched[rect.item[r]];
    g.globalAlpha = 0.2;
    fillRects(g, s, pane.dpr, (r) => isShown(r) && !hit(r));
    g.globalAlpha = 1;
    labels = fillRects(g, s, pane.dpr, (r) => isShown(r) && hit(r));
  } else {
    labels = fillRects(g, s, pane.dpr, isShown);
  }
  g.font = "11px ui-monospace, monospace";
  drawLabels(g, s, labels);
  g.restore();
  g.font = "11px system-ui, sans-serif";
  drawFrame(g, s);
  if (banks.length > 1 && !state.mode) drawBankNames(g, s);
  if (state.mode) {
    const words = `without reuse ${iec(plan.naive)}`;
    drawLevel(g, s, { value: naiveTop, words, stroke: colour.text });
  }
  drawLevel(g, s, { value: peakBytes, stroke: colour.mark,
    words: `${state.mode ? "the same with reuse" : "arena"} ${iec(plan.peak)}` });
  if (!item.count) {
    g.textAlign = "center";
    g.fillStyle = colour.soft;
    g.fillText("nothing needs memory here", s.left + s.width / 2, s.top + s.height / 2);
  }
}

function drawBankNames(g, s) {
  g.textAlign = "left";
  g.textBaseline = "middle";
  for (const { base, peak, name } of banks) {
    const y = s.y(Math.min(base + Number(peak), s.y1)) + 9;
    if (s.y(base) < s.top + 10 || y > s.bottom - 4) continue;
    g.globalAlpha = 0.85;
    g.fillStyle = colour.back;
    g.fillRect(s.left + 1, y - 8, g.measureText(name).width + 10, 16);
    g.globalAlpha = 1;
    g.fillStyle = colour.text;
    g.fillText(name, s.left + 6, y);
  }
}
