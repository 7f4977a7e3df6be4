/* groups.js - colours items by kind of memory, by purpose in a training step, by layer, or by the
   decision of a fit. Each way to colour assigns every item to a group; a group has a name, a
   colour, a sum, and can be hidden. */

/* The path of a name, outermost first: "/layer1/layer1.0/conv1/Conv_output_0" and
   "layer1.0.conv1.weight" are both in layer1, layer1.0, layer1.0.conv1. */
function pathOf(name) {
  const plain = name.replace(/^d\./, "").replace(/^model[/.](?=.)/, "");
  const parts = plain.split("/").filter(Boolean);
  if (parts.length === 1) parts.splice(0, 1, ...parts[0].split("."));
  parts.pop(); // the name of the operator or tensor
  const path = [];
  for (const part of parts) {
    const before = path[path.length - 1];
    path.push(before === undefined || part.startsWith(`${before}.`) ? part : `${before}.${part}`);
  }
  return path;
}

/* The layer of each item, from the name of the operator that makes it, or from its own name. */
const layers = (() => {
  const MOST = 24, cache = new Map();
  const known = (name) => {
    if (!cache.has(name)) cache.set(name, pathOf(name));
    return cache.get(name);
  };
  const pathOfItem = (i) => {
    const op = item.step[i] >= 0 ? text(cell(plan.step.name, item.step[i])) : "";
    const path = op ? known(op) : [];
    return path.length ? path : /[./]/.test(itemName(i)) ? known(itemName(i)) : path;
  };
  const paths = plan.item ? Array.from({ length: item.count }, (_, i) => pathOfItem(i)) : [];
  let best = null; // the deepest level for which the colours suffice
  for (let depth = 1; depth <= 4; depth++) {
    const names = new Map(), of = new Int32Array(item.count);
    for (let i = 0; i < paths.length && names.size <= MOST; i++) {
      const path = paths[i], name = path.length ? path[Math.min(depth, path.length) - 1] : "";
      if (!names.has(name)) names.set(name, names.size);
      of[i] = names.get(name);
    }
    if (names.size > MOST) break;
    if (!best || names.size > best.names.length) best = { names: [...names.keys()], of };
  }
  return best && best.names.length > 1 ? { ...best, paths } : null;
})();
/* Is an item in the layer of this name, or in one inside it? */
const inLayer = (i, name) => layers !== null && layers.paths[i].some((part) => part === name);

/* Colours that differ clearly, for any number of them. */
function layerColour(k, count) {
  const dark = darkScheme.matches, hue = (k * 360) / Math.max(count, 6) + 15;
  return hslHex(hue % 360, 0.62, (dark ? 0.58 : 0.66) + (k % 2 ? 0.09 : -0.06));
}
function hslHex(hue, saturation, light) {
  const reach = saturation * Math.min(light, 1 - light);
  const channel = (n) => {
    const k = (n + hue / 30) % 12, value = light - reach * Math.max(-1, Math.min(k - 3, 9 - k, 1));
    return Math.round(value * 255).toString(16).padStart(2, "0");
  };
  return `#${channel(0)}${channel(8)}${channel(4)}`;
}

const darkScheme = window.matchMedia("(prefers-color-scheme: dark)");

/* --- ways to colour --- */

const entry = (name, words, total, more = {}) => ({ name, words, total, hidden: false, ...more });
const sumsOf = (of, count) => { // bytes of all items, each counted once, and their number
  const sums = Array.from({ length: count }, () => [0n, 0]);
  for (let i = 0; i < item.count; i++) {
    if (item.flags[i] & FLAG.alias) continue;
    sums[of[i]][0] += BigInt(cell(table.bytes, i));
    sums[of[i]][1]++;
  }
  return sums;
};
const ways = [{ key: "kind", words: "by kind", of: item.kind, entries: kinds.map(({ name, total, fixed }) =>
  entry(name, name.replace("_", " "), total, { fixed })) }];
