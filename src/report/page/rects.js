/* rects.js - the rectangles to be drawn, as flat arrays in the plane of time and address.

   Every rectangle has two heights above zero: its planned address, and its position in the stack
   without reuse. Rectangles are ordered by kind, so that a frame changes colours seldom, and within
   a kind by time, so that a block of them covers a short time and can be skipped as a whole. */

const SHADES = 3;
const BLOCK = 256;

/* The position of every item if each has its own memory: one above the other, except items that
   share memory because their operator requires it. */
const alone = new Float64Array(item.count);
let stackTop = 0;
for (let i = 0; i < item.count; i++) {
  const source = item.source[i], align = body.align[item.body[i]];
  if (item.flags[i] & FLAG.alias && source >= 0 && source < i) {
    alone[i] = alone[source] + item.lo[i] - item.lo[source];
  } else {
    alone[i] = stackTop;
    stackTop += Math.ceil(item.bytes[i] / align) * align;
  }
}

const rect = (() => {
  const background = plan.item ? piece.count : 0; // reserved by a body with several tensors
  let count = background;
  for (let i = 0; i < item.count; i++)
    count += plan.item || !hasPieces(item.body[i]) ? 1
      : pieceStart[item.body[i] + 1] - pieceStart[item.body[i]];
  const raw = { item: new Int32Array(count), piece: new Int32Array(count).fill(-1),
    style: new Int32Array(count), shade: new Uint8Array(count) };
  const layer = 1 + kinds.length; // 0: reserved; then tensors by kind; then views by kind
  let at = 0;
  for (; at < background; at++) [raw.item[at], raw.piece[at]] = [-1, at];
  const put = (i, p) => {
    const isView = item.share[i] === SHARE.view;
    raw.item[at] = i;
    raw.piece[at] = p;
    // models repeat, so shades are scattered; views have the shade of their body
    raw.shade[at] = (Math.imul(isView ? item.body[i] : i, 0x9e3779b1) >>> 16) % SHADES +
      (isView ? SHADES : 0);
    raw.style[at++] = (isView ? layer : 1) + item.kind[i];
  };
  for (let i = 0; i < item.count; i++) {
    const b = item.body[i];
    if (plan.item || !hasPieces(b)) put(i, -1);
    else for (let p = pieceStart[b]; p < pieceStart[b + 1]; p++) put(i, p);
  }
  const order = sortedBy(raw.style, layer + kinds.length);
  const column = (f, T = Float64Array) => {
    const out = new T(count);
    for (let r = 0; r < count; r++) out[r] = f(order[r]);
    return out;
  };
  const bodyOf = (k) => (raw.item[k] < 0 ? piece.body[raw.piece[k]] : item.body[raw.item[k]]);
  const of = (name) => (k) => (raw.piece[k] < 0 ? item[name][raw.item[k]] : piece[name][raw.piece[k]]);
  const lo = of("lo"), hi = of("hi");
  return {
    count, background,
    item: column((k) => raw.item[k], Int32Array), body: column(bodyOf, Int32Array),
    first: column(of("first")), last: column(of("last")),
    low: [column((k) => banks[body.bank[bodyOf(k)]].base + body.offset[bodyOf(k)] + lo(k)),
      column((k) => raw.item[k] < 0 ? 0 : alone[raw.item[k]] + (plan.item ? 0 : lo(k)))],
    height: [column((k) => hi(k) - lo(k)),
      column((k) => raw.item[k] < 0 ? 0 : plan.item ? item.bytes[raw.item[k]] : hi(k) - lo(k))],
    shade: column((k) => raw.shade[k], Uint8Array),
    x0: null, x1: null, // on the axis: set by placeRects
  };
})();

