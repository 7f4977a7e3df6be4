/* page.js - everything around the picture: numbers, legend, search, table, pointer and keys. */

/* --- numbers and legend --- */

const VERDICTS = {
  optimal: "optimal: no plan needs less",
  feasible: "valid; a smaller plan may exist",
};

function percent(value) {
  return value > 0 && value < 0.1 ? "< 0.1 %" : `${value.toFixed(1)} %`;
}

function showNumbers() {
  const limits = banks.filter(({ capacity }) => Number(capacity)).map(({ name, capacity }) =>
    `, ${banks.length > 1 ? `${name} ` : ""}capacity ${iec(capacity)}`);
  $("facts").textContent =
    `planner ${plan.planner}; ${VERDICTS[plan.status] || plan.status}${limits.join("")}`;
  const naive = Number(plan.naive);
  const gap = peakBytes === boundBytes ? 0 : (peakBytes / boundBytes - 1) * 100;
  const shown = [["without reuse", iec(plan.naive), `${grouped(plan.naive)} bytes`],
    ["arena", iec(plan.peak), `${grouped(plan.peak)} bytes`],
    ["saved", naive > 0 ? percent((1 - peakBytes / naive) * 100) : "-", "by reuse"],
    ["lower bound", iec(plan.bound), `${grouped(plan.bound)} bytes`],
    ["gap", Number.isFinite(gap) ? percent(gap) : "-", "arena above the bound"],
    [plan.item ? "tensors" : "buffers", grouped(item.count),
      plan.item ? `in ${grouped(body.count)} buffers` : "in the problem"]];
  $("numbers").replaceChildren(...(fit ? fitNumbers() : shown).map(([name, value, small]) => make("div", {},
    make("dd", {}, value, make("small", {}, small)), make("dt", {}, name))));
}

function legendButton(content, title, hidden, member) {
  const button = make("button", { type: "button", title }, ...content);
  button.setAttribute("aria-pressed", String(!hidden.has(member)));
  button.addEventListener("click", () => {
    const hide = !hidden.has(member);
    hidden[hide ? "add" : "delete"](member);
    button.setAttribute("aria-pressed", String(!hide));
    redraw();
  });
  return button;
}

function showLegend() {
  const entries = kinds.map(({ name, total, fixed }, kind) => {
    const content = [dot(name), name.replace("_", " "), make("b", {}, iec(total))];
    const what = fixed ? ", outside the arena" : "; click to hide or show";
    const title = `${grouped(total)} bytes in all${what}`;
    if (fixed) return make("span", { title }, ...content);
    return legendButton(content, title, state.hidden, kind);
  });
  $("legend").replaceChildren(...entries);
}

/* --- moving the view --- */

function setView(next) {
  Object.assign(view, next);
  clampView();
  redraw();
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

/* Brings item i into sight; zooms only where it would be too small to see, or not fit. */
function reveal(i) {
  const r = rect.item.indexOf(i);
  if (r < 0) return;
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
  const length = Math.min(view.x1 - view.x0, Math.max(40, span / 12));
  showMoment(peakTime);
  setView({ ...fullView(state.mode), x0: peakTime - length / 2, x1: peakTime + length / 2 });
}

/* --- with and without reuse --- */

const calm = window.matchMedia("(prefers-reduced-motion: reduce)");

function setMode(mode) {
  if (mode === state.mode) return;
  state.mode = mode;
  $("with").setAttribute("aria-pressed", String(mode === 0));
  $("without").setAttribute("aria-pressed", String(mode === 1));
  const from = { y0: view.y0, y1: view.y1, mix: state.mix }, to = fullView(mode);
  const began = performance.now(), length = calm.matches ? 0 : 450;
  state.hover = -1;
  hideTip();
  const step = (now) => {
    if (state.mode !== mode) return;
    const t = length ? Math.min(1, Math.max(0, (now - began) / length)) : 1, e = ease(t);
    state.mix = from.mix + (mode - from.mix) * t;
    view.y0 = from.y0 + (to.y0 - from.y0) * e;
    view.y1 = from.y1 + (to.y1 - from.y1) * e;
    if (t === 1) clampView();
    redraw();
    if (t < 1) requestAnimationFrame(step);
  };
  step(began);
}

/* --- search --- */

const search = { list: [], at: -1 };

function runSearch() {
  const words = $("search").value.trim().toLowerCase();
  search.list = [];
  search.at = -1;
  state.matched = words ? new Uint8Array(item.count) : null;
  for (let i = 0; words && i < item.count; i++) {
    if (!itemName(i).toLowerCase().includes(words) &&
        !stepText(item.step[i]).toLowerCase().includes(words)) continue;
    state.matched[i] = 1;
    search.list.push(i);
  }
  if (search.list.length) stepSearch(1);
  else showFound();
  redraw();
}
function stepSearch(direction) {
  const count = search.list.length;
  if (!count) return;
  search.at = search.at < 0 && direction < 0 ? count - 1 : (search.at + direction + count) % count;
  select(search.list[search.at]);
  reveal(search.list[search.at]);
  showFound();
}
function showFound() {
  const count = search.list.length;
  $("found").textContent = !state.matched ? ""
    : count ? `${grouped(search.at + 1)} of ${grouped(count)}` : "none found";
}

/* --- selection, tooltip, line --- */

function select(i) {
  state.selected = i;
  $("details").hidden = i < 0;
  if (i >= 0) {
    const close = make("button", { type: "button", title: "Close (Esc)" }, "\u00d7");
    close.setAttribute("aria-label", "Close");
    close.addEventListener("click", () => select(-1));
    $("details").replaceChildren(make("header", {}, titled(i), close), factList(itemFacts(i)));
  }
  for (const row of $("rows").children)
    row.setAttribute("aria-selected", String(Number(row.dataset.item) === i));
  redraw(false);
}

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
  const time = state.pointer ? s.time(state.pointer.x) : peakTime;
  const step = state.pointer ? Math.floor(time) : peakTime;
  const what = stepText(step);
  $("line").textContent = !curve.count ? "" : (state.pointer ? "" : "peak: ") +
    `${momentText(step)}${what ? `, ${what}` : ""}: ` +
    `${bytesText(liveAt(time))} live`;
}

