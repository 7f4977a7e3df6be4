/* find.js - finds the items under the pointer: a grid over time and address, as fine as possible
   with a size linear in the number of rectangles. */

/* A grid over time and address; cell c holds rectangles list[start[c]] ... list[start[c + 1]]. */
function makeGrid(mode) {
  const low = rect.low[mode], height = rect.height[mode];
  const width = Math.max(axis.span, axis.clock ? 1e-9 : 1), high = topOf(mode);
  const grid = { width, high, side: rect.count > 100000 ? 256 : 512 };
  const index = (value, whole) =>
    Math.min(grid.side - 1, Math.max(0, Math.floor(value / whole * grid.side)));
  const usable = (r) => rect.item[r] >= 0 && height[r] > 0;
  for (; grid.side > 1; grid.side >>= 1) {
    let entries = 0;
    for (let r = 0; r < rect.count; r++) {
      if (!usable(r)) continue;
      entries += (index(rect.x1[r], width) - index(rect.x0[r], width) + 1) *
        (index(low[r] + height[r], high) - index(low[r], high) + 1);
    }
    if (entries <= 16 * rect.count + 4096) break;
  }
  const each = (visit) => {
    for (let r = 0; r < rect.count; r++) {
      if (!usable(r)) continue;
      const a = index(rect.x0[r], width), b = index(rect.x1[r], width);
      const c = index(low[r], high), d = index(low[r] + height[r], high);
      for (let y = c; y <= d; y++) for (let x = a; x <= b; x++) visit(y * grid.side + x, r);
    }
  };
  grid.start = new Int32Array(grid.side * grid.side + 1);
  each((c) => { grid.start[c + 1]++; });
  for (let c = 0; c < grid.side * grid.side; c++) grid.start[c + 1] += grid.start[c];
  const next = grid.start.slice();
  grid.list = new Int32Array(grid.start[grid.side * grid.side]);
  each((c, r) => { grid.list[next[c]++] = r; });
  return grid;
}
let grids = [null, null]; // with and without reuse, for the current axis

/* Items at a point, the topmost first. If no item is hit, one at most two pixels away counts,
   because thin rectangles are hard to hit. */
function itemsAt(time, address, s) {
  const mode = state.mode, grid = (grids[mode] ||= makeGrid(mode));
  const nearX = 2 / s.sx, nearY = 2 / s.sy;
  const index = (value, whole) =>
    Math.min(grid.side - 1, Math.max(0, Math.floor(value / whole * grid.side)));
  const found = new Map();
  for (let y = index(address - nearY, grid.high); y <= index(address + nearY, grid.high); y++) {
    for (let x = index(time - nearX, grid.width); x <= index(time + nearX, grid.width); x++) {
      const at = y * grid.side + x;
      for (let k = grid.start[at]; k < grid.start[at + 1]; k++) {
        const r = grid.list[k], low = rect.low[mode][r], high = low + rect.height[mode][r];
        const dx = Math.max(rect.x0[r] - time, time - rect.x1[r], 0) * s.sx;
        const dy = Math.max(low - address, address - high, 0) * s.sy;
        if (dx <= 2 && dy <= 2 && isShown(r)) found.set(rect.item[r], dx + dy);
      }
    }
  }
  const near = [...found].sort(([a, x], [b, y]) => x - y ||
    (item.share[b] === SHARE.view) - (item.share[a] === SHARE.view) ||
    item.first[b] - item.first[a] || b - a);
  const exact = near.filter(([, distance]) => distance === 0);
  return (exact.length ? exact : near.slice(0, 1)).map(([i]) => i);
}
