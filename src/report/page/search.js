/* search.js - finds items by name, by operator, or by layer with the prefix layer:. */

const search = { list: [], at: -1, timer: 0 };

/* Which strings of the plan contain the words; every string is examined once. */
function stringsWith(words) {
  const found = new Uint8Array(plan.text.length);
  for (let t = 0; t < found.length; t++)
    found[t] = plan.text[t].toLowerCase().includes(words) ? 1 : 0;
  return found;
}

function runSearch() {
  const words = $("search").value.trim().toLowerCase();
  const layer = words.startsWith("layer:") ? words.slice(6).trim() : null;
  search.list = [];
  search.at = -1;
  state.matched = words && layer !== "" ? new Uint8Array(item.count) : null;
  const found = words && layer === null ? stringsWith(words) : null;
  const inside = (i) => layers !== null && layers.paths[i].some((name) => name.toLowerCase() === layer);
  const named = (i) => found[cell(table.name, i)] === 1 ||
    (item.step[i] >= 0 && (found[cell(plan.step.name, item.step[i])] === 1 ||
      stepText(item.step[i]).toLowerCase().includes(words)));
  for (let i = 0; state.matched && i < item.count; i++) {
    if (!(layer === null ? named(i) : inside(i))) continue;
    state.matched[i] = 1;
    search.list.push(i);
  }
  if (search.list.length) stepSearch(1);
  else showFound();
  redraw();
  keepAddress();
}
/* While the user types: searches at once, or in large plans when the user pauses. */
function typeSearch() {
  clearTimeout(search.timer);
  if (item.count < 100000) runSearch();
  else search.timer = setTimeout(runSearch, 160);
}
function stepSearch(direction) {
  const count = search.list.length;
  if (!count) return;
  search.at = search.at < 0 && direction < 0 ? count - 1 : (search.at + direction + count) % count;
  select(search.list[search.at]);
  reveal(search.list[search.at]);
  showFound();
}
/* Shows how many items were found, and their total. */
function showFound() {
  const count = search.list.length;
  const bytes = () => search.list.reduce((sum, i) =>
    sum + (item.flags[i] & FLAG.alias ? 0n : BigInt(cell(table.bytes, i))), 0n);
  $("found").textContent = !state.matched ? ""
    : count ? `${grouped(search.at + 1)} of ${grouped(count)}` : "none found";
  $("found").title = count ? `${bytesText(bytes())} together` : "";
}

/* Layers are suggested while the user types. */
function showLayers() {
  const names = new Set();
  for (const path of layers ? layers.paths : []) for (const name of path) names.add(name);
  $("known").replaceChildren(...[...names].slice(0, 400).map((name) =>
    make("option", { value: `layer:${name}` })));
}