/* Indices sorted by their keys; the order of equal keys is kept. */
function sortedBy(keys, count) {
  const start = new Int32Array(count + 1), order = new Int32Array(keys.length);
  for (const key of keys) start[key + 1]++;
  for (let k = 0; k < count; k++) start[k + 1] += start[k];
  for (let i = 0; i < keys.length; i++) order[start[keys[i]]++] = i;
  return order;
}

/* The rectangles of item i: rectList[rectStart[i]] ... */
const rectStart = new Int32Array(item.count + 1);
for (let r = 0; r < rect.count; r++) if (rect.item[r] >= 0) rectStart[rect.item[r] + 1]++;
for (let i = 0; i < item.count; i++) rectStart[i + 1] += rectStart[i];
const rectList = new Int32Array(rectStart[item.count]);
{
  const next = rectStart.slice();
  for (let r = 0; r < rect.count; r++) if (rect.item[r] >= 0) rectList[next[rect.item[r]]++] = r;
}
const rectsOf = (i) => rectList.subarray(rectStart[i], rectStart[i + 1]);

/* --- the axis of time: steps, or the milliseconds of a run --- */

const clock = (() => { // picoseconds from the start of the run at which it reaches each step
  const reach = plan.clock ? plan.clock.reach : null;
  return reach ? { name: plan.clock.name, at: Float64Array.from(reach, (ps) => Number(ps) / 1e9) } : null;
})();
const axis = { clock: false, span, blockFrom: null, blockTo: null };

/* The position of a step on the axis, or of a point between two steps. */
function onAxis(step) {
  if (!axis.clock) return step;
  const low = Math.min(Math.max(0, Math.floor(step)), clock.at.length - 1);
  const high = Math.min(low + 1, clock.at.length - 1);
  return clock.at[low] + (clock.at[high] - clock.at[low]) * (step - low);
}
/* The step that runs at a position. */
function stepAt(x) {
  if (!axis.clock) return Math.floor(x);
  let low = 0, high = clock.at.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (clock.at[middle] <= x) low = middle + 1;
    else high = middle;
  }
  return Math.max(0, low - 1);
}

/* Places all rectangles on the current axis. */
function placeRects() {
  const { count } = rect, blocks = Math.ceil(count / BLOCK);
  rect.x0 = axis.clock ? Float64Array.from(rect.first, onAxis) : rect.first;
  rect.x1 = axis.clock ? Float64Array.from(rect.last, onAxis) : rect.last;
  axis.span = axis.clock ? onAxis(span) : span;
  axis.blockFrom = new Float64Array(blocks).fill(Infinity);
  axis.blockTo = new Float64Array(blocks).fill(-Infinity);
  for (let r = 0; r < count; r++) {
    const b = Math.floor(r / BLOCK);
    axis.blockFrom[b] = Math.min(axis.blockFrom[b], rect.x0[r]);
    axis.blockTo[b] = Math.max(axis.blockTo[b], rect.x1[r]);
  }
}
placeRects();

const naiveTop = Math.max(stackTop, Number(plan.naive));
const topOf = (mode) => Math.max(mode ? naiveTop : peakBytes, 1);

/* A name is placed where its tensor is visible for the longest time, between tensors of the same
   body that are painted over it. Only the next few are examined; more of them leave no room
   anyway. */
const nameSpan = (() => {
  const from = Float64Array.from(item.first), to = Float64Array.from(item.last);
  if (!plan.item) return { from, to };
  const order = sortedBy(item.body, body.count); // by body, then by first
  for (let at = 0; at < order.length; at++) {
    const i = order[at];
    let seen = item.first[i], best = 0;
    const offer = (end) => {
      if (end - seen > best) [best, from[i], to[i]] = [end - seen, seen, end];
    };
    for (let k = at + 1; k < order.length && k < at + 17; k++) {
      const j = order[k];
      if (item.body[j] !== item.body[i] || item.first[j] >= item.last[i]) break;
      offer(item.first[j]);
      seen = Math.max(seen, item.last[j]);
    }
    offer(item.last[i]);
  }
  return { from, to };
})();
