/* details.js - describes one thing in words, with links: the selected tensor links to the step that
   made it and to its readers; a step links to its operands and results; a range of steps shows
   sums. */

/* Words with a link. */
function leadTo(words, title, go) {
  const button = make("button", { type: "button", className: "to", title }, words);
  button.addEventListener("click", go);
  return button;
}
function list(links, most = 12) {
  const shown = links.slice(0, most).flatMap((link, k) => (k ? [", ", link] : [link]));
  return links.length > most ? [...shown, ` and ${grouped(links.length - most)} more`] : shown;
}

const toStep = (step) => leadTo(`${step} ${shortType(step)}`.trim(), stepText(step) || `step ${step}`,
  () => { showMoment(step); bringStep(step); });
const toItem = (i) => leadTo(shortened(itemName(i) || "(no name)", 40), itemName(i),
  () => { select(i); reveal(i); });

/* Brings a step into view, showing at least a twelfth of all steps. */
function bringStep(step) {
  const length = Math.min(view.x1 - view.x0, Math.max(axis.clock ? 0 : 40, axis.span / 12));
  const middle = onAxis(step);
  if (middle >= view.x0 && middle <= view.x1) return redraw(false);
  return setView({ x0: middle - length / 2, x1: middle + length / 2, y0: view.y0, y1: view.y1 });
}

/* --- a step --- */

const itemsReadAt = (() => { // made at the first request
  let start = null, items = null;
  const make = () => {
    start = new Int32Array(plan.step.count + 1);
    for (const step of readers) start[step + 1]++;
    for (let s = 0; s < plan.step.count; s++) start[s + 1] += start[s];
    const next = start.slice();
    items = new Int32Array(readers.length);
    for (let i = 0; i < item.count; i++)
      for (let k = readStart[i]; k < readStart[i + 1]; k++) items[next[readers[k]]++] = i;
  };
  return (step) => {
    if (start === null) make();
    return [...items.slice(start[step], start[step + 1])];
  };
})();
const itemsMadeAt = (step) => {
  const found = [];
  for (let i = 0; i < item.count; i++) if (item.step[i] === step) found.push(i);
  return found;
};

function showOperands(step) {
  const rows = [];
  if (plan.item && step >= 0 && step < plan.step.count) {
    const reads = itemsReadAt(step), makes = itemsMadeAt(step);
    if (reads.length) rows.push(["reads", make("span", {}, ...list(reads.map(toItem)))]);
    if (makes.length) rows.push(["makes", make("span", {}, ...list(makes.map(toItem)))]);
  }
  $("operands").replaceChildren(...(rows.length ? [factList(rows)] : []));
}

/* --- a tensor --- */

function itemPaths(i) {
  const rows = [];
  if (item.step[i] >= 0) rows.push(["made at", make("span", {}, toStep(item.step[i]))]);
  const steps = [...readersOf(i)];
  if (steps.length) rows.push(["read at", make("span", {}, ...list(steps.map(toStep)))]);
  else if (plan.use) rows.push(["read at", "no step"]);
  if (item.source[i] >= 0) rows.push(["from", make("span", {}, toItem(item.source[i]))]);
  const path = layers ? layers.paths[i] : [];
  if (path.length) rows.push(["layer", make("span", {}, ...list(path.map((name) =>
    leadTo(name, "Find this layer", () => {
      $("search").value = `layer:${name}`;
      runSearch();
    }))))]);
  return rows;
}

function select(i) {
  state.selected = i;
  $("details").hidden = i < 0;
  if (i >= 0) {
    const close = make("button", { type: "button", title: "Close (Esc)" }, "\u00d7");
    close.setAttribute("aria-label", "Close");
    close.addEventListener("click", () => select(-1));
    $("details").replaceChildren(make("header", {}, titled(i), close),
      factList([...itemFacts(i), ...itemPaths(i)]));
  }
  for (const row of $("rows").children)
    row.setAttribute("aria-selected", String(Number(row.dataset.item) === i));
  redraw(false);
  keepAddress();
  if (i >= 0) tellOther({ name: itemName(i) });
}

/* In small plans the side has room for help and for the largest items. */
function showGuide() {
  const most = Array.from({ length: item.count }, (_, i) => i).filter((i) => !(item.flags[i] & FLAG.alias))
    .sort((a, b) => item.bytes[b] - item.bytes[a] || a - b).slice(0, 10);
  $("largest").replaceChildren(...most.flatMap((i) =>
    [make("dt", {}, iec(cell(table.bytes, i))), make("dd", {}, toItem(i))]));
  $("guide").hidden = !item.count || holders.length > 20;
}

/* --- a range of steps --- */

/* Maximum and minimum of the curve in [from, to), and bytes times steps. */
function curveWithin(from, to) {
  let high = 0, low = Infinity, at = from, area = 0;
  for (let i = curveIndex(from); i < curve.count; i++) {
    const begin = Math.max(from, i < 0 ? from : curve.at[i]);
    const end = Math.min(to, i + 1 < curve.count ? curve.at[i + 1] : to);
    if (begin >= to) break;
    if (end <= begin) continue;
    const live = i < 0 ? 0 : curve.live[i];
    if (live > high) [high, at] = [live, begin];
    low = Math.min(low, live);
    area += live * (end - begin);
  }
  return { high, low: Number.isFinite(low) ? low : 0, at, mean: area / Math.max(1, to - from) };
}

function showRange(from, to) {
  state.range = [from, to];
  const inside = [];
  let born = 0n, began = 0, ended = 0;
  for (let i = 0; i < item.count; i++) {
    if (item.first[i] >= to || item.last[i] <= from) continue;
    inside.push({ body: item.body[i], item: i, bytes: BigInt(cell(table.bytes, i)) });
    if (item.first[i] >= from && !(item.flags[i] & FLAG.alias)) {
      born += BigInt(cell(table.bytes, i));
      began++;
    }
    if (item.last[i] <= to) ended++;
  }
  holders = inside;
  const { high, low, at, mean } = curveWithin(from, to), length = to - from;
  const took = clock ? `, ${clockText(clock.at[to] - clock.at[from])}` : "";
  const word = plan.step.count ? "steps" : "times";
  $("moment").textContent = `${word} ${instant(from)} to ${instant(to)} ` +
    `(${grouped(length)} ${length === 1 ? "step" : "steps"}${took})`;
  $("total").textContent = `${grouped(inside.length)} ${plan.item ? "tensors" : "buffers"} live in it`;
  $("operands").replaceChildren(factList([
    ["most live", `${bytesText(high)}, first at ${instant(at)}`], ["least live", bytesText(low)],
    ["on average", iec(Math.round(mean))],
    ["begin here", `${grouped(began)}, ${bytesText(String(born))}`], ["end here", grouped(ended)]]));
  showSums();
  showRows();
  redraw(false);
  keepAddress();
}
