/* map.js - draws the map: rectangles in the plane of time and address, on a canvas.

   A frame skips blocks of rectangles outside the view, and those that would paint the same pixels
   as the previous block. If there are too many rectangles for one frame, they are painted on
   another canvas, a few milliseconds in each frame. Until they are done, the last finished picture
   is shown, moved and scaled with the view. */

const DIRECT = 30000; // rectangles that are painted in one frame
const SLICE = 7; // milliseconds of each frame otherwise

const state = {
  mode: 0, mix: 0, // 0: with reuse, 1: without
  matched: null, // Uint8Array over items
  hover: -1, selected: -1, // items
  time: peakTime, pointer: null, // the instant of the table; {x, y} of the pointer
  range: null, // selected range [from, to) of steps
  holes: true, weights: false, // shade holes; show weights below the curve
  paintMs: 0,
};
const view = { x0: 0, x1: 1, y0: 0, y1: 1 };

function fullView(mode) {
  return { x0: 0, x1: Math.max(axis.span, axis.clock ? 1e-9 : 1), y0: 0, y1: Math.max(topOf(mode), other && !mode ? other.peak : 0) * 1.06 };
}

/* Keeps the view inside the picture, and limits zoom to the precision of doubles. */
function clampView() {
  const full = fullView(state.mode);
  for (const [a, b] of [["x0", "x1"], ["y0", "y1"]]) {
    const whole = full[b] - full[a], least = axis.clock && a === "x0" ? whole * 1e-6 : 2;
    const length = Math.min(whole, Math.max(view[b] - view[a], Math.max(least, whole * 1e-9)));
    view[a] = Math.min(Math.max(view[a], full[a]), full[b] - length);
    view[b] = view[a] + length;
  }
}

/* --- colours --- */

const colour = { paint: [] };
const channels = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
const blend = (a, b, share) => {
  const to = channels(b);
  const mixed = channels(a).map((v, i) => Math.round(v + (to[i] - v) * share));
  return `#${mixed.map((v) => v.toString(16).padStart(2, "0")).join("")}`;
};
function readColours() {
  const css = getComputedStyle(document.documentElement);
  for (const name of ["back", "line", "text", "soft", "reserved", "grid", "mark", "accent", "bound",
    "curve", "area", "out", "in", "hole", "forward", "backward", "update", "phase", "static", "other", "oom"])
    colour[name] = css.getPropertyValue(`--${name}`).trim();
  colour.paint = way.entries.map((_, index) => shadesOf(groupColour(index), index));
  colour.holes = hatch(colour.hole);
  colour.again = hatch(colour.phase);
}

/* Widely spaced rising lines. */
function hatch(stroke) {
  const tile = document.createElement("canvas"), side = 9, g = tile.getContext("2d");
  tile.width = tile.height = side;
  g.strokeStyle = stroke;
  g.beginPath();
  for (const at of [-side, 0, side]) { g.moveTo(at, side); g.lineTo(at + side, 0); }
  g.stroke();
  return g.createPattern(tile, "repeat");
}

/* --- rectangles --- */

const ease = (t) => t * t * (3 - 2 * t);

/* Address and height at which rectangle r is drawn now. */
function lowOf(r) {
  if (state.mix === 0) return rect.low[0][r];
  return rect.low[0][r] + (rect.low[1][r] - rect.low[0][r]) * ease(state.mix);
}
function heightOf(r) {
  if (state.mix === 0) return rect.height[0][r];
  return rect.height[0][r] + (rect.height[1][r] - rect.height[0][r]) * ease(state.mix);
}
/* Not while unmatched items are faint: holes would show through them. */
const showsHoles = (mode) => state.holes && !state.matched && mode === 0 && state.mix === 0;
const isShown = (r) => (rect.item[r] < 0 ? state.mix === 0 : !way.entries[groupOf(rect.item[r])].hidden);

/* The state of painting: passes over the rectangles, the faint ones first. */
function paintJob(g, pane) {
  const s = scales(pane);
  const hit = (r) => rect.item[r] >= 0 && state.matched[rect.item[r]];
  const passes = state.matched
    ? [{ alpha: 0.2, wanted: (r) => isShown(r) && !hit(r) }, { alpha: 1, wanted: (r) => isShown(r) && hit(r) }]
    : [{ alpha: 1, wanted: isShown }];
  const columns = Math.ceil(s.width * pane.dpr) + 1;
  return { g, s, pane, view: { ...view }, passes, pass: 0, at: 0, labels: [], mode: state.mode,
    tops: banks.map(() => new Float64Array(columns)) };
}

/* Notes the highest address in use for each column of the canvas: free space below it is a hole. */
function noteTop(job, r, low, height) {
  const { s, pane } = job, tops = job.tops[body.bank[rect.body[r]]], high = low + height;
  const from = Math.max(0, Math.floor((s.x(rect.x0[r]) - s.left) * pane.dpr));
  const to = Math.min(tops.length - 1, Math.ceil((s.x(rect.x1[r]) - s.left) * pane.dpr) - 1);
  for (let c = from; c <= to; c++) if (tops[c] < high) tops[c] = high;
}

