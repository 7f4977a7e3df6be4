/* curve.js - the curve of live bytes below the map, what moves with the pointer on canvases above
   both, and the frames that draw all of it. */

/* The steps of the curve as a path; where many fall on one pixel, their highest and lowest. */
function traceCurve(g, s) {
  let x = s.left, y = s.y(Number(liveAt(view.x0)));
  g.moveTo(x, y);
  for (let i = curveIndex(view.x0) + 1, high = y, low = y; i < curve.count; i++) {
    if (curve.at[i] >= view.x1) break;
    const nextX = Math.round(s.x(curve.at[i])), nextY = s.y(curve.live[i]);
    if (nextX === x) {
      high = Math.min(high, nextY);
      low = Math.max(low, nextY);
    } else {
      if (high !== y || low !== y) { g.lineTo(x, high); g.lineTo(x, low); g.lineTo(x, y); }
      g.lineTo(nextX, y);
      g.lineTo(nextX, nextY);
      high = low = nextY;
    }
    x = nextX;
    y = nextY;
  }
  g.lineTo(s.right, y);
}

function drawCurve(g, pane) {
  const s = scales(pane);
  g.setTransform(pane.dpr, 0, 0, pane.dpr, 0, 0);
  g.clearRect(0, 0, pane.width, pane.height);
  g.font = "11px system-ui, sans-serif";
  drawByteAxis(g, s, [{ base: 0, size: Infinity }]);
  drawTimeAxis(g, s);
  g.save();
  g.beginPath();
  g.rect(s.left, s.top, s.width, s.height);
  g.clip();
  g.beginPath();
  traceCurve(g, s);
  g.strokeStyle = colour.curve;
  g.lineWidth = 1.5;
  g.stroke();
  g.lineTo(s.right, s.bottom);
  g.lineTo(s.left, s.bottom);
  g.fillStyle = colour.area;
  g.fill();
  g.restore();
  drawFrame(g, s);
  const same = String(plan.peak) === String(plan.bound);
  drawLevel(g, s, { value: peakBytes, stroke: colour.mark,
    words: `${same ? "arena = lower bound" : "arena"} ${iec(plan.peak)}` });
  if (!same) drawLevel(g, s, { value: boundBytes, stroke: colour.bound, dash: [5, 4], above: false,
    words: `lower bound ${iec(plan.bound)}` });
}

/* --- what moves with the pointer --- */

function outline(g, s, wanted, stroke, lineWidth) {
  g.strokeStyle = stroke;
  g.lineWidth = lineWidth;
  for (let r = 0; r < rect.count; r++) {
    if (!wanted(r) || !isShown(r)) continue;
    const x = s.x(rect.x0[r]), y = s.y(lowOf(r) + heightOf(r));
    const width = Math.max(2, s.x(rect.x1[r]) - x), height = Math.max(2, s.y(lowOf(r)) - y);
    g.strokeRect(x - 0.5, y - 0.5, width, height);
  }
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
  if (curve.count) {
    upright(s.x(state.time), colour.mark, 0.14, s.sx);
    upright(s.x(state.time) - 0.75, colour.mark, 0.8, 1.5);
  }
  if (state.pointer) upright(Math.round(state.pointer.x), colour.soft, 0.7, 1);
  if (pane === mapPane) {
    if (state.selected >= 0)
      outline(g, s, (r) => rect.item[r] === state.selected, colour.mark, 2.5);
    if (state.hover >= 0) outline(g, s, (r) => rect.item[r] === state.hover, colour.text, 1.5);
  } else if (pane === curvePane && state.pointer) {
    const live = s.y(Number(liveAt(s.time(state.pointer.x))));
    g.fillStyle = colour.curve;
    g.beginPath();
    g.arc(state.pointer.x, live, 3.5, 0, 7);
    g.fill();
  }
  g.restore();
}

/* --- frames --- */

const pending = { base: false, top: false, asked: false };
function redraw(base = true) {
  pending.top = true;
  pending.base ||= base;
  if (!pending.asked) requestAnimationFrame(paint);
  pending.asked = true;
}
function paint() {
  pending.asked = false;
  const panes = [mapPane, curvePane, ...(linkPane ? [linkPane] : [])];
  const resized = panes.map(fitPane).some(Boolean);
  if (pending.base || resized) {
    const start = performance.now();
    drawMap(mapPane.base.getContext("2d"), mapPane);
    drawCurve(curvePane.base.getContext("2d"), curvePane);
    if (linkPane) drawLink(linkPane.base.getContext("2d"), linkPane);
    state.paintMs = performance.now() - start;
  }
  panes.forEach(drawTop);
  pending.base = pending.top = false;
}
