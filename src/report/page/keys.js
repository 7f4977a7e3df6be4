/* keys.js - keyboard commands, their help, and the functions that a page around this one may
   call. */

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
    if (state.range) showMoment(state.time);
    if ($("search").value) {
      $("search").value = "";
      runSearch();
    }
  }
  if (event.target.matches("input") || event.ctrlKey || event.metaKey || event.altKey) return;
  const action = { w: () => setMode(1 - state.mode), f: ways.length > 1 && nextWay,
    n: hasLink && nextWait, t: clock && (() => setClock(!axis.clock)), h: () => toggle("holes"),
    m: staticBytes > 0 && (() => toggle("weights")), "?": () => $("help").showModal(),
    "/": () => $("search").focus() }[event.key];
  if (!action) return;
  event.preventDefault();
  action();
}

/* --- help --- */

const KEYS = [["?", "this help"], ["/", "find a name or an operator; layer: finds a layer"],
  ["Enter, Shift+Enter", "next match, the one before"], ["arrows, with Shift further", "move the map"],
  ["+ and \u2212, with Shift in time only", "zoom; the wheel does, too"], ["0, Home, double click", "show everything"],
  ["P", "go to the peak"], ["W", "with or without reuse"], ["F", "next way to colour", () => ways.length > 1],
  ["H", "shade holes or not"], ["M", "weights under the curve or not", () => staticBytes > 0],
  ["T", "steps or time across", () => clock !== null], ["N", "next place where computing waits for a copy", () => hasLink],
  ["Shift and drag", "choose a range of steps and see its sums"], ["click on the curve", "list the tensors in memory at that step"],
  ["Esc", "choose nothing"]];

function showKeys() {
  $("keys").replaceChildren(...KEYS.filter(([, , has]) => !has || has()).flatMap(([key, does]) =>
    [make("dt", {}, key), make("dd", {}, does)]));
}

/* --- functions for the page around, in a comparison --- */

/* called with {x0, x1}, the view as shares of the whole, or with {name}, the selection */
let toldOther = null;
function tellOther(what) {
  if (!toldOther) return;
  const all = fullView(0).x1;
  toldOther(what || { x0: view.x0 / all, x1: view.x1 / all });
}
/* Applies a change from the other plan without reporting it back. */
function quietly(act) {
  const told = toldOther;
  toldOther = null;
  act();
  toldOther = told;
}
window.tenure = {
  listen(call) { toldOther = call; },
  look({ x0, x1 }) {
    const all = fullView(0).x1;
    quietly(() => setView({ x0: x0 * all, x1: x1 * all }));
  },
  choose(name) { // by name; without such an item nothing is selected
    const t = plan.text.indexOf(name);
    let i = 0;
    while (i < item.count && cell(table.name, i) !== t) i++;
    quietly(() => {
      select(i < item.count && t >= 0 ? i : -1);
      if (state.selected >= 0) reveal(i);
    });
  },
  about: () => ({ peak: plan.peak, bound: plan.bound, planner: plan.planner }),
  holders: () => (curve.count ? holdersAt(peakTime) : [])
    .map((row) => ({ name: itemName(row.item), bytes: row.bytes })),
  curve() {
    const all = Math.max(span, 1);
    return { at: Array.from(curve.at, (at) => at / all), live: [...curve.live],
      most: curve.live.reduce((a, b) => Math.max(a, b), 0), peak: peakBytes };
  },
  compare(given) {
    other = given;
    quietly(() => setView(fullView(state.mode))); // both have one scale
    redraw();
  },
};