/* Paints until the time is over; true when everything is painted. */
function runJob(job, until) {
  const { g, s, pane, view: seen } = job, { dpr } = pane;
  const snap = (v) => Math.round(v * dpr) / dpr, holes = showsHoles(job.mode);
  for (; job.pass < job.passes.length; job.pass++, job.at = 0) {
    const { alpha, wanted } = job.passes[job.pass];
    let paint = null, lastX = NaN, lastY = NaN, lastW = NaN, lastH = NaN;
    g.globalAlpha = alpha;
    for (; job.at < rect.count; job.at++) {
      const r = job.at;
      if (r % BLOCK === 0) {
        const b = r / BLOCK;
        if (axis.blockTo[b] <= seen.x0 || axis.blockFrom[b] >= seen.x1) { job.at += BLOCK - 1; continue; }
        if (r % (4 * BLOCK) === 0 && performance.now() > until) return false;
      }
      if (rect.x1[r] <= seen.x0 || rect.x0[r] >= seen.x1) continue;
      const height = heightOf(r), low = lowOf(r);
      if (height <= 0 || low + height <= seen.y0) continue;
      if (holes && job.pass === 0) noteTop(job, r, low, height);
      if (low >= seen.y1 || !wanted(r)) continue;
      const x = snap(Math.max(s.x(rect.x0[r]), s.left)), y = snap(Math.max(s.y(low + height), s.top));
      let w = snap(Math.min(s.x(rect.x1[r]), s.right)) - x, h = snap(Math.min(s.y(low), s.bottom)) - y;
      if (w > 3) w -= 1; // a gap between neighbours, if there is room
      if (h > 3) h -= 1;
      w = Math.max(w, 1 / dpr);
      h = Math.max(h, 1 / dpr);
      const wish = paintOf(r);
      if (wish !== paint) g.fillStyle = paint = wish;
      else if (x === lastX && y === lastY && w === lastW && h === lastH) continue;
      lastX = x; lastY = y; lastW = w; lastH = h;
      g.fillRect(x, y, w, h);
      if (w > 46 && h > 13 && rect.item[r] >= 0 && alpha === 1) job.labels.push([r, x, y, w, h]);
    }
  }
  g.globalAlpha = 1;
  return true;
}

/* Hatches free space below the highest address in use, under everything else. */
function drawHoles(job) {
  const { g, s, pane } = job;
  g.globalCompositeOperation = "destination-over";
  g.fillStyle = colour.holes;
  banks.forEach(({ base }, b) => {
    const floor = Math.min(s.y(base), s.bottom);
    for (let c = 0; c < job.tops[b].length;) {
      let end = c;
      while (end < job.tops[b].length && job.tops[b][end] === job.tops[b][c]) end++;
      const top = Math.max(s.y(job.tops[b][c]), s.top), left = s.left + c / pane.dpr;
      if (job.tops[b][c] > base && floor > top)
        g.fillRect(left, top, Math.min(end / pane.dpr, s.width) - c / pane.dpr, floor - top);
      c = end;
    }
  });
  g.globalCompositeOperation = "source-over";
}

/* Where the names of banks stand: at the right, because the names of blocks stand at the left. */
function bankNames(g, s) {
  if (banks.length < 2 || state.mode) return [];
  const places = [];
  g.font = "11px system-ui, sans-serif";
  for (const { base, peak, name } of banks) {
    const y = s.y(Math.min(base + Number(peak), s.y1)) + 9;
    /* no room for the label */
    if (s.y(base) < s.top + 10 || y > s.bottom - 4 || s.y(base) - y < 7) continue;
    places.push({ name, x: s.right - g.measureText(name).width - 11, y: y - 8 });
  }
  return places;
}

/* The end of a line of text that begins below `right`: before the name of a bank at that height. */
function lineEnd(names, right, y) {
  return names.filter((it) => Math.abs(it.y + 12 - y) < 14).reduce((end, it) => Math.min(end, it.x - 6), right);
}

function drawLabels(g, s, labels) {
  const names = bankNames(g, s);
  g.font = "11px ui-monospace, monospace";
  g.textAlign = "left";
  g.textBaseline = "alphabetic";
  g.fillStyle = "#10151b";
  const advance = g.measureText("m").width;
  labels.sort((a, b) => b[3] * b[4] - a[3] * a[4]).splice(500);
  for (const [r, x, y, width, h] of labels) {
    const i = rect.item[r], isView = item.share[i] === SHARE.view;
    const left = isView ? x : Math.max(x, s.x(onAxis(nameSpan.from[i])));
    const right = isView ? left + width : Math.min(x + width, s.x(onAxis(nameSpan.to[i])));
    const inside = state.mix === 0 && isView, at = inside ? y + h - 4 : y + 11;
    const room = lineEnd(names, right, at) - left - 8;
    const words = shortened(itemName(i), Math.floor(room / advance));
    if (words) g.fillText(words, left + 4, at, room);
    const below = lineEnd(names, right, y + 24) - left - 8;
    if (!inside && h > 30 && below > 60) g.fillText(iec(item.bytes[i]), left + 4, y + 24, below);
  }
  g.font = "11px system-ui, sans-serif";
}

