"use strict";
/* ranks.js - shows the work of several ranks over time: the lanes of each rank over one axis, and
   its live bytes below them; a table of totals. Predictions stand above measurements; each begins
   at time 0. */

const $ = (id) => document.getElementById(id);
const data = JSON.parse($("data").textContent);
const KINDS = ["predicted", "measured"], LANE = 15, LIVE = 38, GAP = 10, HEAD = 20, LEFT = 172, RIGHT = 14, AXIS = 24;
const canvas = document.querySelector("canvas"), g = canvas.getContext("2d");
const grouped = (integer) => String(integer).replace(/\B(?=(\d{3})+$)/g, ",");
const bytesText = (bytes) => {
  let unit = 0, value = bytes;
  for (; unit < 6 && value >= 1024; unit++) value /= 1024;
  return `${unit ? value.toFixed(1) : value} ${["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"][unit]}`;
};
const timeText = (ns) => ns >= 1e9 ? `${(ns / 1e9).toFixed(3)} s` : ns >= 1e6 ? `${(ns / 1e6).toFixed(3)} ms` : `${(ns / 1e3).toFixed(3)} \u00b5s`;

/* --- layout --- */

const runs = []; // {rank, kind, run, lanes: [{lane, stream, spans}], top}
let height = AXIS, longest = 1, most = 1;
for (const rank of data.ranks) {
  rank.top = height;
  height += HEAD;
  for (const kind of KINDS) {
    const run = rank[kind];
    if (!run) continue;
    const lanes = new Map();
    for (let i = 0; i < run.count; i++) {
      const key = run.lane[i] * 64 + run.stream[i];
      if (!lanes.has(key)) lanes.set(key, { lane: run.lane[i], stream: run.stream[i], spans: [] });
      lanes.get(key).spans.push(i);
      longest = Math.max(longest, run.start_ns[i] + run.duration_ns[i]);
    }
    const sorted = [...lanes.entries()].sort((a, b) => a[0] - b[0]).map((entry) => entry[1]);
    runs.push({ rank, kind, run, lanes: sorted, top: height });
    height += sorted.length * LANE + LIVE + GAP;
    most = Math.max(most, run.peak, rank.planned_peak);
  }
}

const view = { from: 0, to: longest };
let width = 800;
const xOf = (ns) => LEFT + (ns - view.from) / (view.to - view.from) * (width - LEFT - RIGHT);
const nsOf = (x) => view.from + (x - LEFT) / (width - LEFT - RIGHT) * (view.to - view.from);
let colours = {};

function colourOf(run, i) {
  return run.lane[i] === 0 ? colours[data.phases[run.phase[i]]] : colours[data.lanes[run.lane[i]]];
}

/* Spans are ordered by start, but may overlap: a visible span may begin far before the view. */
const laneWords = (name) => (name === "talk" ? "calls" : name);
function drawLane(entry, lane, top) {
  const { run } = entry;
  let until = -1, colour = "";
  for (const i of lane.spans) {
    if (run.start_ns[i] > view.to) break;
    const end = run.start_ns[i] + run.duration_ns[i];
    if (end < view.from) continue;
    const x = Math.max(xOf(run.start_ns[i]), LEFT), to = Math.min(xOf(end), width - RIGHT), own = colourOf(run, i);
    if (to <= until && own === colour) continue; // it would add nothing
    g.fillStyle = own;
    g.fillRect(x, top, Math.max(to - x, 0.5), LANE - 3);
    until = Math.max(to, x + 0.5);
    colour = own;
  }
}

/* Steps on stream 0 are in the order of the list: each lasts until the next. */
function drawLive(entry, top) {
  const { run, rank } = entry, bottom = top + LIVE - 4, scale = (LIVE - 4) / most;
  g.beginPath();
  g.moveTo(LEFT, bottom);
  let end = 0, y = bottom;
  for (let i = 0; i < run.count; i++) {
    end = Math.max(end, run.start_ns[i] + run.duration_ns[i]);
    if (run.stream[i] !== 0) continue;
    const x = Math.min(Math.max(xOf(run.start_ns[i]), LEFT), width - RIGHT);
    g.lineTo(x, y);
    y = bottom - run.live[i] * scale;
    g.lineTo(x, y);
  }
  const x = Math.min(Math.max(xOf(end), LEFT), width - RIGHT);
  g.lineTo(x, y);
  g.lineTo(x, bottom);
  g.fillStyle = colours.area;
  g.fill();
  g.strokeStyle = colours.curve;
  g.stroke();
  if (!rank.planned_peak) return;
  g.strokeStyle = colours.planned;
  g.setLineDash([4, 3]);
  g.beginPath();
  g.moveTo(LEFT, bottom - rank.planned_peak * scale);
  g.lineTo(width - RIGHT, bottom - rank.planned_peak * scale);
  g.stroke();
  g.setLineDash([]);
}

