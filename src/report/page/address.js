/* address.js - stores the view in the address bar, so that it can be kept and sent: visible range,
   colours, selected step and tensor, search. */

const address = { timer: 0, last: "" }; // last: the bar's text when it was last read or written

function addressNow() {
  const full = fullView(state.mode), words = new URLSearchParams();
  const share = (value, whole) => String(+(value / whole).toPrecision(9));
  if (axis.clock) words.set("axis", "time");
  if (state.mode) words.set("reuse", "no");
  if (way !== ways[0]) words.set("colours", way.key);
  if (["x0", "x1", "y0", "y1"].some((key) => view[key] !== full[key]))
    words.set("view", [share(view.x0, full.x1), share(view.x1, full.x1), share(view.y0, full.y1),
      share(view.y1, full.y1)].join(","));
  if (state.range) words.set("range", state.range.join("-"));
  else if (state.time !== peakTime) words.set("step", state.time);
  if (state.selected >= 0) words.set("chosen", state.selected);
  if (state.matched) words.set("find", $("search").value);
  return words.toString();
}

/* Writes the bar a little later, and only once, because that is slow. */
function keepAddress() {
  clearTimeout(address.timer);
  address.timer = setTimeout(() => {
    if (location.protocol === "about:") return; /* in a comparison the page around has the bar */
    /* a new address was entered: hashchange follows */
    if (location.hash.slice(1) !== address.last) return;
    const now = addressNow();
    history.replaceState(null, "", now ? `#${now}` : location.pathname + location.search);
    address.last = location.hash.slice(1);
  }, 200);
}

const whole = (words, most) => { // a number from 0 to most, or null
  const value = /^\d+$/.test(words || "") ? Number(words) : NaN;
  return value <= most ? value : null;
};

/* Goes to the view in the address; invalid parts are ignored. */
function goToAddress() {
  const given = location.hash.slice(1), words = new URLSearchParams(given);
  if (given === address.last) return;
  address.last = given;
  if (clock) setClock(words.get("axis") === "time");
  jumpToMode(words.get("reuse") === "no" ? 1 : 0);
  setWay(words.get("colours") || ways[0].key);
  $("search").value = words.get("find") || "";
  runSearch();
  const [from, to] = (words.get("range") || "").split("-").map((word) => whole(word, span));
  const step = whole(words.get("step"), Math.max(0, span - 1));
  if (to !== undefined && from !== null && to !== null && from < to) showRange(from, to);
  else showMoment(step === null ? peakTime : step);
  const chosen = whole(words.get("chosen"), item.count - 1);
  if (chosen !== null) select(chosen);
  const full = fullView(state.mode), shares = (words.get("view") || "").split(",").map(Number);
  const makes = shares.length === 4 && shares.every(Number.isFinite) && shares[0] < shares[1] && shares[2] < shares[3];
  setView(makes ? { x0: shares[0] * full.x1, x1: shares[1] * full.x1, y0: shares[2] * full.y1,
    y1: shares[3] * full.y1 } : full);
}