/* --- the map --- */

const mapTitle = () => (state.mode ? "bytes, one tensor above the other"
  : `address (${banks.length > 1 ? `bytes in each ${bankWord}` : "offset in bytes"})`);

function mapRanges() {
  if (state.mode || banks.length < 2) return [{ base: 0, size: Infinity }];
  return banks.map(({ base, peak, name }) => ({ base, size: Number(peak), name }));
}

function clearPane(g, pane) {
  g.setTransform(pane.dpr, 0, 0, pane.dpr, 0, 0);
  g.clearRect(0, 0, pane.width, pane.height);
  g.font = "11px system-ui, sans-serif";
}
function insideFrame(g, s, draw) {
  g.save();
  g.beginPath();
  g.rect(s.left, s.top, s.width, s.height);
  g.clip();
  draw();
  g.restore();
}

const arenaWords = () => `${state.mode ? "the same with reuse" : "arena"} ${iec(plan.peak)}`;

function drawMapLevels(g, s) {
  drawFrame(g, s);
  drawByteTitle(g, s, mapTitle());
  drawPhases(g, s);
  drawOoms(g, s, true);
  if (banks.length > 1 && !state.mode) drawBankNames(g, s);
  if (state.mode) {
    const words = `without reuse ${iec(plan.naive)}`;
    drawLevel(g, s, { value: naiveTop, words, stroke: colour.text });
  }
  drawLevel(g, s, { value: peakBytes, stroke: colour.mark,
    words: arenaWords() });
  if (item.count) return;
  g.textAlign = "center";
  g.fillStyle = colour.soft;
  g.fillText("nothing needs memory here", s.left + s.width / 2, s.top + s.height / 2);
}

/* Paints rectangles, holes, then the lines of the axes below both: the final state of a canvas. */
function finishJob(job) {
  const { g, s } = job;
  if (showsHoles(job.mode)) drawHoles(job);
  drawLabels(g, s, job.labels);
}

function drawMapDirect(g, pane) {
  const job = paintJob(g, pane), { s } = job;
  clearPane(g, pane);
  insideFrame(g, s, () => {
    runJob(job, Infinity);
    finishJob(job);
  });
  g.globalCompositeOperation = "destination-over";
  drawByteAxis(g, s, mapRanges());
  drawTimeAxis(g, s);
  g.globalCompositeOperation = "source-over";
  drawMapLevels(g, s);
}

/* --- painting in slices --- */

const slices = { job: null, front: null, frontView: null, stale: true };
const sameView = (a, b) => a.x0 === b.x0 && a.x1 === b.x1 && a.y0 === b.y0 && a.y1 === b.y1;

function startSlices(pane) {
  const canvas = document.createElement("canvas");
  canvas.width = pane.base.width;
  canvas.height = pane.base.height;
  const g = canvas.getContext("2d");
  clearPane(g, pane);
  const job = paintJob(g, pane);
  g.beginPath();
  g.rect(job.s.left, job.s.top, job.s.width, job.s.height);
  g.clip();
  slices.job = job;
  slices.stale = false;
}

/* Shows the last finished picture, transformed to the current view. */
function showFront(g, pane) {
  const s = scales(pane), old = scales(pane, slices.frontView), { dpr } = pane;
  const x = s.x(slices.frontView.x0), y = s.y(slices.frontView.y1);
  const width = old.width * s.sx / old.sx, height = old.height * s.sy / old.sy;
  clearPane(g, pane);
  drawByteAxis(g, s, mapRanges());
  drawTimeAxis(g, s);
  insideFrame(g, s, () => g.drawImage(slices.front, old.left * dpr, old.top * dpr, old.width * dpr,
    old.height * dpr, x, y, width, height));
  drawMapLevels(g, s);
}

/* Paints one frame; true when everything is painted. */
function drawMapSlice(g, pane) {
  const until = performance.now() + SLICE;
  if (!slices.job && (slices.stale || !sameView(slices.frontView, view))) startSlices(pane);
  if (slices.job && runJob(slices.job, until)) {
    finishJob(slices.job);
    slices.front = slices.job.g.canvas;
    slices.frontView = slices.job.view;
    slices.job = null;
  }
  if (!slices.front) return false;
  showFront(g, pane);
  return !slices.job && !slices.stale && sameView(slices.frontView, view);
}

/* `anew`: the contents have changed, not only the view. Returns true when everything is painted. */
function drawMap(g, pane, anew) {
  if (rect.count <= DIRECT) {
    drawMapDirect(g, pane);
    return true;
  }
  slices.stale ||= anew;
  return drawMapSlice(g, pane);
}

function drawBankNames(g, s) {
  const names = bankNames(g, s);
  g.textAlign = "left";
  g.textBaseline = "middle";
  for (const { name, x, y } of names) drawWords(g, x, y, name, colour.text);
}
