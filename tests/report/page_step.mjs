/* page_step.mjs - tests of the page: a step of training, who reads what, layers, the time of a run. */

import assert from "node:assert/strict";

export const stepTests = ({ open, frames, planOf, view, near, liveIn }) => ({
  async "a training step is coloured by what tensors are for, and its phases are marked"() {
    const { page, trouble } = await open("step");
    const { tensors, steps } = planOf("step");
    const first = (name) => steps.findIndex(({ phase }) => phase === name);
    assert.ok(first("forward") === 0 && first("backward") > 0 && first("update") > first("backward"));
    const kept = tensors.filter(({ kind, first: from, last_excl: to }) =>
      kind === "activation" && from < first("backward") && to > first("backward"));
    assert.ok(kept.length > 5);
    assert.deepEqual(tensors.filter(({ role }) => role === "saved"), kept);
    for (const { kind, role } of tensors)
      if (kind !== "activation") assert.equal(role, kind);
    assert.equal(await page.getAttribute("#roles", "aria-pressed"), "true");
    const legend = await page.locator("#legend").innerText();
    for (const words of ["activation kept for backward", "gradient", "optimizer state", "parameter"])
      assert.ok(legend.includes(words), legend);
    const phases = await page.evaluate("plan.phases");
    for (const [step, name] of phases) {
      assert.equal(steps[step].phase, name);
      assert.ok(step === 0 || steps[step - 1].phase !== name);
    }
    const sums = await page.evaluate(() => holders.reduce((sums, row) => {
      const name = way.entries[groupOf(row.item)].name;
      return { ...sums, [name]: (sums[name] || 0) + Number(row.bytes) };
    }, {}));
    const told = await page.locator("#sums").innerText();
    for (const bytes of Object.values(sums))
      assert.ok(told.includes(await page.evaluate(`iec(${bytes})`)), `${bytes} in ${told}`);
    await page.keyboard.press("f");
    assert.equal(await page.getAttribute("#kinds", "aria-pressed"), "true");
    assert.deepEqual(trouble, []);
    await page.close();
  },

  async "one line stands where each phase begins, at its step, with its label"() {
    const { page, trouble } = await open("step");
    const { steps } = planOf("step"), names = [...new Set(steps.map(({ phase }) => phase))];
    const { width } = await page.locator("#map").boundingBox();
    const at = (name) => 84 + steps.findIndex(({ phase }) => phase === name) / steps.length * (width - 98);
    const drawn = await page.evaluate(() => {
      const lines = [], words = [];
      const g = { fillRect: (x, y, w, h) => w === 1 && h > 50 && lines.push(x), fillText: (text) => words.push(text),
        measureText: (text) => ({ width: 6 * text.length }) };
      drawPhases(g, scales(mapPane));
      return { lines: lines.sort((a, b) => a - b), words };
    });
    assert.equal(drawn.lines.length, names.length - 1);
    names.slice(1).map(at).sort((a, b) => a - b).forEach((x, k) => near(drawn.lines[k], x, 1));
    assert.deepEqual(drawn.words.sort(), names.sort());
    assert.deepEqual(trouble, []);
    await page.close();
  },

  async "steps that recompute are hatched in the band"() {
    const { page, trouble } = await open("fit");
    const { steps } = planOf("fit"), seen = new Set(), again = [];
    steps.forEach(({ opcode, op }, step) => {
      if (opcode !== "apply") return;
      if (seen.has(op)) again.push(step);
      seen.add(op);
    });
    assert.ok(again.length > 2);
    const told = await page.evaluate("plan.again.flatMap(([from, to]) => Array.from({ length: to - from }, (_, k) => from + k))");
    assert.deepEqual(told, again);
    assert.ok((await page.locator("#legend").innerText()).includes(`${again.length} recomputed steps`));
    assert.deepEqual(trouble, []);
    await page.close();
  },

  async "memory outside the arena stands under the curve, against the device"() {
    const { page, trouble } = await open("step");
    const { result } = planOf("step");
    const [beside, device] = await page.evaluate("[staticBytes, device.bytes]");
    assert.ok(beside > 0 && device === 2 * (beside + result.peak));
    const places = () => page.evaluate(() => {
      const s = scales(curvePane);
      return { zero: s.y(0), peak: s.y(peakBytes), high: s.y(ground() + peakBytes), top: curveTop() };
    });
    const under = await places();
    assert.ok(under.top >= device && under.high < under.peak);
    near((under.zero - under.peak) / (under.zero - under.high), result.peak / (result.peak + beside), 1e-6);
    await page.keyboard.press("m");
    await frames(page, 2);
    const alone = await places();
    assert.equal(alone.high, alone.peak);
    assert.equal(await page.getAttribute("#weights", "aria-pressed"), "false");
    assert.match(await page.locator("#numbers").innerText(), /a made-up device/);
    assert.deepEqual(trouble, []);
    await page.close();
  },

  async "a tensor leads to the step that made it and to its readers, and they to what they read"() {
    for (const name of ["model", "step"]) {
      const { page, trouble } = await open(name);
      const { tensors, steps } = planOf(name);
      const reads = await page.evaluate(() => Array.from({ length: item.count }, (_, i) => [...readersOf(i)]));
      let looked = 0;
      tensors.forEach((tensor, i) => { // in the plan: nobody lives longer than who reads it last
        const last = Math.max(-1, ...reads[i]);
        for (const step of reads[i]) assert.ok(step >= tensor.first && step < tensor.last_excl);
        if (tensor.share === "own" && last >= 0 && !tensors.some(({ source }) => source === tensor.name)) {
          assert.equal(tensor.last_excl, last + 1, `${tensor.name} lives until it is read last`);
          looked++;
        }
      });
      assert.ok(looked > 5, `${looked} tensors`);
      const at = tensors.findIndex((tensor, i) => tensor.op && reads[i].length > 0);
      await page.evaluate(`select(${at})`);
      const details = await page.locator("#details").innerText();
      for (const step of reads[at].slice(0, 12)) assert.match(details, new RegExp(`\\b${step} `));
      await page.locator("#details button.to").filter({ hasText: new RegExp(`^${reads[at][0]} `) }).first().click();
      await frames(page, 2);
      assert.match(await page.locator("#moment").innerText(), new RegExp(`step ${reads[at][0]}\\b`));
      const back = page.locator("#operands button.to").filter({ hasText: tensors[at].name.slice(-8) }).first();
      await back.click();
      await frames(page, 2);
      assert.ok(steps[reads[at][0]].op !== undefined);
      assert.equal((await page.locator("#details h2").innerText()).trim(), tensors[at].name);
      assert.deepEqual(trouble, []);
      await page.close();
    }
  },

  async "layer: finds all that is in a layer, and nothing else"() {
    const { page, trouble } = await open("model");
    const { tensors } = planOf("model");
    const layer = "features.3";
    const inside = tensors.filter(({ op, name }) => (op || name).split("/").includes(layer)).length;
    assert.ok(inside > 3 && inside < tensors.length / 2, `${inside} of ${tensors.length}`);
    await page.fill("#search", `layer:${layer}`);
    await frames(page, 2);
    assert.equal(await page.locator("#found").innerText(), `1 of ${inside}`);
    await page.click("#layers");
    await frames(page, 2);
    assert.ok((await page.locator("#legend button").count()) > 5);
    assert.ok((await page.locator("#known option").count()) > 10);
    assert.deepEqual(trouble, []);
    await page.close();
  },

  async "where a run was timed, milliseconds stand on the axis in place of steps"() {
    const { page, trouble } = await open("swap");
    const full = await view(page);
    await page.keyboard.press("t");
    await frames(page, 3);
    const timed = await view(page), link = await page.evaluate("links.find(({ name }) => name === 'measured')");
    near(timed.x1, link.reach[link.reach.length - 1] / 1e9, 1e-9);
    const at = await page.evaluate("[0, 5, 20].map((step) => onAxis(step))");
    assert.deepEqual(at, [0, 5, 20].map((step) => link.reach[step] / 1e9));
    const long = [...link.reach.keys()].filter((step) => link.reach[step + 1] > link.reach[step]);
    assert.ok(long.length > 20);
    assert.deepEqual(await page.evaluate((steps) =>
      steps.map((step) => stepAt((onAxis(step) + onAxis(step + 1)) / 2)), long), long);
    const box = await page.locator("#map").boundingBox();
    await page.mouse.move(box.x + 84 + (box.width - 98) / 2, box.y + 60);
    await frames(page, 2);
    const step = Number((await page.locator("#line").innerText()).match(/^step (\d+), [\d.]+ (ms|\u00b5s|s)/)[1]);
    const half = timed.x1 / 2;
    assert.ok(at !== null && link.reach[step] / 1e9 <= half && link.reach[step + 1] / 1e9 >= half);
    await page.keyboard.press("t");
    await frames(page, 3);
    assert.deepEqual(await view(page), full);
    assert.deepEqual(trouble, []);
    await page.close();
  },

  async "the holders of any step, by the plan's own rectangles"() {
    const { page } = await open("step");
    const { buffers, steps } = planOf("step");
    for (const part of [0.2, 0.5, 0.9]) {
      const step = Math.floor(steps.length * part);
      await page.evaluate(`showMoment(${step})`);
      const rows = await page.evaluate("holders.map(({ body, bytes }) => [body, Number(bytes)])");
      const expected = buffers.map((b) => [b.id, liveIn(b, step)]).filter(([, live]) => live > 0);
      assert.deepEqual(rows.sort((a, b) => a[0] - b[0]), expected);
    }
    await page.close();
  },
});
