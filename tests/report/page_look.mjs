/* page_look.mjs - tests of the page: holes, ranges, columns, axes, the address bar, help. */

import assert from "node:assert/strict";

export const lookTests = ({ open, frames, planOf, view, near, pixel, piecesOf, liveIn }) => ({
  async "what is free below the highest address in use is hatched, and nothing above it"() {
    const { page } = await open("small");
    const inked = async (time, address) => { // pixels around a point that are not the ground
      const [x, y] = await pixel(page, "small", time, address);
      return page.evaluate(([px, py]) => {
        const canvas = document.querySelector("#map canvas"), { x: left, y: top } = canvas.getBoundingClientRect();
        const { data } = canvas.getContext("2d").getImageData(px - left - 9, py - top - 9, 18, 18);
        let count = 0;
        for (let i = 0; i < data.length; i += 4) // the hatch is red; lines of the axes are grey
          count += data[i + 3] > 20 && data[i] > data[i + 1] + 25 ? 1 : 0;
        return count;
      }, [x, y]);
    };
    const hole = [2.4, 1500], above = [4.6, 3000];
    assert.ok(await inked(...hole) > 15);
    assert.equal(await inked(...above), 0);
    await page.keyboard.press("h");
    await frames(page, 2);
    assert.equal(await inked(...hole), 0);
    await page.close();
  },

  async "holes are told in bytes: the highest end in use less what lives"() {
    for (const name of ["small", "large", "step"]) {
      const { page } = await open(name);
      const { buffers } = planOf(name), last = Math.max(...buffers.map((b) => b.last_excl));
      for (const part of [0.1, 0.4, 0.7]) {
        const time = Math.floor(last * part);
        await page.evaluate(`showMoment(${time})`);
        const ends = buffers.flatMap((b) => piecesOf(b)
          .filter(([first, end]) => first <= time && time < end).map(([, , , hi]) => b.offset + hi));
        const live = buffers.reduce((sum, b) => sum + liveIn(b, time), 0);
        const holes = Math.max(0, ...ends) - live;
        assert.ok((await page.locator("#total").innerText()).includes(
          `${await page.evaluate(`bytesText(${holes})`)} of holes`), `${name} at ${time}: ${holes}`);
      }
      await page.close();
    }
  },

  async "words on levels and marks overlap no other words, and each phase label is at its line"() {
    for (const [name, width] of [["oom", 500], ["oom", 1400], ["step", 500], ["fit", 500], ["fit", 1400]]) {
      const { page, trouble } = await open(name, { viewport: { width, height: 900 } });
      const { boxes, labels, lines } = await page.evaluate(() => {
        const boxes = [], labels = [], { drawWords: draw } = window, g = mapPane.base.getContext("2d"), { fillText } = g;
        window.drawWords = (pen, x, y, words, fill) => {
          boxes.push([x, y, x + pen.measureText(words).width + 10, y + 15, words]);
          draw(pen, x, y, words, fill);
        };
        drawMapLevels(g, scales(mapPane));
        window.drawWords = draw;
        g.fillText = (words, x) => { labels.push([words, x, x + g.measureText(words).width]); };
        drawBorders(g, scales(mapPane));
        delete g.fillText;
        return { boxes, labels, lines: (plan.phases || []).map(([step, phase]) => [phase, scales(mapPane).x(onAxis(step))]) };
      });
      boxes.forEach(([left, top, right, bottom, words], i) => boxes.slice(0, i).forEach(([l, t, r, b, other]) =>
        assert.ok(left >= r || right <= l || top >= b || bottom <= t, `${name} at ${width}: "${words}" covers "${other}"`)));
      const mixed = lines.filter(([phase]) => phase === "update").length > 1;
      const expected = new Set(lines.map(([phase]) => phase).filter((phase) => !mixed || phase !== "update"));
      assert.ok(labels.length === expected.size || width === 500, `${name}: ${labels}`);
      for (const [words, from, to] of labels) {
        const phase = words.split(" ")[0], [, line] = lines.find(([one]) => one === phase);
        assert.equal(words.includes("update"), mixed ? phase === "backward" : phase === "update");
        if (words.endsWith("\u2192")) assert.ok(to <= line, words);
        else near(from, Math.max(line, 84) + 4, 1.5);
      }
      assert.deepEqual(trouble, []);
      await page.close();
    }
  },

  async "on a phone each of two plans has a window's height"() {
    const { page, trouble } = await open("both", { viewport: { width: 500, height: 900 } });
    for (const side of ["#old", "#new"]) assert.ok((await page.locator(side).boundingBox()).height > 550);
    assert.ok(await page.evaluate("document.documentElement.scrollWidth <= innerWidth"));
    assert.deepEqual(trouble, []);
    await page.close();
  },

  async "both axes have titles, the legend tells what shades and sums are, and nothing overflows at 500 pixels"() {
    for (const name of ["small", "model", "step", "fit", "large"]) {
      const { page, trouble } = await open(name, { viewport: { width: 500, height: 900 } });
      const words = await page.evaluate(() => {
        const seen = [], g = mapPane.base.getContext("2d"), { fillText } = g;
        g.fillText = (text, ...at) => { seen.push(text); fillText.call(g, text, ...at); };
        drawMapDirect(g, mapPane);
        delete g.fillText;
        return seen;
      });
      assert.ok(words.includes(planOf(name).steps ? "time (steps)" : "time"), name);
      assert.ok(words.includes("address (offset in bytes)"), name);
      assert.match(await page.locator("#legend").innerText(), /sums over time; shades only separate neighbours/);
      const beyond = await page.evaluate(() => [document.documentElement, document.getElementById("legend")]
        .map((box) => box.scrollWidth - box.clientWidth));
      assert.ok(beyond.every((pixels) => pixels <= 0), `${name}: ${beyond}`);
      for (const box of await page.locator("#legend > *, #search, #next").all()) {
        const { x, width } = await box.boundingBox();
        assert.ok(x >= 0 && x + width <= 500, `${name}: ${x} + ${width}`);
      }
      assert.deepEqual(trouble, []);
      await page.close();
    }
  },

  async "where memory ran out is marked at the event, with the bytes that were asked for"() {
    const { page, trouble } = await open("oom");
    const [x5] = await pixel(page, "oom", 5, 0), [x8] = await pixel(page, "oom", 8, 0);
    const left = (await page.locator("#map").boundingBox()).x;
    const drawn = await page.evaluate(() => {
      const lines = [], g = { fillRect: (x, y, w, h) => w === 2 && h > 50 && lines.push(x + 1), fillText() {},
        measureText: (text) => ({ width: 6 * text.length }) };
      const words = [];
      g.fillText = (text) => words.push(text);
      drawOoms(g, scales(mapPane), true);
      return { lines, words };
    });
    assert.equal(drawn.lines.length, 2);
    near(drawn.lines[0], x5 - left, 1);
    near(drawn.lines[1], x8 - left, 1);
    assert.equal(drawn.words[0], "out of memory: 2.0 KiB asked for");
    const numbers = await page.locator("#numbers").innerText();
    for (const words of ["4,000 bytes", "5,120 bytes", "2.0 KiB", "6.0 KiB", "1.0 KiB were free", "at event 5"])
      assert.ok(numbers.includes(words), `${words}: ${numbers}`);
    assert.deepEqual(trouble, []);
    await page.close();
  },

  async "a small plan tells how to read the picture, and names the ten largest"() {
    const { page, trouble } = await open("small");
    assert.equal(await page.locator("#guide").isVisible(), true);
    const largest = planOf("small").buffers.map(({ name, size }, id) => ({ name, size, id }))
      .sort((a, b) => b.size - a.size || a.id - b.id).slice(0, 10).map(({ name }) => name);
    assert.deepEqual(await page.locator("#largest button").evaluateAll((all) => all.map(({ title }) => title)), largest);
    assert.deepEqual(trouble, []);
    await page.close();
    const { page: large } = await open("large");
    assert.equal(await large.locator("#guide").isVisible(), false);
    await large.close();
  },

  async "a range of steps is chosen with Shift, and told in sums"() {
    const { page, trouble } = await open("large");
    const { buffers } = planOf("large"), box = await page.locator("#curve").boundingBox();
    const at = (share) => [box.x + 84 + share * (box.width - 98), box.y + 60];
    await page.keyboard.down("Shift");
    await page.mouse.move(...at(0.3));
    await page.mouse.down();
    await page.mouse.move(...at(0.32), { steps: 4 });
    await page.mouse.up();
    await page.keyboard.up("Shift");
    await frames(page, 2);
    const [from, to] = await page.evaluate("state.range");
    assert.ok(to - from > 100 && to - from < 1000, `${from} to ${to}`);
    const inside = buffers.filter((b) => b.size > 0 && b.first < to && b.last_excl > from);
    assert.match(await page.locator("#total").innerText(), new RegExp(`^${inside.length.toLocaleString("en-US")} `));
    const words = await page.locator("#operands").innerText();
    const born = inside.filter((b) => b.first >= from);
    const grouped = (n) => n.toLocaleString("en-US");
    assert.ok(words.includes(grouped(born.length)), words);
    assert.ok(words.includes(`${grouped(born.reduce((sum, b) => sum + b.size, 0))} bytes`), words);
    let most = 0;
    for (let t = from; t < to; t++)
      most = Math.max(most, inside.reduce((sum, b) => sum + liveIn(b, t), 0));
    assert.ok(words.includes(`${grouped(most)} bytes`), `${most}: ${words}`);
    await page.keyboard.press("Escape");
    assert.equal(await page.evaluate("state.range"), null);
    assert.deepEqual(trouble, []);
    await page.close();
  },

  async "no number of the table is cut, however narrow the page"() {
    for (const [name, width] of [["model", 1440], ["step", 1024], ["large", 1100], ["model", 390], ["huge", 800]]) {
      const { page } = await open(name, { viewport: { width, height: 800 } });
      const cut = await page.locator("#rows td:not(:first-child):not(.op)").evaluateAll((cells) =>
        cells.filter((cell) => cell.scrollWidth > cell.clientWidth + 1).map((cell) => cell.textContent));
      assert.deepEqual(cut, [], `${name} at ${width}`);
      const wide = await page.evaluate("document.documentElement.scrollWidth - innerWidth");
      assert.ok(wide <= 0, `${name} at ${width}: ${wide} pixels beyond the window`);
      await page.close();
    }
  },

  async "an axis of bytes has one unit"() {
    const { page } = await open("model");
    const units = () => page.evaluate(() => {
      const seen = [], g = { fillRect() {}, fillText: (words) => seen.push(words) };
      drawByteAxis(g, scales(mapPane), mapRanges());
      return seen;
    });
    for (const share of [1, 0.4, 0.11, 0.02, 0.003]) {
      await page.evaluate(`setView({ ...fullView(0), y0: topOf(0) * 0.3, y1: topOf(0) * (0.3 + ${share}) })`);
      const labels = await units();
      assert.ok(labels.length >= 2, `${labels}`);
      assert.equal(new Set(labels.map((label) => label.split(" ")[1])).size, 1, `${labels}`);
      assert.equal(new Set(labels).size, labels.length, `each is another: ${labels}`);
    }
    await page.close();
  },

  async "the view is in the address bar, and comes back from it"() {
    const { page, trouble } = await open("model");
    await page.fill("#search", "conv");
    await page.evaluate("select(7)");
    await page.click("#in");
    await page.click("#without");
    await page.click("#layers");
    await page.evaluate("showMoment(11)");
    await page.evaluate("setView({ x0: span * 0.25, x1: span * 0.5 })");
    await page.evaluate(() => new Promise((done) => { // the bar follows a little later
      const look = () => location.hash.slice(1) === addressNow() ? done() : setTimeout(look, 20);
      look();
    }));
    const url = page.url(), seen = await view(page);
    assert.match(url, /#.*view=.*step=11/);
    const again = await page.context().browser().newPage();
    await again.goto(url);
    await frames(again, 3);
    const back = await again.evaluate("({ view: { ...view }, mode: state.mode, way: way.key, time: state.time, selected: state.selected, found: search.list.length })");
    for (const key of ["x0", "x1", "y0", "y1"]) near(back.view[key], seen[key], 1e-6 * Math.abs(seen.y1));
    const { found } = back;
    assert.deepEqual({ ...back, view: 0, found: 0 }, { view: 0, mode: 1, way: "layer", time: 11, selected: 7, found: 0 });
    assert.equal(found, await page.evaluate("search.list.length"));
    for (const bad of ["#view=1,2", "#view=a,b,c,d", "#step=99999999", "#chosen=-4&range=9-3", "#colours=none&find="]) {
      await again.evaluate((hash) => new Promise((done) => { // its events come when they come
        window.addEventListener("hashchange", done, { once: true });
        location.hash = hash;
      }), bad);
      await frames(again, 3);
      assert.deepEqual(await again.evaluate("({ ...view })"), await again.evaluate("fullView(0)"), bad);
    }
    await again.close();
    assert.deepEqual(trouble, []);
    await page.close();
  },

  async "? tells every key that does something, and Escape ends it"() {
    const { page, trouble } = await open("step");
    await page.keyboard.press("?");
    assert.equal(await page.locator("#help").isVisible(), true);
    const keys = await page.locator("#keys").innerText();
    for (const key of ["P", "W", "F", "H", "M", "Esc", "Shift and drag"]) assert.ok(keys.includes(key), key);
    await page.keyboard.press("Escape");
    assert.equal(await page.locator("#help").isVisible(), false);
    assert.deepEqual(trouble, []);
    await page.close();
  },

  async "many rectangles are painted over several frames, and are all there in the end"() {
    const { page } = await open("large");
    await page.evaluate("state.holes = true, setView({ x0: span * 0.1, x1: span * 0.7, y0: 0, y1: topOf(0) * 0.8 })");
    await frames(page, 3);
    const direct = await page.evaluate(() => {
      const { base } = mapPane, { left, top, width, height } = scales(mapPane);
      return [...base.getContext("2d").getImageData(left + 2, top + 2, width - 4, height - 4).data];
    });
    const sliced = await page.evaluate(async () => { // the same, slice by slice
      const g = mapPane.base.getContext("2d");
      slices.stale = true;
      let turns = 0;
      while (!drawMapSlice(g, mapPane) && turns < 500) turns++;
      const { left, top, width, height } = scales(mapPane);
      return [...g.getImageData(left + 2, top + 2, width - 4, height - 4).data];
    });
    let differ = 0;
    for (let i = 0; i < direct.length; i++) differ += Math.abs(direct[i] - sliced[i]) > 24 ? 1 : 0;
    assert.ok(differ < direct.length / 200, `${differ} of ${direct.length} values differ`);
    assert.ok(new Set(direct).size > 20, "something is drawn");
    await page.close();
  },

  async "two plans beside each other move together, and what changed at the peak adds up"() {
    const { page, trouble } = await open("both", { viewport: { width: 1600, height: 900 } });
    await page.waitForFunction(() => document.querySelectorAll("#rows tr").length > 0);
    const frame = async (id) => (await page.locator(`#${id}`).elementHandle()).contentFrame();
    const sides = [await frame("old"), await frame("new")];
    const plan = planOf("both"); // of the new one
    assert.equal(await sides[1].evaluate("plan.peak"), plan.result.peak);
    const sums = await Promise.all(sides.map((side) => side.evaluate("holdersAt(peakTime).reduce((sum, { bytes }) => sum + Number(bytes), 0)")));
    const rows = await page.locator("#rows tr").evaluateAll((lines) => lines.map((line) =>
      [...line.cells].slice(1).map((cell) => Number(cell.textContent.replaceAll(",", "").replace("\u2212", "-")))));
    for (const [before, after, change] of rows) assert.equal(after - before, change);
    assert.equal(rows.reduce((sum, [, , change]) => sum + change, 0), sums[1] - sums[0]);
    await sides[0].evaluate("setView({ x0: span * 0.25, x1: span * 0.75 })");
    await frames(page, 3);
    const seen = await sides[1].evaluate("[view.x0 / span, view.x1 / span]");
    near(seen[0], 0.25, 1e-9);
    near(seen[1], 0.75, 1e-9);
    const tops = await Promise.all(sides.map((side) => side.evaluate("[fullView(0).y1, curveTop()]")));
    near(tops[0][0], tops[1][0], 1e-6 * tops[1][0]); // one scale for both
    assert.ok(tops[0][0] >= plan.result.peak * 1.06);
    const name = await sides[0].evaluate("itemName(item.count - 3)");
    await sides[0].evaluate("select(item.count - 3)");
    assert.equal(await sides[1].evaluate("itemName(state.selected)"), name);
    await page.click("#together");
    await sides[0].evaluate("setView({ x0: span * 0.25, x1: span * 0.75 })");
    const before = await sides[1].evaluate("({ ...view })");
    await sides[0].evaluate("setView(fullView(0))");
    assert.deepEqual(await sides[1].evaluate("({ ...view })"), before);
    assert.equal(await sides[0].evaluate("other.most"), await sides[1].evaluate("curve.live.reduce((a, b) => Math.max(a, b))"));
    await page.screenshot({ path: new URL("both.png", page.url()).pathname });
    assert.deepEqual(trouble.filter((line) => !line.startsWith("about:srcdoc")), []);
    await page.close();
  },
});
