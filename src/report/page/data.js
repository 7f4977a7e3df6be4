"use strict";
/* data.js - decodes the plan, as html.c wrote it, into flat arrays, and formats its numbers.

   A column is an array, or one value that stands for all rows. Integers beyond 2^53 come as
   strings: drawing uses the nearest double, every text uses the exact integer. Times count from
   plan.time[0], so that steps of a plan far from zero remain distinct. */

const plan = JSON.parse(document.getElementById("data").textContent);
/* Of a fit: the steps [from, to) that compute a tensor again. */
plan.again = (() => {
  const made = new Set(), steps = new Set();
  for (const [what, step, tensor] of plan.fit ? plan.act : []) {
    if (what !== 0) continue; // 0: ACTS.made in fit.js
    if (made.has(tensor)) steps.add(step);
    made.add(tensor);
  }
  return [...steps].sort((a, b) => a - b).map((step) => [step, step + 1]);
})();
const SHARE = { own: 0, view: 1, inplace: 2, fused: 3 };
const FLAG = { bounded: 1, whole: 2, alias: 4 };

const cell = (column, row) => (Array.isArray(column) ? column[row] : column);

function numbers(column, count) {
  const out = new Float64Array(count);
  if (Array.isArray(column)) for (let i = 0; i < count; i++) out[i] = Number(column[i]);
  else out.fill(Number(column));
  return out;
}

/* Bodies: each has one address. */
const body = {
  count: plan.body.count,
  size: numbers(plan.body.size, plan.body.count),
  offset: numbers(plan.body.offset, plan.body.count),
  bank: numbers(plan.body.bank, plan.body.count),
  align: numbers(plan.body.align, plan.body.count),
};

/* Items: each has a name and a colour. For a model they are the live ranges of its tensors; for a
   problem its bodies. */
const table = plan.item || {
  count: plan.body.count, name: plan.body.name, kind: 0, body: null, first: plan.body.first,
  last: plan.body.last, lo: 0, hi: plan.body.size, bytes: plan.body.size, share: 0, type: 0,
  shape: 0, step: -1, source: -1, flags: 0,
};
const item = {
  count: table.count,
  body: table.body === null ? Float64Array.from({ length: table.count }, (_, i) => i)
                            : numbers(table.body, table.count),
  kind: numbers(table.kind, table.count),
  first: numbers(table.first, table.count),
  last: numbers(table.last, table.count),
  lo: numbers(table.lo, table.count),
  hi: numbers(table.hi, table.count),
  bytes: numbers(table.bytes, table.count),
  share: numbers(table.share, table.count),
  flags: numbers(table.flags, table.count),
  step: numbers(table.step, table.count),
  source: numbers(table.source, table.count),
};
const piece = {
  count: plan.piece.count,
  body: numbers(plan.piece.body, plan.piece.count),
  first: numbers(plan.piece.first, plan.piece.count),
  last: numbers(plan.piece.last, plan.piece.count),
  lo: numbers(plan.piece.lo, plan.piece.count),
  hi: numbers(plan.piece.hi, plan.piece.count),
};
const curve = {
  count: plan.curve.count,
  at: numbers(plan.curve.at, plan.curve.count),
  live: numbers(plan.curve.live, plan.curve.count),
};
/* Readers: steps readers[readStart[i]] ... read item i; and the items that a step reads. */
const readStart = new Int32Array(item.count + 1);
const readers = plan.use ? numbers(plan.use.step, plan.use.count) : [];
for (let i = 0; plan.use && i < item.count; i++)
  readStart[i + 1] = readStart[i] + Number(cell(plan.use.reads, i));
const readersOf = (i) => readers.slice(readStart[i], readStart[i + 1]);
const kinds = plan.kinds.map(([name, total, fixed]) => ({ name, total, fixed }));
const bankWord = plan.ooms ? "segment" : "bank"; // of PyTorch's memory, or of a problem
const banks = plan.banks.map(([name, capacity, peak]) => ({ name, capacity, peak }));
const span = Number(plan.time[1]);
const peakBytes = Number(plan.peak);
const boundBytes = Number(plan.bound);
const peakTime = Number(plan.peak_time);