/* --- pointer --- */

const drag = { pane: null, x: 0, y: 0, moved: false };

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
    Object.assign(drag, { pane, x: event.clientX, y: event.clientY, moved: false });
    pane.box.setPointerCapture(event.pointerId);
  });
  pane.box.addEventListener("pointermove", (event) => {
    if (drag.pane !== pane) return pointerAt(pane, event);
    const dx = event.clientX - drag.x, dy = event.clientY - drag.y;
    if (!drag.moved && Math.hypot(dx, dy) < 4) return;
    drag.moved = true;
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
    if (drag.moved || event.type === "pointercancel") return;
    pointerAt(pane, event);
    const s = scales(pane);
    if (pane === mapPane) select(state.hover);
    else if (state.pointer && curve.count)
      showMoment(Math.min(Math.max(0, Math.floor(s.time(state.pointer.x))), Math.max(0, span - 1)));
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

/* --- keys --- */

function mapKey(event) {
  const step = event.shiftKey ? 240 : 60;
  const action = {
    ArrowLeft: () => pan(-step, 0), ArrowRight: () => pan(step, 0),
    ArrowUp: () => pan(0, step), ArrowDown: () => pan(0, -step),
    "+": () => zoomMiddle(0.7, false), "=": () => zoomMiddle(0.7, event.shiftKey),
    "-": () => zoomMiddle(1 / 0.7, false), "_": () => zoomMiddle(1 / 0.7, true),
    "*": () => zoomMiddle(0.7, true), 0: () => setView(fullView(state.mode)), p: goToPeak,
    Home: () => setView(fullView(state.mode)),
  }[event.key];
  if (!action) return;
  event.preventDefault();
  action();
}
function pageKey(event) {
  if (event.key === "Escape") {
    select(-1);
    if ($("search").value) {
      $("search").value = "";
      runSearch();
    }
  }
  if (event.target.matches("input") || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "w") setMode(1 - state.mode);
  if (event.key === "f" && fit) setColours(!state.byFate);
  if (event.key === "n" && hasLink) nextWait();
  if (event.key === "/") {
    event.preventDefault();
    $("search").focus();
  }
}

/* Map above curve above link above the curve of memory against time, as one PNG file. */
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

readColours();
showNumbers();
if (fit) showFates();
else showLegend();
$("colours").hidden = !fit;
$("link").hidden = $("waits").hidden = !hasLink;
$("link").classList.toggle("two", links.length > 1);
$("trading").hidden = !trade.points.length;
showColumns();
showMoment(peakTime);
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
$("with").addEventListener("click", () => setMode(0));
$("without").addEventListener("click", () => setMode(1));
$("fates").addEventListener("click", () => setColours(true));
$("kinds").addEventListener("click", () => setColours(false));
$("waits").addEventListener("click", nextWait);
$("in").addEventListener("click", () => zoomMiddle(0.6, false));
$("out").addEventListener("click", () => zoomMiddle(1 / 0.6, false));
$("reset").addEventListener("click", () => setView(fullView(state.mode)));
$("peak").addEventListener("click", goToPeak);
$("picture").addEventListener("click", savePicture);
$("search").addEventListener("input", runSearch);
$("search").addEventListener("keydown", (event) => {
  if (event.key === "Enter") stepSearch(event.shiftKey ? -1 : 1);
});
$("next").addEventListener("click", () => stepSearch(1));
$("previous").addEventListener("click", () => stepSearch(-1));
darkScheme.addEventListener("change", () => {
  readColours();
  redraw();
  drawTrade();
});
new ResizeObserver(drawTrade).observe($("trade"));
new ResizeObserver(() => redraw()).observe($("drawing"));
redraw();
