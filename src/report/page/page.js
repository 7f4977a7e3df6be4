/* page.js - the page around the pictures: numbers, moving the view, pointer; starts everything. */

/* --- numbers --- */

/* A claim is about the buffers, which follow from the order and the in-place choices of a model. */
const VERDICTS = {
  optimal: plan.step.count > 0 ? "optimal for this order and these in-place choices"
    : "optimal: no plan of these buffers needs less",
  feasible: "valid; a smaller plan may exist",
};

function percent(value) {
  return value > 0 && value < 0.1 ? "< 0.1 %" : `${value.toFixed(1)} %`;
}

/* If there are more banks than a line has room for, their total is shown. */
const BANKS_TOLD = 3;
function limitWords() {
  const limited = banks.filter(({ capacity }) => Number(capacity));
  if (limited.length > BANKS_TOLD)
    return `; ${grouped(limited.length)} ${bankWord}s, capacity ${iec(String(
      limited.reduce((sum, { capacity }) => sum + BigInt(capacity), 0n)))} together`;
  return limited.map(({ name, capacity }) =>
    `, ${banks.length > 1 ? `${name} ` : ""}capacity ${iec(capacity)}`).join("");
}

/* The numbers of a snapshot. A snapshot does not contain the memory of other programs. Therefore the
   limit is known only where memory ran out: the reserved bytes and the free bytes together. */
function snapshotNumbers() {
  const oom = ooms[0], most = curve.live.reduce((a, b) => Math.max(a, b), 0);
  const bytes = (value) => `${grouped(value)} bytes`;
  return [["requested", iec(oom ? oom.requested : most), oom ? bytes(oom.requested) : "of the blocks drawn, at most"],
    ["reserved", iec(oom ? oom.reserved : plan.reserved), oom ? bytes(oom.reserved) : "at most"],
    ...(oom ? [["asked for", iec(oom.wanted), `at event ${oom.time}${ooms.length > 1 ? `, first of ${grouped(ooms.length)} failures` : ""}`],
      ["limit for this program", iec(String(BigInt(oom.reserved) + BigInt(oom.free))), `${iec(oom.free)} were free`]]
      : [["device limit", "unknown", "nothing failed in this file"]]),
    ["blocks", grouped(item.count), "drawn"]];
}

function showNumbers() {
  $("facts").textContent = plan.ooms ? `addresses as in the snapshot${limitWords()}`
    : `planner ${plan.planner}; ${VERDICTS[plan.status] || plan.status}${limitWords()}`;
  const naive = Number(plan.naive);
  const gap = peakBytes === boundBytes ? 0 : (peakBytes / boundBytes - 1) * 100;
  const shown = [["without reuse", iec(plan.naive), `${grouped(plan.naive)} bytes`],
    ["arena", iec(plan.peak), `${grouped(plan.peak)} bytes`],
    ["saved", naive >= peakBytes && naive > 0 ? percent((1 - peakBytes / naive) * 100) : "-", "by reuse"],
    ["lower bound", iec(plan.bound), `${grouped(plan.bound)} bytes`],
    ["gap", Number.isFinite(gap) ? percent(gap) : "-", "arena above the bound"],
    [plan.item ? "tensors" : "buffers", grouped(item.count),
      plan.item ? `in ${grouped(body.count)} buffers` : "in the problem"]];
  if (staticBytes > 0) shown.splice(2, 0, ["with weights", iec(staticBytes + peakBytes),
    device ? `of ${iec(plan.device[1])}${device.name ? `, ${device.name}` : ""}` : `${iec(plan.static)} outside the arena`]);
  $("numbers").replaceChildren(...(fit ? fitNumbers() : plan.ooms ? snapshotNumbers() : shown).map(([name, value, small]) => make("div", {},
    make("dd", {}, value, make("small", {}, small)), make("dt", {}, name))));
}

/* --- moving the view --- */