/* Banks lie end to end, so that the height of the drawing is the peak of all. */
{
  let sum = 0;
  for (const bank of banks) {
    bank.base = sum;
    sum += Number(bank.peak);
  }
}

/* --- words --- */

const text = (index) => plan.text[index];
const itemName = (i) => text(cell(table.name, i));
const itemType = (i) => text(cell(table.type, i));
const itemShape = (i) => text(cell(table.shape, i));
const kindName = (kind) => kinds[kind].name.replace("_", " ");
const grouped = (integer) => String(integer).replace(/\B(?=(\d{3})+$)/g, ",");

/* "9.2 MiB" */
function iec(bytes) {
  const value = Number(bytes);
  if (value < 1024) return `${value} ${value === 1 ? "byte" : "bytes"}`;
  const unit = Math.min(6, Math.floor(Math.log2(value) / 10));
  /* rounds ties to even, like C's printf */
  const tenths = value / 1024 ** unit * 10, tie = tenths % 1 === 0.5;
  const rounded = tie ? 2 * Math.round(tenths / 2) : Math.round(tenths);
  return rounded >= 10240 && unit < 6 ? `1.0 ${"_KMGTPE"[unit + 1]}iB`
                                      : `${(rounded / 10).toFixed(1)} ${"_KMGTPE"[unit]}iB`;
}

/* "9.2 MiB (9,633,792 bytes)" */
function bytesText(bytes) {
  return Number(bytes) < 1024 ? iec(bytes) : `${iec(bytes)} (${grouped(bytes)} bytes)`;
}

/* An instant of the input's own time axis, exact. */
const instant = (relative) => String(BigInt(plan.time[0]) + BigInt(relative));
function momentText(relative) {
  const exact = relative === peakTime ? plan.peak_time : relative;
  const when = clock && exact === relative ? `, ${clockText(clock.at[relative])}` : "";
  return `${plan.step.count ? "step" : "time"} ${instant(exact)}${when}`;
}
/* "1.23 ms" */
function clockText(ms) {
  const [unit, scale] = ms >= 1000 ? ["s", 1000] : ms >= 1 || ms === 0 ? ["ms", 1] : ["\u00b5s", 1e-3];
  return `${(ms / scale).toPrecision(4)} ${unit}`;
}

const stepType = (index) =>
  index >= 0 && index < plan.step.count ? text(cell(plan.step.type, index)) : "";

/* The type without the overload that most operators of PyTorch have. */
const shortType = (index) => stepType(index).replace(/\.default$/, "");

/* "Conv 'layer1.0.conv1'"; "" if the step runs no operator. */
function stepText(index) {
  const type = stepType(index);
  const name = type && text(cell(plan.step.name, index));
  return name ? `${type} '${name}'` : type;
}

function lifeText(i) {
  const first = instant(cell(table.first, i)), last = instant(cell(table.last, i));
  const length = BigInt(last) - BigInt(first);
  return `${first} to ${last} (${grouped(length)} ${length === 1n ? "step" : "steps"})`;
}

function addressText(i) {
  const row = item.body[i];
  const start = BigInt(cell(plan.body.offset, row));
  const low = start + BigInt(cell(table.lo, i)), high = start + BigInt(cell(table.hi, i));
  const where = banks.length > 1 ? ` in ${banks[body.bank[row]].name}` : "";
  return `${grouped(low)} to ${grouped(high)}${where}`;
}

