/* fit.js - shows a fit: the decision about every tensor and its steps, the numbers, and the curve
   of memory against time. */

const fit = plan.fit;
/* The second axis of the curve, and the reference. For operators in parts no time is known. */
const fitAgainst = fit && fit.work ? "work" : "time";
const fitWithout = fit && fit.work ? "the model as a whole" : "the program without fitting";
const fates = fit ? plan.fates.map(([name, count, bytes]) => ({ name, count, bytes })) : [];
const ACTS = { made: 0, out: 1, in: 2, encoded: 3, decoded: 4 };

/* "1.23 ms"; for a problem the bare cost. */
function durationText(time) {
  const value = Number(time);
  if (fit.abstract) return grouped(time);
  const [unit, scale] = value >= 1e12 ? ["s", 1e12] : value >= 1e9 ? ["ms", 1e9]
    : value >= 1e6 ? ["\u00b5s", 1e6] : ["ns", 1e3];
  return `${+(value / scale).toPrecision(4)} ${unit}`;
}
const ratioText = (part, whole) => (Number(whole) > 0 ? Number(part) / Number(whole) : 1).toFixed(4);

/* --- actions on a tensor --- */

const actsOf = (() => {
  const rows = new Map();
  for (const [what, step, tensor] of fit ? plan.act : [])
    rows.set(tensor, [...(rows.get(tensor) || []), { what, step }]);
  return (tensor, what) =>
    (rows.get(tensor) || []).filter((act) => act.what === what).map(({ step }) => step);
})();

/* Steps between its live ranges: [from, to), in which other tensors may use its memory. */
function absences(tensor) {
  const lives = [];
  for (let i = 0; i < item.count; i++)
    if (plan.tensor[i] === tensor) lives.push([item.first[i], item.last[i]]);
  lives.sort((a, b) => a[0] - b[0]);
  const gaps = [];
  let end = lives.length ? lives[0][1] : 0;
  for (const [first, last] of lives) {
    if (first > end) gaps.push([end, first]);
    end = Math.max(end, last);
  }
  return gaps;
}

const stepList = (steps) => {
  const most = 8, shown = steps.slice(0, most).join(", ");
  return steps.length > most ? `${shown} and ${steps.length - most} more` : shown;
};

/* Pairs of name and value about item i, for itemFacts. */
function fateFacts(i) {
  const tensor = fit ? plan.tensor[i] : -1;
  if (tensor < 0) return [];
  const facts = [["became", fates[plan.fate[i]].name]];
  const [first, ...again] = actsOf(tensor, ACTS.made);
  const add = (name, steps) => steps.length && facts.push([name, `at step ${stepList(steps)}`]);
  if (again.length) {
    add("computed", [first]);
    add("again", again);
  }
  add("swapped out", actsOf(tensor, ACTS.out));
  add("swapped in", actsOf(tensor, ACTS.in));
  add("encoded", actsOf(tensor, ACTS.encoded));
  add("decoded", actsOf(tensor, ACTS.decoded));
  const gaps = plan.fate[i] === 0 ? [] : absences(tensor);
  if (gaps.length) {
    const spans = stepList(gaps.map(([from, to]) => `${from} to ${to}`));
    facts.push(["saved", `${bytesText(cell(table.bytes, i))} in steps ${spans}`]);
  }
  return facts;
}

/* --- colours by decision --- */

/* A colour with a pattern for the decision, which is visible without colours: rising lines for
   recomputed, level lines for swapped, dots for encoded. */
function fatePaint(shade, fate) {
  if (fate === 0) return shade;
  const tile = document.createElement("canvas"), side = 8, g = tile.getContext("2d");
  tile.width = tile.height = side;
  g.fillStyle = shade;
  g.fillRect(0, 0, side, side);
  g.strokeStyle = g.fillStyle = "#00000047";
  g.lineWidth = 1.4;
  g.beginPath();
  if (fate === 1) for (const at of [-side, 0, side]) { g.moveTo(at, side); g.lineTo(at + side, 0); }
  if (fate === 2) { g.moveTo(0, 4.5); g.lineTo(side, 4.5); }
  g.stroke();
  if (fate === 3) for (const [x, y] of [[1, 1], [5, 5]]) g.fillRect(x, y, 2, 2);
  return g.createPattern(tile, "repeat");
}