function setView(next) {
  Object.assign(view, next);
  clampView();
  redraw(true, false);
  keepAddress();
  tellOther();
}
/* Scales the view by `factor` around a point of the picture; an axis stays with factor 1. */
function zoom(factorX, factorY, time, address) {
  setView({
    x0: time - (time - view.x0) * factorX, x1: time + (view.x1 - time) * factorX,
    y0: address - (address - view.y0) * factorY, y1: address + (view.y1 - address) * factorY,
  });
}
function zoomMiddle(factor, onlyTime) {
  zoom(factor, onlyTime ? 1 : factor, (view.x0 + view.x1) / 2, (view.y0 + view.y1) / 2);
}
function pan(pixelsX, pixelsY) {
  const s = scales(mapPane);
  const dx = pixelsX / s.sx, dy = pixelsY / s.sy;
  setView({ x0: view.x0 + dx, x1: view.x1 + dx, y0: view.y0 + dy, y1: view.y1 + dy });
}

/* Brings item i into view; zooms only if it would be too small to see, or too large. */
function reveal(i) {
  if (rectStart[i] === rectStart[i + 1]) return;
  const r = rectsOf(i)[0];
  const low = rect.low[state.mode][r], high = low + rect.height[state.mode][r];
  const frame = (a, b, from, to, whole) => {
    const share = (b - a) / (to - from), fits = share >= 0.012 && share <= 0.95;
    if (fits && a >= from && b <= to) return [from, to];
    const length = fits ? to - from : Math.max((b - a) * (share < 0.5 ? 6 : 1.5), whole * 1e-6);
    const middle = (a + b) / 2;
    return [middle - length / 2, middle + length / 2];
  };
  const full = fullView(state.mode);
  const [x0, x1] = frame(rect.x0[r], rect.x1[r], view.x0, view.x1, full.x1);
  const [y0, y1] = frame(low, high, view.y0, view.y1, full.y1);
  setView({ x0, x1, y0, y1 });
}

function goToPeak() {
  const middle = onAxis(peakTime);
  const length = Math.min(view.x1 - view.x0, Math.max(axis.clock ? 0 : 40, axis.span / 12));
  showMoment(peakTime);
  setView({ ...fullView(state.mode), x0: middle - length / 2, x1: middle + length / 2 });
}

/* --- with and without reuse --- */

const calm = window.matchMedia("(prefers-reduced-motion: reduce)");

function showMode(mode) {
  state.mode = mode;
  $("with").setAttribute("aria-pressed", String(mode === 0));
  $("without").setAttribute("aria-pressed", String(mode === 1));
  state.hover = -1;
  hideTip();
}
function jumpToMode(mode) {
  if (mode === state.mode && state.mix === mode) return;
  showMode(mode);
  state.mix = mode;
  setView(fullView(mode));
  redraw();
}
function setMode(mode) {
  if (mode === state.mode) return;
  if (calm.matches || rect.count > DIRECT) return jumpToMode(mode);
  showMode(mode);
  const from = { y0: view.y0, y1: view.y1, mix: state.mix }, to = fullView(mode);
  const began = performance.now(), length = 450;
  const step = (now) => {
    if (state.mode !== mode) return;
    const t = Math.min(1, Math.max(0, (now - began) / length)), e = ease(t);
    state.mix = from.mix + (mode - from.mix) * t;
    view.y0 = from.y0 + (to.y0 - from.y0) * e;
    view.y1 = from.y1 + (to.y1 - from.y1) * e;
    if (t === 1) setView({});
    redraw();
    if (t < 1) requestAnimationFrame(step);
  };
  step(began);
}

/* --- steps or milliseconds --- */

function setClock(on) {
  if (on === axis.clock) return;
  const share = { x0: view.x0 / fullView(0).x1, x1: view.x1 / fullView(0).x1 };
  axis.clock = on;
  placeRects();
  grids = [null, null];
  $("clock").setAttribute("aria-pressed", String(on));
  const all = fullView(0).x1;
  setView({ x0: share.x0 * all, x1: share.x1 * all });
  showLine();
  redraw();
}

/* Toggles something that is drawn; `key` of state. */
function toggle(key) {
  state[key] = !state[key];
  $(key).setAttribute("aria-pressed", String(state[key]));
  redraw();
}