if (plan.roles) {
  ways.unshift({ key: "role", words: "by role", of: numbers(plan.item.role, item.count),
    entries: plan.roles.map(([name, words, total, fixed]) => entry(name, words, total, { fixed })) });
}
if (layers) {
  const sums = sumsOf(layers.of, layers.names.length);
  ways.push({ key: "layer", words: "by layer", of: layers.of, entries: layers.names.map((name, k) =>
    entry(null, name || "no layer", String(sums[k][0]), { layer: name, index: k })) });
}
if (plan.fit && plan.fate.some((fate) => fate > 0)) { // else all tensors are kept
  ways.unshift({ key: "fate", words: "by decision", of: Float64Array.from(plan.fate),
    entries: plan.fates.map(([name, count, bytes]) => entry(name, name, bytes, { count })) });
}
let way = ways[0];
const groupOf = (i) => way.of[i];

/* The plain colour of a group, and the colours with patterns for decisions, shades, and views. */
function groupColour(index) {
  const { name, layer } = way.entries[index];
  if (layer !== undefined) return layerColour(index, way.entries.length);
  const css = getComputedStyle(document.documentElement);
  return css.getPropertyValue(`--${name}`).trim() || "#8a93a0";
}
function shadesOf(base, fate) {
  const plain = [base, blend(base, "#ffffff", 0.22), blend(base, "#000000", 0.1)];
  return [...plain, ...plain.map((shade) => blend(shade, colour.back, 0.25))]
    .map((shade) => (way.key === "fate" ? fatePaint(shade, fate) : shade));
}
const paintOf = (r) => (rect.item[r] < 0 ? colour.reserved
  : colour.paint[groupOf(rect.item[r])][rect.shade[r]]);

function dot(index) { // the dot of a group
  const { name } = way.entries[index] || {}, mark = make("i", { className: `dot ${name || ""}` });
  mark.style.backgroundColor = groupColour(index);
  return mark;
}

/* --- legend --- */

function legendEntry({ words, total, fixed, hidden, count }, index) {
  const content = [dot(index), words, make("b", {}, iec(total))];
  const many = count === undefined ? "" : `${grouped(count)} tensors, `;
  /* a sum counts every tensor once, although they do not all live at the same time */
  const title = `${many}${grouped(total)} bytes: the sum over the whole time, not the most at one time`;
  if (fixed) return make("span", { title: `${title}, outside the arena` }, ...content);
  const button = make("button", { type: "button", title: `${title}; click to hide or show` }, ...content);
  button.setAttribute("aria-pressed", String(!hidden));
  button.addEventListener("click", () => {
    const group = way.entries[index];
    group.hidden = !group.hidden;
    button.setAttribute("aria-pressed", String(!group.hidden));
    redraw();
  });
  return button;
}
function showLegend() {
  const used = new Set(way.of);
  const again = (plan.again || []).reduce((sum, [from, to]) => sum + to - from, 0);
  const notes = "sums over time; shades only separate neighbours" +
    (again ? `; hatched in the band above: ${grouped(again)} recomputed steps` : "");
  $("legend").replaceChildren(...way.entries.flatMap((group, index) =>
    !group.fixed && !used.has(index) ? [] : [legendEntry(group, index)]),
  make("small", {}, notes));
}

function setWay(key) {
  way = ways.find((one) => one.key === key) || way;
  for (const button of $("colours").children)
    button.setAttribute("aria-pressed", String(button.dataset.way === way.key));
  readColours();
  showLegend();
  select(state.selected);
  showRows();
  redraw();
}
function showWays() {
  $("colours").hidden = ways.length < 2;
  $("colours").replaceChildren(...ways.map(({ key, words }) => {
    const button = make("button", { type: "button", id: `${key}s`, title: "Colours (key F)" }, words);
    button.dataset.way = key;
    button.setAttribute("aria-pressed", String(key === way.key));
    button.addEventListener("click", () => setWay(key));
    return button;
  }));
}
const nextWay = () => setWay(ways[(ways.indexOf(way) + 1) % ways.length].key);