function drawAxis() {
  const span = view.to - view.from, rough = span / Math.max((width - LEFT) / 110, 1);
  const unit = 10 ** Math.floor(Math.log10(rough));
  const step = unit * ([1, 2, 5].find((m) => m * unit >= rough) ?? 10);
  g.textAlign = "center";
  for (let at = Math.ceil(view.from / step) * step; at <= view.to; at += step) {
    g.fillStyle = colours.grid;
    g.fillRect(xOf(at), AXIS, 1, height - AXIS);
    g.fillStyle = colours.soft;
    g.fillText(`${Number((at / 1e6).toPrecision(12))} ms`, xOf(at), 15);
  }
}

function words(text, x, y, align, colour) {
  g.textAlign = align;
  g.fillStyle = colour;
  g.fillText(text, x, y);
}

function draw() {
  const style = getComputedStyle(document.documentElement), scale = window.devicePixelRatio || 1;
  for (const name of ["forward", "backward", "update", "talk", "copy", "curve", "area", "planned", "grid", "soft", "text", "line"])
    colours[name] = style.getPropertyValue(`--${name}`);
  width = Math.max($("stage").clientWidth, LEFT + 120);
  canvas.width = width * scale;
  canvas.height = height * scale;
  canvas.style.height = `${height}px`;
  g.setTransform(scale, 0, 0, scale, 0, 0);
  g.clearRect(0, 0, width, height);
  g.font = "11px system-ui, sans-serif";
  drawAxis();
  for (const rank of data.ranks)
    words(`rank ${rank.rank}${rank.label ? `: ${rank.label}` : ""}`, 12, rank.top + 14, "left", colours.text);
  for (const entry of runs) {
    words(entry.kind, 12, entry.top + 11, "left", colours.soft);
    entry.lanes.forEach((lane, k) => {
      const name = laneWords(data.lanes[lane.lane]) + (lane.stream ? `, stream ${lane.stream}` : "");
      words(name, LEFT - 8, entry.top + k * LANE + 11, "right", colours.soft);
      drawLane(entry, lane, entry.top + k * LANE);
    });
    const top = entry.top + entry.lanes.length * LANE;
    words(`live, peak ${bytesText(entry.run.peak)}`, LEFT - 8, top + LIVE / 2 + 4, "right", colours.soft);
    drawLive(entry, top);
  }
}

/* --- moving the view --- */

function setView(from, to) {
  const span = Math.min(Math.max(to - from, 100), longest);
  view.from = Math.min(Math.max(from, 0), longest - span);
  view.to = view.from + span;
  draw();
}
function zoom(factor, x = (LEFT + width - RIGHT) / 2) {
  const at = nsOf(x);
  setView(at - (at - view.from) * factor, at + (view.to - at) * factor);
}

/* The shortest of the spans at a position, as they are drawn. */
function spanAt(x, y) {
  const entry = runs.find((one) => y >= one.top && y < one.top + one.lanes.length * LANE);
  if (!entry || x < LEFT) return null;
  const { run } = entry, lane = entry.lanes[Math.floor((y - entry.top) / LANE)], slack = nsOf(x + 1) - nsOf(x);
  let found = -1;
  for (const i of lane.spans) {
    if (run.start_ns[i] > nsOf(x) + slack) break;
    if (run.start_ns[i] + run.duration_ns[i] + slack < nsOf(x)) continue;
    if (found < 0 || run.duration_ns[i] < run.duration_ns[found]) found = i;
  }
  return found < 0 ? null : { entry, i: found };
}