/* --- selection, tooltip, line --- */

function hideTip() { $("tip").hidden = true; }
function showTip(list, event) {
  const tip = $("tip");
  tip.replaceChildren(titled(list[0]), factList(itemFacts(list[0])));
  if (list.length > 1) {
    const names = list.slice(1, 4).map((i) => shortened(itemName(i), 48)).join(", ");
    const more = list.length > 4 ? ` and ${list.length - 4} more` : "";
    tip.append(make("p", {}, `same bytes at this step: ${names}${more}`));
  }
  placeTip(event);
}
function placeTip(event) {
  const tip = $("tip");
  tip.hidden = false;
  const { width, height } = tip.getBoundingClientRect(), { clientX: x, clientY: y } = event;
  const left = x + 16 + width > innerWidth ? x - 12 - width : x + 16;
  const top = y + 18 + height > innerHeight ? y - 10 - height : y + 18;
  tip.style.left = `${Math.max(4, left)}px`;
  tip.style.top = `${Math.max(4, top)}px`;
}

function showLine() {
  const s = scales(mapPane);
  const step = state.pointer ? stepAt(s.time(state.pointer.x)) : peakTime;
  const what = stepText(step);
  $("line").textContent = !curve.count ? "" : (state.pointer ? "" : "peak: ") +
    `${momentText(step)}${what ? `, ${what}` : ""}: ` +
    `${bytesText(liveAt(step))} live`;
}

/* --- pointer --- */

const drag = { pane: null, x: 0, y: 0, moved: false, from: null };

/* The step under the pointer, inside the picture. */
function stepUnder(pane, event) {
  const step = stepAt(scales(pane).time(pointIn(pane, event).x));
  return Math.min(Math.max(0, step), Math.max(0, span - 1));
}

function pointIn(pane, event) {
  const box = pane.box.getBoundingClientRect();
  return { x: event.clientX - box.left, y: event.clientY - box.top };
}

function pointerAt(pane, event) {
  const point = pointIn(pane, event), s = scales(pane);
  const inside = point.x >= s.left && point.x <= s.right && point.y >= s.top && point.y <= s.bottom;
  state.pointer = inside ? point : null;
  const list = inside && pane === mapPane && state.mix === state.mode
    ? itemsAt(s.time(point.x), s.address(point.y), s) : [];
  state.hover = list.length ? list[0] : -1;
  const found = inside && pane === linkPane ? linkAt(point, s) : null;
  if (list.length) showTip(list, event);
  else if (found) {
    $("tip").replaceChildren(make("h2", {}, found[0]), factList(found[1]));
    placeTip(event);
  } else hideTip();
  showLine();
  redraw(false);
}

function listenPointer(pane) {
  pane.box.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    const from = event.shiftKey && curve.count ? stepUnder(pane, event) : null;
    Object.assign(drag, { pane, x: event.clientX, y: event.clientY, moved: false, from });
    pane.box.setPointerCapture(event.pointerId);
  });
  pane.box.addEventListener("pointermove", (event) => {
    if (drag.pane !== pane) return pointerAt(pane, event);
    const dx = event.clientX - drag.x, dy = event.clientY - drag.y;
    if (!drag.moved && Math.hypot(dx, dy) < 4) return;
    drag.moved = true;
    if (drag.from !== null) { // with Shift: a range of steps
      const to = stepUnder(pane, event);
      state.range = [Math.min(drag.from, to), Math.max(drag.from, to) + 1];
      return redraw(false);
    }
    pane.box.classList.add("held");
    hideTip();
    state.pointer = null;
    state.hover = -1;
    pan(-dx, pane === mapPane ? dy : 0);
    Object.assign(drag, { x: event.clientX, y: event.clientY });
  });
  const release = (event) => {
    if (drag.pane !== pane) return;
    drag.pane = null;
    pane.box.classList.remove("held");
    if (drag.moved && drag.from !== null && state.range) showRange(...state.range);
    if (drag.moved || event.type === "pointercancel") return;
    pointerAt(pane, event);
    if (pane === mapPane) select(state.hover);
    else if (state.pointer && curve.count)
      showMoment(stepUnder(pane, event));
  };
  pane.box.addEventListener("pointerup", release);
  pane.box.addEventListener("pointercancel", release);
  pane.box.addEventListener("pointerleave", () => {
    state.pointer = null;
    state.hover = -1;
    hideTip();
    showLine();
    redraw(false);
  });
  pane.box.addEventListener("wheel", (event) => {
    event.preventDefault();
    const lines = event.deltaMode === 1 ? 30 : 1;
    const turn = Math.max(-400, Math.min(400, (event.deltaY || event.deltaX) * lines));
    const factor = Math.exp(turn * 0.0022);
    const point = pointIn(pane, event), s = scales(pane);
    const onlyTime = event.shiftKey || pane !== mapPane;
    zoom(factor, onlyTime ? 1 : factor, s.time(point.x), scales(mapPane).address(point.y));
    pointerAt(pane, event);
  }, { passive: false });
  pane.box.addEventListener("dblclick", () => setView(fullView(state.mode)));
}