/* --- numbers --- */

function fitNumbers() {
  const over = (value) => `${ratioText(value, fit.plain_time)} of the ${fit.work ? "whole" : "time without"}`;
  const shown = [["needs", iec(fit.bytes), fit.budget ? `of ${iec(fit.budget)} budget` : "no budget"],
    [fit.work ? "as a whole" : "without fitting", iec(fit.plain_bytes), durationText(fit.plain_time)],
    [fitAgainst, durationText(fit.time), over(fit.time)]];
  if (Number(fit.time_bound)) shown.push([`${fitAgainst}, lower bound`, durationText(fit.time_bound),
    over(fit.time_bound)]);
  if (Number(fit.to_host_bytes) || Number(fit.from_host_bytes))
    shown.push(["waits for copies", durationText(fit.stall), `host holds ${iec(fit.host_bytes)}`]);
  shown.push(["arena", iec(plan.peak), Number(fit.fixed_bytes) ? `and ${iec(fit.fixed_bytes)} of weights`
    : `lower bound ${iec(plan.bound)}`]);
  return shown;
}

/* --- the curve of memory against time --- */

const trade = { box: $("trade"), canvas: $("trade").querySelector("canvas"), chosen: -1,
  points: fit ? fit.points.map(([budget, bytes, time, bound]) => ({ budget, bytes, time, bound }))
    : [] };

/* The positions of bytes and times in it. */
function tradeScales() {
  const { points, box } = trade, number = (list) => list.map(Number);
  const bytes = number([...points.map((p) => p.bytes), fit.bytes, fit.budget || fit.bytes]);
  const times = number([...points.map((p) => p.time), fit.time, fit.plain_time]);
  const bounds = number(points.map((p) => p.bound)).filter((bound) => bound > 0);
  const low = Math.min(...bytes), high = Math.max(...bytes), pad = Math.max(1, (high - low) * 0.06);
  const y0 = Math.min(...times, ...bounds), most = Math.max(...times);
  const room = Math.max((most - y0) * 0.12, most * 0.02, 1e-9);
  const area = { left: 52, right: box.clientWidth - 10, top: 12, bottom: box.clientHeight - 36 };
  const wide = area.right - area.left, tall = area.bottom - area.top;
  return { ...area, x0: low - pad, x1: high + pad, y0: y0 - room, y1: most + room,
    x: (v) => area.left + (Number(v) - low + pad) / (high - low + 2 * pad) * wide,
    y: (v) => area.bottom - (Number(v) - y0 + room) / (most - y0 + 2 * room) * tall };
}

function drawTradeAxes(g, s) {
  g.textBaseline = "middle";
  g.textAlign = "right";
  const ratio = (s.y1 - s.y0) / Number(fit.plain_time), rough = ratio / 4;
  const unit = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * unit).find((m) => m >= rough);
  const lowest = s.y0 / Number(fit.plain_time);
  for (let k = Math.ceil(lowest / step); k * step <= lowest + ratio; k++) {
    const y = Math.round(s.y(k * step * Number(fit.plain_time))) + 0.5;
    g.fillStyle = colour.grid;
    g.fillRect(s.left, y - 0.5, s.right - s.left, 1);
    g.fillStyle = colour.soft;
    g.fillText(`\u00d7${+(k * step).toPrecision(6)}`, s.left - 6, y);
  }
  g.textAlign = "center";
  const ticks = byteTicks(Math.max(0, s.x0), s.x1, (s.right - s.left) / 74), one = byteUnit(ticks);
  for (const tick of ticks) {
    if (tick < s.x0) continue;
    const x = Math.round(s.x(tick));
    g.fillStyle = colour.grid;
    g.fillRect(x, s.top, 1, s.bottom - s.top);
    g.fillStyle = colour.soft;
    g.fillText(byteLabel(tick, one), x, s.bottom + 11);
  }
  g.fillText(`bytes on the device; up: ${fitAgainst}, relative to ${fitWithout}`,
    (s.left + s.right) / 2, s.bottom + 27, s.right - s.left);
}