function tipText({ entry, i }) {
  const { run, rank, kind } = entry;
  const lines = [`${run.type[i]} ${run.name[i]}`, `rank ${rank.rank}, ${kind}: ${timeText(run.duration_ns[i])} from ${timeText(run.start_ns[i])} on`];
  if (run.lane[i] === 0) lines.push(data.phases[run.phase[i]]);
  if (run.bytes[i]) lines.push(`${grouped(run.bytes[i])} bytes sent`);
  lines.push(`${grouped(run.live[i])} bytes live`);
  return lines.join("\n");
}

let dragged = null;
canvas.addEventListener("pointermove", (event) => {
  const tip = $("tip");
  if (dragged) {
    const by = (nsOf(dragged.x) - nsOf(event.offsetX));
    setView(dragged.from + by, dragged.to + by);
    tip.hidden = true;
    return;
  }
  const found = spanAt(event.offsetX, event.offsetY);
  tip.hidden = !found;
  if (!found) return;
  tip.textContent = tipText(found);
  tip.style.left = `${Math.min(event.offsetX + 12, Math.max(width - tip.offsetWidth - 8, 0))}px`;
  tip.style.top = `${event.offsetY + 14}px`;
});
canvas.addEventListener("pointerdown", (event) => {
  canvas.setPointerCapture(event.pointerId);
  dragged = { x: event.offsetX, ...view };
});
canvas.addEventListener("pointerup", () => { dragged = null; });
canvas.addEventListener("pointerleave", () => { $("tip").hidden = true; });
canvas.addEventListener("dblclick", () => setView(0, longest));
canvas.addEventListener("wheel", (event) => {
  if (!event.ctrlKey && !event.shiftKey) return; // the page scrolls
  event.preventDefault();
  zoom(1.0015 ** (event.deltaY || event.deltaX), event.offsetX);
}, { passive: false });
const keys = {
  "+": () => zoom(0.5), "-": () => zoom(2), "0": () => setView(0, longest),
  ArrowLeft: () => setView(view.from - (view.to - view.from) / 4, view.to - (view.to - view.from) / 4),
  ArrowRight: () => setView(view.from + (view.to - view.from) / 4, view.to + (view.to - view.from) / 4),
};
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return;
  event.preventDefault();
  keys[event.key]();
});
$("in").addEventListener("click", () => zoom(0.5));
$("out").addEventListener("click", () => zoom(2));
$("reset").addEventListener("click", () => setView(0, longest));
window.addEventListener("resize", draw);
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);

/* --- words --- */

function legend() {
  for (const [name, text] of [["forward", "forward"], ["backward", "backward"], ["update", "update"],
    ["talk", "communication (calls)"], ["copy", "copies"], ["planned", "planned peak"]]) {
    const row = document.createElement("span"), mark = document.createElement("i");
    mark.style.background = `var(--${name})`;
    row.append(mark, text);
    $("legend").append(row);
  }
}

function table() {
  for (const { rank, kind, run } of runs) {
    const line = $("rows").insertRow(), ms = (seconds) => `${(seconds * 1e3).toFixed(3)} ms`;
    const share = run.talk_seconds > 0 ? `${(run.hidden_seconds / run.talk_seconds * 100).toFixed(0)} %` : "";
    const step = run.idle_seconds + run.compute_seconds, still = step > 0 ? `${(run.idle_seconds / step * 100).toFixed(0)} %` : "";
    for (const text of [`${rank.rank}${rank.label ? `: ${rank.label}` : ""}`, kind, ms(run.seconds), ms(run.compute_seconds),
      still, ms(run.talk_seconds), share, grouped(run.calls), grouped(run.call_bytes), grouped(run.peak), grouped(rank.planned_peak)])
      line.insertCell().textContent = text;
    [...line.cells].slice(2).forEach((cell) => { cell.className = "amount"; });
  }
}

function facts() {
  const longestOf = (kind) => Math.max(0, ...runs.filter((one) => one.kind === kind).map((one) =>
    one.run.start_ns.reduce((end, start, i) => Math.max(end, start + one.run.duration_ns[i]), 0)));
  const told = KINDS.filter((kind) => longestOf(kind) > 0).map((kind) => `${kind} ${timeText(longestOf(kind))}`);
  $("facts").textContent = `One step of ${data.ranks.length} rank${data.ranks.length === 1 ? "" : "s"}: ${told.join(", ")}. ` +
    "To zoom, hold Ctrl or Shift and turn the wheel; to move, drag.";
}

legend();
facts();
table();
draw();