/* Saves map, curve, transfers and the curve of memory against time, one above the other, as a PNG
   file. */
function savePicture() {
  const canvas = document.createElement("canvas"), g = canvas.getContext("2d");
  const parts = [mapPane.base, curvePane.base, ...(linkPane ? [linkPane.base] : []),
    ...(trade.points.length ? [trade.canvas] : [])];
  canvas.width = Math.max(...parts.map(({ width }) => width));
  canvas.height = parts.reduce((sum, { height }) => sum + height, 0);
  g.fillStyle = colour.back;
  g.fillRect(0, 0, canvas.width, canvas.height);
  let top = 0;
  for (const part of parts) {
    g.drawImage(part, 0, top);
    top += part.height;
  }
  canvas.toBlob((blob) => {
    const link = make("a", { href: URL.createObjectURL(blob), download: "memory-plan.png" });
    link.click();
    URL.revokeObjectURL(link.href);
  });
}

/* --- start --- */

document.body.classList.toggle("beside", window.parent !== window);
readColours();
showNumbers();
showWays();
showLegend();
showLayers();
showKeys();
$("link").hidden = $("waits").hidden = !hasLink;
$("clock").hidden = !clock;
$("weights").hidden = staticBytes === 0;
$("weights").setAttribute("aria-pressed", String(state.weights));
$("link").classList.toggle("two", links.length > 1);
$("trading").hidden = !trade.points.length;
$("trading").querySelector("h2").textContent = `Memory against ${fitAgainst}`;
showColumns();
showMoment(peakTime);
showGuide();
showLine();
Object.assign(view, fullView(0));
listenPointer(mapPane);
listenPointer(curvePane);
if (linkPane) listenPointer(linkPane);
if (trade.points.length) {
  listenTrade();
  chooseTrade(-1);
}
mapPane.box.addEventListener("keydown", mapKey);
document.addEventListener("keydown", pageKey);
window.addEventListener("hashchange", goToAddress);
const clicks = { with: () => setMode(0), without: () => setMode(1), waits: nextWait,
  clock: () => setClock(!axis.clock), holes: () => toggle("holes"), weights: () => toggle("weights"),
  in: () => zoomMiddle(0.6, false), out: () => zoomMiddle(1 / 0.6, false),
  reset: () => setView(fullView(state.mode)), peak: goToPeak, picture: savePicture,
  ask: () => $("help").showModal(), next: () => stepSearch(1), previous: () => stepSearch(-1) };
for (const [id, action] of Object.entries(clicks)) $(id).addEventListener("click", action);
$("search").addEventListener("input", typeSearch);
$("search").addEventListener("keydown", (event) => {
  if (event.key === "Enter") stepSearch(event.shiftKey ? -1 : 1);
});
darkScheme.addEventListener("change", () => {
  readColours();
  showLegend();
  redraw();
  drawTrade();
});
new ResizeObserver(drawTrade).observe($("trade"));
new ResizeObserver(() => redraw()).observe($("drawing"));
goToAddress();
redraw();
