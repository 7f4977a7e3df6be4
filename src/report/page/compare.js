"use strict";
/* compare.js - compares two plans: each is a page of its own in a frame. This page moves both,
   draws the curve of each below the other's, and shows the changes at the peak. */

const $ = (id) => document.getElementById(id);
const pages = JSON.parse($("pages").textContent);
const SIDES = ["old", "new"];
const grouped = (integer) => String(integer).replace(/\B(?=(\d{3})+$)/g, ",");
const signed = (change) => `${change < 0n ? "\u2212" : "+"}${grouped(change < 0n ? -change : change)}`;
const state = { together: true };

const loaded = SIDES.map((side) => new Promise((done) => {
  $(side).addEventListener("load", () => done($(side).contentWindow.tenure), { once: true });
  $(side).srcdoc = pages[side].page;
}));

/* Tensors that are live at either peak, with the bytes of both: [name, old, new]. */
function changesOf(holders) {
  const rows = new Map();
  holders.forEach((list, k) => list.forEach(({ name, bytes }) => {
    if (!rows.has(name)) rows.set(name, [name, 0n, 0n]);
    rows.get(name)[k + 1] += BigInt(bytes);
  }));
  const size = ([, before, after]) => (after > before ? after - before : before - after);
  return [...rows.values()].filter((row) => row[1] !== row[2])
    .sort((a, b) => (size(a) < size(b) ? 1 : size(a) > size(b) ? -1 : a[0] < b[0] ? -1 : 1));
}

function rowOf([name, before, after], sides) {
  const line = document.createElement("tr");
  const cellOf = (words, kind) => {
    const cell = document.createElement("td");
    cell.textContent = words;
    cell.className = kind;
    line.append(cell);
  };
  cellOf(name || "(no name)", "");
  cellOf(before ? grouped(before) : "", "amount");
  cellOf(after ? grouped(after) : "", "amount");
  cellOf(signed(after - before), `amount ${after > before ? "more" : "less"}`);
  line.addEventListener("click", () => sides.forEach((side) => side.choose(name)));
  return line;
}

function showPeaks([before, after], holders) {
  const [old, now] = [BigInt(before.peak), BigInt(after.peak)];
  const share = old > 0n ? ` (${now > old ? "+" : ""}${((Number(now) / Number(old) - 1) * 100).toFixed(2)} %)` : "";
  $("peaks").textContent = `${pages.old.name} ${grouped(old)} \u2192 ${pages.new.name} ` +
    `${grouped(now)} bytes, ${signed(now - old)}${share}`;
  const [was, is] = holders.map((list) => list.reduce((sum, { bytes }) => sum + BigInt(bytes), 0n));
  $("live").textContent = `${signed(is - was)} live at the peak, ${signed(now - old - (is - was))} alignment and holes`;
}

function pressed(id, on) {
  $(id).setAttribute("aria-pressed", String(on));
  return on;
}

Promise.all(loaded).then((sides) => {
  const holders = sides.map((side) => side.holders());
  showPeaks(sides.map((side) => side.about()), holders);
  $("rows").replaceChildren(...changesOf(holders).slice(0, 400).map((row) => rowOf(row, sides)));
  sides.forEach((side, k) => {
    side.compare(sides[1 - k].curve());
    side.listen((what) => {
      if (!state.together) return;
      if (what.name !== undefined) sides[1 - k].choose(what.name);
      else sides[1 - k].look(what);
    });
  });
});
$("together").addEventListener("click", () => { state.together = pressed("together", !state.together); });
$("stacked").addEventListener("click", () =>
  pressed("stacked", document.querySelector("main").classList.toggle("stacked")));
$("changes").addEventListener("click", () => {
  $("table").hidden = !$("table").hidden;
  pressed("changes", !$("table").hidden);
});
