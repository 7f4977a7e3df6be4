/* page_ranks.mjs - tests of the page of several ranks: what is seen against its JSON. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";

const LEFT = 172, RIGHT = 14; // margins of the drawing

/* Where a span is drawn: the lanes of all runs, from above. */
function placed(data) {
  const places = [];
  let y = 24;
  for (const rank of data.ranks) {
    y += 20;
    for (const kind of ["predicted", "measured"]) {
      const run = rank[kind];
      if (!run) continue;
      const lanes = [...new Set(run.lane.map((lane, i) => lane * 64 + run.stream[i]))].sort((a, b) => a - b);
      run.start_ns.forEach((start, i) => places.push({ rank, kind, run, i,
        y: y + lanes.indexOf(run.lane[i] * 64 + run.stream[i]) * 15 + 6 }));
      y += lanes.length * 15 + 48;
    }
  }
  return { places, height: y };
}
const lengthOf = (data) => Math.max(...data.ranks.flatMap((rank) => ["predicted", "measured"].flatMap((kind) =>
  rank[kind].start_ns.map((start, i) => start + rank[kind].duration_ns[i]))));

export const ranksTests = ({ open, frames, planOf, near }) => ({
  async "ranks: what a pointer finds is what the trace told there"() {
    const { page, trouble } = await open("ranks", { viewport: { width: 1280, height: 900 } });
    const data = planOf("ranks"), { places, height } = placed(data), longest = lengthOf(data);
    const box = await page.locator("canvas").boundingBox();
    near(box.height, height, 1);
    const large = places.filter(({ run, i }) => run.duration_ns[i] > longest / 150);
    const kinds = new Set(large.map(({ run, i }) => run.lane[i]));
    assert.ok(kinds.has(0) && kinds.has(1), "both computing and talking can be seen");
    for (let k = 0; k < large.length; k += Math.ceil(large.length / 25)) {
      const { rank, kind, run, i, y } = large[k];
      const middle = run.start_ns[i] + run.duration_ns[i] / 2;
      await page.mouse.move(box.x + LEFT + middle / longest * (box.width - LEFT - RIGHT), box.y + y);
      await frames(page, 1);
      const tip = await page.locator("#tip").innerText();
      assert.ok(tip.includes(run.name[i]) && tip.includes(run.type[i]) &&
        tip.includes(`rank ${rank.rank}, ${kind}`), `${tip} at ${run.name[i]}`);
    }
    assert.deepEqual(trouble, []);
    await page.close();
  },

  async "ranks: something of its colour is drawn in every lane, also when zoomed in"() {
    const { page, trouble } = await open("ranks", { viewport: { width: 1280, height: 900 } });
    const data = planOf("ranks"), { places } = placed(data), longest = lengthOf(data);
    const inked = (rows) => page.evaluate((list) => { // pixels of each row that have a colour: the grid is grey
      const canvas = document.querySelector("canvas"), scale = window.devicePixelRatio || 1;
      const { data, width: wide } = canvas.getContext("2d").getImageData(172 * scale, 0, canvas.width - 186 * scale, canvas.height);
      return list.map((y) => {
        const row = data.subarray(4 * wide * Math.round(y * scale), 4 * wide * (Math.round(y * scale) + 1));
        let count = 0;
        for (let i = 0; i < row.length; i += 4)
          count += row[i + 3] > 0 && Math.max(row[i], row[i + 1], row[i + 2]) - Math.min(row[i], row[i + 1], row[i + 2]) > 60 ? 1 : 0;
        return count;
      });
    }, rows);
    const rows = [...new Set(places.filter(({ run, i }) => run.lane[i] < 2).map(({ y }) => y))]; // copies are grey
    assert.ok((await inked(rows)).every((count) => count > 0), `${await inked(rows)}`);
    for (let k = 0; k < 3; k++) await page.keyboard.press("+");
    const seen = await page.evaluate("({ ...view })");
    near(seen.to - seen.from, longest / 8, 1);
    const near_by = places.filter((one) => one.run.lane[one.i] < 2 && one.run.start_ns[one.i] < seen.to &&
        one.run.start_ns[one.i] + one.run.duration_ns[one.i] > seen.from).slice(0, 20);
    assert.ok((await inked(near_by.map(({ y }) => y))).every((count) => count > 0));
    await page.keyboard.press("0");
    assert.deepEqual(await page.evaluate("({ ...view })"), { from: 0, to: longest });
    assert.deepEqual(trouble.filter((line) => !line.includes("willReadFrequently")), []);
    await page.close();
  },

  async "ranks: the table tells the sums, and nothing is wider than the window"() {
    for (const width of [1280, 700, 390]) {
      const { page, trouble } = await open("ranks", { viewport: { width, height: 800 } });
      const data = planOf("ranks");
      const rows = await page.locator("#rows tr").evaluateAll((lines) => lines.map((line) => [...line.cells].map((cell) => cell.textContent)));
      assert.equal(rows.length, 2 * data.ranks.length);
      rows.forEach((row, k) => {
        const rank = data.ranks[k >> 1], run = rank[k % 2 ? "measured" : "predicted"];
        assert.ok(row[0].includes(rank.label));
        const busy = run.lane.reduce((sum, lane, i) => sum + (lane === 0 ? run.duration_ns[i] : 0), 0);
        near(Number(row[3].split(" ")[0]), busy / 1e6, 0.01); // one stream computes
        const all = data.ranks.map((one) => one[k % 2 ? "measured" : "predicted"]);
        const from = Math.min(...all.flatMap((one) => one.start_ns));
        const to = Math.max(...all.flatMap((one) => one.start_ns.map((at, i) => at + one.duration_ns[i])));
        near(Number(row[4].split(" ")[0]), (1 - busy / (to - from)) * 100, 0.6);
        assert.equal(Number(row[7]), run.lane.filter((lane) => lane === 1).length);
        assert.equal(Number(row[9].replaceAll(",", "")), Math.max(...run.live));
      });
      assert.ok(await page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, `${width}`);
      assert.deepEqual(trouble, []);
      await page.close();
    }
  },

  async "ranks: the picture for papers has each rank, and opens"() {
    const { page, trouble } = await open("ranks");
    const file = page.url().replace(/html$/, "svg"), text = readFileSync(new URL(file), "utf8");
    const sheet = await page.context().browser().newPage({ viewport: { width: 1000, height: 700 } });
    await sheet.goto(file);
    for (const rank of planOf("ranks").ranks) assert.ok(text.includes(`rank ${rank.rank}: ${rank.label}`));
    const outside = await sheet.evaluate(() => {
      const { width, height } = document.documentElement.viewBox.baseVal;
      return [...document.querySelectorAll("rect, path, text")].filter((node) => {
        const box = node.getBBox();
        return box.x < -0.5 || box.y < -0.5 || box.x + box.width > width + 0.5 || box.y + box.height > height + 0.5;
      }).map((node) => node.outerHTML.slice(0, 120));
    });
    assert.deepEqual(outside, []);
    await sheet.screenshot({ path: new URL(file.replace(/svg$/, "picture.png")).pathname });
    await sheet.close();
    assert.deepEqual(trouble, []);
    await page.close();
  },
});