/* Draws stairs: the result for fewer bytes holds until the next point. A time of 0: unknown. */
function tradeLine(g, s, places, stroke, dash) {
  g.beginPath();
  places.filter(([, time]) => Number(time) > 0).forEach(([bytes, time], i, list) => {
    if (i > 0) g.lineTo(s.x(bytes), s.y(list[i - 1][1]));
    g.lineTo(s.x(bytes), s.y(time));
  });
  g.strokeStyle = stroke;
  g.lineWidth = 1.5;
  g.setLineDash(dash);
  g.stroke();
  g.setLineDash([]);
}

function tradeUpright(g, s, bytes, words, stroke, dash) {
  const x = s.x(bytes);
  if (x < s.left || x > s.right) return;
  g.strokeStyle = g.fillStyle = stroke;
  g.setLineDash(dash);
  g.beginPath();
  g.moveTo(x, s.top);
  g.lineTo(x, s.bottom);
  g.stroke();
  g.setLineDash([]);
  g.textAlign = x > (s.left + s.right) / 2 ? "right" : "left";
  g.fillText(words, x + (g.textAlign === "right" ? -5 : 5), s.top + 8);
}

function drawTrade() {
  if (!trade.points.length) return;
  const dpr = window.devicePixelRatio || 1, { box, canvas } = trade, s = tradeScales();
  canvas.width = Math.max(1, Math.round(box.clientWidth * dpr));
  canvas.height = Math.max(1, Math.round(box.clientHeight * dpr));
  const g = canvas.getContext("2d");
  g.setTransform(dpr, 0, 0, dpr, 0, 0);
  g.font = "11px system-ui, sans-serif";
  drawTradeAxes(g, s);
  const { points } = trade;
  tradeLine(g, s, points.map(({ budget, bound }) => [budget, bound]), colour.bound, [5, 4]);
  tradeLine(g, s, points.map(({ bytes, time }) => [bytes, time]), colour.curve, []);
  if (fit.budget) tradeUpright(g, s, fit.budget, "budget", colour.text, [2, 3]);
  const spot = ({ bytes, time }, radius, fill) => {
    g.beginPath();
    g.arc(s.x(bytes), s.y(time), radius, 0, 7);
    g.fillStyle = fill;
    g.fill();
  };
  for (const point of trade.points) spot(point, 3, colour.curve);
  spot(fit, 5.5, colour.mark);
  if (trade.chosen >= 0) {
    const { bytes, time } = trade.points[trade.chosen];
    g.strokeStyle = colour.text;
    g.strokeRect(s.x(bytes) - 6.5, s.y(time) - 6.5, 13, 13);
  }
  g.strokeStyle = colour.line;
  g.strokeRect(s.left - 0.5, s.top - 0.5, s.right - s.left + 1, s.bottom - s.top + 1);
}

/* Shows the text for a point of the curve; -1: for the program that is drawn. */
function chooseTrade(index) {
  trade.chosen = index;
  const { bytes, time, bound } = index < 0 ? { ...fit, bound: fit.time_bound } : trade.points[index];
  const low = Number(bound) > 0 ? `, lower bound ${ratioText(bound, fit.plain_time)}` : "";
  $("point").textContent = `${index < 0 ? "This program" : `Point ${index + 1}`}: ` +
    `${bytesText(bytes)} ${fit.work ? "with work" : "in"} ${durationText(time)}, ${ratioText(time, fit.plain_time)} of ` +
    `${fitWithout}${low}`;
  drawTrade();
}

function listenTrade() {
  trade.box.addEventListener("keydown", (event) => {
    const turn = { ArrowRight: 1, ArrowLeft: -1 }[event.key], count = trade.points.length;
    if (!turn) return;
    event.preventDefault();
    chooseTrade(Math.min(count - 1, Math.max(0, trade.chosen + turn)));
  });
  trade.box.addEventListener("pointermove", (event) => {
    const s = tradeScales(), { left, top } = trade.box.getBoundingClientRect();
    const away = trade.points.map(({ bytes, time }) =>
      Math.hypot(s.x(bytes) - event.clientX + left, s.y(time) - event.clientY + top));
    const near = away.indexOf(Math.min(...away));
    chooseTrade(away[near] < 14 ? near : -1);
  });
  trade.box.addEventListener("pointerleave", () => chooseTrade(-1));
}