/* The facts about an item, as pairs for a tooltip or the details. */
function itemFacts(i) {
  const facts = [], add = (name, value) => value && facts.push([name, value]);
  const shape = itemShape(i), type = itemType(i);
  add("kind", kindName(item.kind[i]));
  if (plan.roles) add("for", plan.roles[cell(plan.item.role, i)][1]);
  add("made by", stepText(item.step[i]));
  add("shape", shape && type ? `${shape} ${type}` : shape || type);
  add("bytes", bytesText(cell(table.bytes, i)) +
      (item.flags[i] & FLAG.bounded ? ", an upper bound" : ""));
  add("live", lifeText(i));
  add("address", addressText(i));
  if (table.note !== undefined)
    text(cell(table.note, i)).split("\n").forEach((line, row) => add(row ? "" : "stack", line));
  if (item.flags[i] & FLAG.whole) add("", "somewhere inside these bytes");
  if (item.source[i] >= 0) {
    const how = { [SHARE.inplace]: "written over", [SHARE.fused]: "joined around" };
    add(how[item.share[i]] || "a view of", itemName(item.source[i]));
  }
  return [...facts, ...fateFacts(i)];
}

/* Shortens a long name in the middle, because the end of a path is its most useful part. */
function shortened(name, most) {
  if (name.length <= most) return name;
  if (most < 4) return "";
  const tail = Math.ceil((most - 1) * 2 / 3);
  return `${name.slice(0, most - 1 - tail)}\u2026${name.slice(name.length - tail)}`;
}

/* --- holders of memory at one instant --- */

const pieceStart = new Int32Array(body.count + 1); // pieces are ordered by body
for (let p = 0; p < piece.count; p++) pieceStart[piece.body[p] + 1]++;
for (let b = 0; b < body.count; b++) pieceStart[b + 1] += pieceStart[b];
const hasPieces = (b) => pieceStart[b + 1] > pieceStart[b];

/* Rows {body, item, bytes}: one per live body, named by the item last written into it. The bytes
   are that item's; views only read them. Bytes are exact. */
function holdersAt(time) {
  const rows = new Map();
  const hold = (b, high, low) => {
    const row = rows.get(b) || { body: b, item: -1, bytes: 0n };
    row.bytes += BigInt(high) - BigInt(low);
    rows.set(b, row);
  };
  for (let p = 0; p < piece.count; p++) {
    if (time >= piece.first[p] && time < piece.last[p])
      hold(piece.body[p], cell(plan.piece.hi, p), cell(plan.piece.lo, p));
  }
  for (let i = 0; i < item.count; i++) {
    if (item.first[i] > time) continue;
    const b = item.body[i], live = time < item.last[i];
    if (live && !hasPieces(b) && item.hi[i] > item.lo[i])
      hold(b, cell(table.hi, i), cell(table.lo, i));
    const row = rows.get(b), writes = item.share[i] !== SHARE.view;
    if (row && (row.item < 0 || (writes && item.first[row.item] <= item.first[i]))) row.item = i;
  }
  for (const row of rows.values()) if (row.item < 0) row.item = itemOf(row.body);
  return [...rows.values()];
}
const itemOf = (b) => item.body.indexOf(b);

/* Free bytes below the highest address in use at one instant, over all banks. */
function holesAt(time, live) {
  const tops = banks.map(() => 0n);
  const reach = (b, high) => {
    const end = BigInt(cell(plan.body.offset, b)) + BigInt(high), bank = body.bank[b];
    if (end > tops[bank]) tops[bank] = end;
  };
  for (let p = 0; p < piece.count; p++)
    if (time >= piece.first[p] && time < piece.last[p]) reach(piece.body[p], cell(plan.piece.hi, p));
  for (let i = 0; i < item.count; i++) {
    const b = item.body[i];
    if (time >= item.first[i] && time < item.last[i] && !hasPieces(b) && item.hi[i] > item.lo[i])
      reach(b, cell(table.hi, i));
  }
  return tops.reduce((sum, top) => sum + top, 0n) - BigInt(live);
}

/* Index of the curve's step that holds `time`; -1 before the first. */
function curveIndex(time) {
  let low = 0, high = curve.count;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (curve.at[middle] <= time) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}
function liveAt(time) {
  const i = curveIndex(time);
  return i < 0 ? 0 : cell(plan.curve.live, i);
}
