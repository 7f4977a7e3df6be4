/* page.test.mjs - the page of a plan, opened in Chromium from a file, without a network.

     node page.test.mjs MAKE_PAGES FOLDER MODEL TRAINED

   Positions and holders are computed here from the plan's JSON, not asked of the page. Screenshots
   of both colour schemes stay in FOLDER for people to look at. */

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, statSync } from "node:fs";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { lookTests } from "./page_look.mjs";
import { ranksTests } from "./page_ranks.mjs";
import { stepTests } from "./page_step.mjs";

const PLAYWRIGHT = "playwright-core@1.64.1";
const CHROMIUM = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
const [maker, folder, model, trained] = process.argv.slice(2).map((path) => resolve(path));

function skip(reason) {
  console.log(`SKIP: ${reason}`);
  process.exit(77);
}

function loadPlaywright() {
  const require = createRequire(join(folder, "here.js"));
  try {
    return require("playwright-core");
  } catch {
    try {
      const options = ["--no-save", "--no-package-lock", "--prefix", folder];
      execFileSync("npm", ["install", ...options, PLAYWRIGHT], { stdio: "pipe", timeout: 1200000 });
    } catch (error) {
      skip(`npm cannot install ${PLAYWRIGHT}: ${String(error.message).split("\n")[0]}`);
    }
    return require("playwright-core");
  }
}

mkdirSync(folder, { recursive: true });
const executablePath = CHROMIUM.find(existsSync) ?? skip("Chromium is not installed");
const { chromium } = loadPlaywright();
execFileSync(maker, [folder, model, trained]);
const browser = await chromium.launch({
  executablePath,
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync"],
});

/* --- tools --- */

const plans = new Map();
function planOf(name) {
  if (!plans.has(name)) plans.set(name, JSON.parse(readFileSync(join(folder, `${name}.json`))));
  return plans.get(name);
}

/* An opened page, with everything that it complains about or asks the network for. */
async function open(name, { colorScheme = "light", ...rest } = {}) {
  const page = await browser.newPage({ viewport: { width: 1440, height: 860 }, colorScheme,
    reducedMotion: "reduce", ...rest });
  const trouble = [];
  page.on("console", (message) => trouble.push(`${message.type()}: ${message.text()}`));
  page.on("pageerror", (error) => trouble.push(`error: ${error.stack}`));
  const file = pathToFileURL(join(folder, `${name}.html`)).href;
  page.on("request", (request) => {
    if (request.url() !== file && !request.url().startsWith("data:")) trouble.push(request.url());
  });
  await page.goto(file);
  await frames(page, 3);
  return { page, trouble };
}
const frames = (page, count) => page.evaluate(async (n) => {
  for (; n > 0; n--) await new Promise((done) => requestAnimationFrame(done));
}, count);

/* The pixel of a time and an address when all is shown: the margins are those of the drawing. */
async function pixel(page, name, time, address) {
  const box = await page.locator("#map").boundingBox();
  const { buffers, result, steps } = planOf(name);
  const first = steps ? 0 : Math.min(...buffers.map((b) => b.first));
  const last = steps ? steps.length : Math.max(...buffers.map((b) => b.last_excl));
  const width = box.width - 84 - 14, height = box.height - 12 - 24;
  return [box.x + 84 + (time - first) / (last - first) * width,
    box.y + 12 + height - address / (result.peak * 1.06) * height];
}
async function hover(page, name, time, address) {
  await page.mouse.move(...await pixel(page, name, time, address));
  await frames(page, 2);
  return (await page.locator("#tip").isVisible()) ? page.locator("#tip").innerText() : "";
}
const view = (page) => page.evaluate("({ ...view })");
const near = (a, b, tolerance) => assert.ok(Math.abs(a - b) <= tolerance, `${a} is not ${b}`);

/* Live bytes and holders by counting over the plan's JSON. */
function piecesOf(buffer) {
  return buffer.pieces ?? (buffer.size ? [[buffer.first, buffer.last_excl, 0, buffer.size]] : []);
}
function liveIn(buffer, time) {
  return piecesOf(buffer).reduce((sum, [first, last, lo, hi]) =>
    sum + (first <= time && time < last ? hi - lo : 0), 0);
}
function peakOf(plan) {
  const events = plan.buffers.flatMap((buffer) => piecesOf(buffer).flatMap(
    ([first, last, lo, hi]) => [[first, hi - lo], [last, lo - hi]]));
  events.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  let live = 0, most = -1, at = 0;
  events.forEach(([time, bytes], i) => {
    live += bytes;
    const complete = i + 1 === events.length || events[i + 1][0] > time;
    if (complete && live > most) [most, at] = [live, time];
  });
  return { at, bytes: most };
}

/* --- tests --- */

const tests = {
  async "hovering a rectangle tells its name, bytes, life and address"() {
    const { page, trouble } = await open("small");
    const alpha = await hover(page, "small", 2, 500);
    assert.match(alpha, /alpha/);
    assert.match(alpha, /1\.0 KiB \(1,024 bytes\)/);
    assert.match(alpha, /0 to 4 \(4 steps\)/);
    assert.match(alpha, /0 to 1,024/);
    assert.match(await hover(page, "small", 7, 1000), /beta/);
    assert.match(await hover(page, "small", 5, 2200), /<\/script><b>gamma/);
    assert.match(await hover(page, "small", 1, 2560 + 100), /two pieces/);
    assert.match(await hover(page, "small", 8, 2560 + 500), /two pieces/);
    assert.equal(await hover(page, "small", 4.5, 2560 + 300), ""); // between its pieces
    assert.equal(await hover(page, "small", 2.5, 1500), "");
    assert.match(await page.locator("#line").innerText(), /time 2: 1\.8 KiB \(1,792 bytes\) live/);
    assert.deepEqual(trouble, []);
    await page.close();
  },

  async "what is drawn has the colour of its kind, and nothing else is"() {
    const { page } = await open("small");
    const colourAt = async (time, address) => {
      const [x, y] = await pixel(page, "small", time, address);
      return page.evaluate(([px, py]) => {
        const canvas = document.querySelector("#map canvas");
        const { x: left, y: top } = canvas.getBoundingClientRect();
        return [...canvas.getContext("2d").getImageData(px - left, py - top, 1, 1).data];
      }, [x, y]);
    };
    for (const [time, address] of [[2.2, 300], [7.2, 700], [8.3, 2560 + 500]]) {
      const [r, , b, a] = await colourAt(time, address);
      assert.ok(a === 255 && b > 180 && r < b, "a rectangle is blue");
    }
    for (const [time, address] of [[2.2, 1500], [4.5, 2560 + 300], [8.3, 2560 + 100]]) {
      const [r, g, b, a] = await colourAt(time, address);
      assert.ok(a === 0 || Math.min(r, g, b) > 225, "free memory shows the ground");
    }
    await page.close();
  },

  async "the wheel zooms at the pointer, with Shift in time only"() {
    const { page, trouble } = await open("small");
    const before = await view(page), [x, y] = await pixel(page, "small", 7, 1000);
    await page.mouse.move(x, y);
    await page.mouse.wheel(0, -300);
    await frames(page, 2);
    const zoomed = await view(page);
    assert.ok(zoomed.x1 - zoomed.x0 < 0.7 * (before.x1 - before.x0));
    assert.ok(zoomed.y1 - zoomed.y0 < 0.7 * (before.y1 - before.y0));
    const share = (v, a, b, value) => (value - v[a]) / (v[b] - v[a]);
    near(share(zoomed, "x0", "x1", 7), share(before, "x0", "x1", 7), 0.01);
    near(share(zoomed, "y0", "y1", 1000), share(before, "y0", "y1", 1000), 0.01);
    assert.match(await page.locator("#tip").innerText(), /beta/); // still the same below
    await page.keyboard.down("Shift");
    await page.mouse.wheel(0, -200);
    await page.keyboard.up("Shift");
    await frames(page, 2);
    const timeOnly = await view(page);
    assert.ok(timeOnly.x1 - timeOnly.x0 < zoomed.x1 - zoomed.x0);
    near(timeOnly.y1 - timeOnly.y0, zoomed.y1 - zoomed.y0, 1e-6);
    await page.mouse.dblclick(x, y);
    await frames(page, 2);
    assert.deepEqual(await view(page), before);
    assert.deepEqual(trouble, []);
    await page.close();
  },

  async "dragging and arrow keys move the view, and never out of the picture"() {
    const { page } = await open("large");
    const full = await view(page);
    await page.click("#in");
    await frames(page, 2);
    const before = await view(page), box = await page.locator("#map").boundingBox();
    await page.mouse.move(box.x + 400, box.y + 200);
    await page.mouse.down();
    await page.mouse.move(box.x + 350, box.y + 230, { steps: 5 });
    await page.mouse.up();
    await frames(page, 2);
    const moved = await view(page), width = box.width - 84 - 14, height = box.height - 12 - 24;
    const wide = (before.x1 - before.x0) / width, high = (before.y1 - before.y0) / height;
    near(moved.x0, before.x0 + 50 * wide, 1.5 * wide); // to a pixel
    near(moved.y0, before.y0 + 30 * high, 1.5 * high);
    await page.locator("#map").focus();
    await page.keyboard.press("ArrowLeft");
    await frames(page, 2);
    assert.ok((await view(page)).x0 < moved.x0);
    for (let i = 0; i < 80; i++) await page.keyboard.press("Shift+ArrowRight");
    await frames(page, 2);
    const end = await view(page);
    near(end.x1, full.x1, 1e-6 * full.x1);
    await page.keyboard.press("0");
    await frames(page, 2);
    assert.deepEqual(await view(page), full);
    await page.close();
  },

  async "search counts, marks and brings matches into sight"() {
    const { page, trouble } = await open("large");
    await page.fill("#search", "tensor_1999");
    await frames(page, 2);
    const all = planOf("large").buffers.map((b) => b.name);
    const names = all.filter((n) => n.includes("tensor_1999"));
    assert.equal(await page.locator("#found").innerText(), `1 of ${names.length}`);
    const shown = [];
    for (let i = 0; i < names.length; i++) {
      const name = await page.locator("#details h2").innerText();
      shown.push(name.trim());
      const buffer = planOf("large").buffers.find((b) => b.name === name.trim());
      const v = await view(page);
      assert.ok(v.x0 <= buffer.first && v.x1 >= buffer.last_excl, "in sight in time");
      assert.ok(v.y0 <= buffer.offset && v.y1 >= buffer.offset + buffer.size, "in sight in memory");
      await page.locator("#search").press("Enter");
      await frames(page, 2);
    }
    assert.deepEqual(shown.sort(), names.sort());
    await page.fill("#search", "no such tensor");
    await frames(page, 2);
    assert.equal(await page.locator("#found").innerText(), "none found");
    await page.keyboard.press("Escape");
    await frames(page, 2);
    assert.equal(await page.locator("#found").innerText(), "");
    assert.deepEqual(trouble, []);
    await page.close();
  },

  async "the switch stacks every buffer in memory of its own"() {
    const { page, trouble } = await open("small");
    const { naive, peak } = planOf("small").result;
    near((await view(page)).y1, peak * 1.06, 1);
    await page.click("#without");
    await frames(page, 3);
    near((await view(page)).y1, naive * 1.06, 1);
    const box = await page.locator("#map").boundingBox();
    const at = (time, address) => page.mouse.move(box.x + 84 + time / 10 * (box.width - 98),
      box.y + box.height - 24 - address / (naive * 1.06) * (box.height - 36));
    await at(7, 1024 + 1000); // beta lies above alpha now
    await frames(page, 2);
    assert.match(await page.locator("#tip").innerText(), /beta/);
    await at(7, 500);
    await frames(page, 2);
    assert.equal(await page.locator("#tip").isVisible(), false);
    await page.keyboard.press("w");
    await frames(page, 3);
    near((await view(page)).y1, peak * 1.06, 1);
    assert.match(await hover(page, "small", 7, 500), /beta/);
    assert.deepEqual(trouble, []);
    await page.close();
  },

  async "the table names who holds the peak, sorts, and marks what is clicked"() {
    for (const name of ["small", "large"]) {
      const { page } = await open(name);
      const plan = planOf(name), peak = peakOf(plan);
      assert.match(await page.locator("#moment").innerText(),
        new RegExp(`At the peak: time ${peak.at}$`));
      assert.match(await page.locator("#total").innerText(),
        new RegExp(peak.bytes.toLocaleString("en-US")));
      const rows = await page.locator("#rows tr").evaluateAll((lines) => lines.map((line) =>
        [...line.cells].map((content) => content.title)));
      const expected = plan.buffers.map((b) => ({ ...b, live: liveIn(b, peak.at) }))
        .filter((b) => b.live).sort((a, b) => b.live - a.live || a.id - b.id)
        .map((b) => [b.name, b.offset.toLocaleString("en-US"), b.live.toLocaleString("en-US")]);
      assert.deepEqual(rows, expected.slice(0, 400));
      await page.click("#columns th:nth-child(2) button"); // by address
      const addresses = await page.locator("#rows td:nth-child(2)").allInnerTexts();
      const sorted = addresses.map((a) => Number(a.replaceAll(",", "")));
      assert.deepEqual(sorted, [...sorted].sort((a, b) => b - a));
      assert.equal(await page.getAttribute("#columns th:nth-child(2)", "aria-sort"), "descending");
      await page.locator("#rows tr").nth(1).focus();
      await page.keyboard.press("Enter");
      const marked = page.locator("#rows tr[aria-selected=true] td");
      const chosen = await marked.first().getAttribute("title");
      assert.equal((await page.locator("#details h2").innerText()).trim(), chosen);
      await page.close();
    }
  },

  async "a click on the curve shows the holders of that step"() {
    const { page } = await open("small");
    const box = await page.locator("#curve").boundingBox();
    await page.mouse.click(box.x + 84 + 0.15 * (box.width - 98), box.y + 60);
    await frames(page, 2);
    assert.match(await page.locator("#moment").innerText(), /At time 1$/);
    const cells = page.locator("#rows td:first-child");
    const names = await cells.evaluateAll((list) => list.map((c) => c.title));
    assert.deepEqual(names.sort(), ["</script><b>gamma", "alpha", "two pieces"]);
    await page.close();
  },

  async "a kind can be hidden by its legend"() {
    const { page } = await open("small");
    assert.match(await hover(page, "small", 2, 500), /alpha/);
    await page.click("#legend button");
    await frames(page, 2);
    assert.equal(await hover(page, "small", 2, 501), "");
    assert.equal(await page.getAttribute("#legend button", "aria-pressed"), "false");
    await page.close();
  },

  async "sizes and times beyond a double are told exactly"() {
    const { page, trouble } = await open("huge");
    const box = await page.locator("#map").boundingBox();
    await page.mouse.move(box.x + 84 + 0.2 * (box.width - 98), box.y + box.height - 60);
    await frames(page, 2);
    const tip = await page.locator("#tip").innerText();
    assert.match(tip, /2,305,843,009,213,693,953 bytes/);
    assert.match(tip, /-9223372036854775808 to -7/);
    assert.match(await page.locator("#rows").innerText(), /2,305,843,009,213,693,953/);
    await page.mouse.wheel(0, -2000);
    await page.click("#without");
    await frames(page, 3);
    assert.deepEqual(trouble, []);
    await page.close();
  },

  async "a model's tensors tell operator, shape and whose memory they took"() {
    const { page, trouble } = await open("model");
    const { tensors, buffers, steps, result } = planOf("model");
    const box = await page.locator("#map").boundingBox();
    const wide = (box.width - 98) / steps.length, high = (box.height - 36) / (result.peak * 1.06);
    let looked = 0, taken = 0;
    for (const tensor of tensors) {
      if ((tensor.last_excl - tensor.first) * wide < 10 || tensor.size * high < 10) continue;
      const middle = tensor.offset + tensor.size / 2; // in its first step nothing covers it yet
      const tip = await hover(page, "model", tensor.first + 0.5, middle);
      assert.ok(tip.startsWith(tensor.name), `${tip} is ${tensor.name}`);
      assert.ok(tip.includes(`${tensor.shape.join("x")} ${tensor.dtype}`), tip);
      if (tensor.op) assert.ok(tip.includes(`${tensor.op_type} '${tensor.op}'`), tip);
      if (tensor.source) assert.ok(tip.includes(tensor.source), tip);
      looked++;
      taken += tensor.share === "inplace";
    }
    assert.ok(looked >= 20 && taken >= 5, `${looked} tensors, ${taken} in place`);
    const rows = await page.locator("#rows tr").evaluateAll((lines) => lines.map((line) =>
      [...line.cells].map((c) => c.title)));
    const at = Number((await page.locator("#moment").innerText()).match(/step (\d+)/)[1]);
    const writer = (b) => tensors.filter((t) => t.buffer === b.id && t.share !== "view" &&
      t.first <= at).at(-1);
    const expected = buffers.map((b) => ({ id: b.id, live: liveIn(b, at) }))
      .filter((b) => b.live).sort((a, b) => b.live - a.live || a.id - b.id)
      .map((b) => [writer(b).name, writer(b).op_type, writer(b).shape.join("x"), writer(b).dtype,
        b.live.toLocaleString("en-US")]);
    assert.deepEqual(rows, expected);
    await page.click("#without");
    await frames(page, 3);
    near((await view(page)).y1, result.naive * 1.06, 1);
    const legend = await page.locator("#legend").innerText();
    for (const kind of ["activation", "input", "output", "parameter"])
      assert.ok(legend.includes(kind), `${kind} is in the legend`);
    assert.deepEqual(trouble, []);
    await page.close();
  },

  async "an empty plan opens, and nothing on it breaks"() {
    const { page, trouble } = await open("empty");
    assert.match(await page.locator("#moment").innerText(), /Nothing is live/);
    for (const id of ["without", "with", "in", "out", "reset", "peak", "next", "previous"])
      await page.click(`#${id}`);
    await page.fill("#search", "x");
    await page.locator("#map").hover();
    await page.mouse.wheel(0, -300);
    await page.locator("#curve").click();
    await frames(page, 2);
    assert.deepEqual(trouble, []);
    await page.close();
  },

  async "the picture can be saved"() {
    const { page, trouble } = await open("small");
    const [download] = await Promise.all([page.waitForEvent("download"), page.click("#picture")]);
    await download.saveAs(join(folder, "saved.png"));
    assert.ok(statSync(join(folder, "saved.png")).size > 5000);
    assert.deepEqual(trouble, []);
    await page.close();
  },

  async "20,000 buffers: no complaint; the time of a frame is printed, not judged"() {
    const { page, trouble } = await open("large");
    const times = await page.evaluate(async () => {
      const measure = async (change) => {
        const spans = [], paints = [];
        for (let i = 0; i < 40; i++) {
          const start = performance.now();
          change(i);
          await new Promise((done) => requestAnimationFrame(() => setTimeout(done, 0)));
          spans.push(performance.now() - start);
          paints.push(state.paintMs);
        }
        const middle = (list) => list.sort((a, b) => a - b)[list.length >> 1];
        return { frame: middle(spans), paint: middle(paints) };
      };
      const all = await measure(() => redraw());
      const moving = await measure((i) => setView({ x0: span * (0.2 + i / 400),
        x1: span * (0.6 + i / 400), y0: 0, y1: topOf(0) * 0.6 }));
      setView(fullView(0));
      const s = scales(mapPane), start = performance.now();
      for (let i = 0; i < 2000; i++)
        itemsAt(span * ((i * 37) % 2000) / 2000, topOf(0) * ((i * 91) % 2000) / 2000, s);
      return { all, moving, find: (performance.now() - start) / 2000 };
    });
    const ms = (value) => `${value.toFixed(2)} ms`;
    console.log(`  frame ${ms(times.all.frame)} (drawing ${ms(times.all.paint)}), moving ` +
      `${ms(times.moving.frame)} (drawing ${ms(times.moving.paint)}), finding ${ms(times.find)}, ` +
      `page ${statSync(join(folder, "large.html")).size} bytes`);
    assert.deepEqual(trouble, []);
    await page.close();
  },

  async "a fit tells what became of every tensor, and when it was computed again"() {
    const { page, trouble } = await open("fit");
    const { tensors, steps, fit } = planOf("fit");
    const runs = (op) => steps.flatMap((step, at) =>
      step.opcode === "apply" && step.op === op ? [at] : []);
    const again = tensors.filter((t) => t.op && runs(t.op).length > 1);
    assert.ok(again.length > 2, `${again.length} tensors are computed again`);
    for (const tensor of tensors)
      if (tensor.op) assert.equal(tensor.decision, runs(tensor.op).length > 1 ? "recomputed" : "kept");
    const legend = await page.locator("#legend").innerText();
    assert.ok(legend.includes("kept") && legend.includes("recomputed"), legend);
    const box = await page.locator("#map").boundingBox(), wide = (box.width - 98) / steps.length;
    let looked = 0;
    for (const tensor of again) {
      if ((tensor.last_excl - tensor.first) * wide < 8) continue;
      const tip = await hover(page, "fit", tensor.first + 0.5, tensor.offset + tensor.size / 2);
      assert.ok(tip.startsWith(tensor.name), tip);
      assert.match(tip, /became\s+recomputed/);
      const [first, ...later] = runs(tensor.op);
      assert.match(tip, new RegExp(`computed\\s+at step ${first}\\s`));
      assert.match(tip, new RegExp(`again\\s+at step ${later.slice(0, 8).join(", ")}`));
      assert.match(tip, /saved/);
      looked++;
    }
    assert.ok(looked > 2, `${looked} looked at`);
    assert.equal(tensors.filter((t) => t.decision === "recomputed").length > 0,
      fit.decisions.recomputed.tensors > 0);
    assert.deepEqual(trouble, []);
    await page.close();
  },

  async "colours change between fates and kinds, and a fate can be hidden"() {
    const { page } = await open("fit");
    const again = planOf("fit").tensors.filter((t) => t.decision === "recomputed")
      .sort((a, b) => (b.last_excl - b.first) - (a.last_excl - a.first))[0];
    const at = [(again.first + again.last_excl) / 2, again.offset + again.size / 2];
    const colours = async () => {
      const [x, y] = await pixel(page, "fit", ...at);
      return page.evaluate(([px, py]) => {
        const canvas = document.querySelector("#map canvas");
        const { x: left, y: top } = canvas.getBoundingClientRect();
        const { data } = canvas.getContext("2d").getImageData(px - left - 6, py - top - 6, 12, 12);
        const seen = new Map();
        for (let i = 0; i < data.length; i += 4) {
          const name = data.slice(i, i + 3).join();
          seen.set(name, (seen.get(name) || 0) + 1);
        }
        return [...seen].sort((a, b) => b[1] - a[1]).map(([name]) => name.split(",").map(Number));
      }, [x, y]);
    };
    const fates = await colours();
    assert.ok(fates[0][0] > fates[0][2] + 60, `orange: ${fates[0]}`);
    assert.ok(fates.length > 1, "and a pattern, so that colour is not alone");
    await page.keyboard.press("f");
    await frames(page, 2);
    const kinds = await colours();
    assert.ok(kinds[0][2] > kinds[0][0], `blue: ${kinds[0]}`);
    assert.equal(await page.getAttribute("#kinds", "aria-pressed"), "true");
    await page.click("#fates");
    await page.locator("#legend button", { hasText: "recomputed" }).click();
    await frames(page, 2);
    assert.equal(await hover(page, "fit", ...at), "");
    await page.close();
  },

  async "the curve of memory against time is walked by keys, point by point"() {
    const { page, trouble } = await open("fit");
    const { fit } = planOf("fit"), told = () => page.locator("#point").innerText();
    const words = (time) => (time / fit.plain_time).toFixed(4);
    assert.ok((await told()).startsWith("This program"), await told());
    assert.ok((await told()).includes(words(fit.time)), await told());
    await page.locator("#trade").focus();
    assert.ok(fit.points.length === 5 && fit.points[0].time > fit.points[4].time);
    for (const [i, point] of fit.points.entries()) {
      await page.keyboard.press("ArrowRight");
      const text = await told();
      assert.ok(text.startsWith(`Point ${i + 1}:`), text);
      assert.ok(text.includes(`${point.bytes.toLocaleString("en-US")} bytes`), text);
      assert.ok(text.includes(words(point.time)), text);
    }
    const places = await page.evaluate(() => {
      const s = tradeScales();
      return trade.points.map(({ bytes, time }) => [s.x(bytes), s.y(time)]);
    });
    for (let i = 1; i < places.length; i++)
      assert.ok(places[i][0] >= places[i - 1][0] && places[i][1] >= places[i - 1][1]);
    const numbers = await page.locator("#numbers").innerText();
    assert.ok(numbers.includes(`${words(fit.time)} of the time without`), numbers);
    assert.equal(await page.locator("#link").isVisible(), false); // nothing is copied
    assert.deepEqual(trouble, []);
    await page.close();
  },

  async "the link tells every copy and all waiting, predicted above measured"() {
    const { page, trouble } = await open("swap");
    const { steps, tensors, fit } = planOf("swap");
    const sizes = new Set(tensors.map((t) => `${t.name} ${t.size}`)); // names are not unique
    const links = await page.evaluate(() => links.map(({ name, copies, waits, waited, reach }) =>
      ({ name, copies, waits, waited, end: reach[reach.length - 1] })));
    assert.deepEqual(links.map(({ name }) => name), ["predicted", "measured"]);
    const copies = steps.flatMap(({ opcode, tensor }, step) =>
      opcode === "swap_out" || opcode === "swap_in"
        ? [{ step, tensor, out: opcode === "swap_out" ? 1 : 0 }] : []);
    assert.ok(copies.length > 20);
    for (const link of links) {
      const byStep = [...link.copies].sort((a, b) => a.step - b.step);
      assert.deepEqual(byStep.map(({ step, out }) => [step, out]),
        copies.map(({ step, out }) => [step, out]));
      for (const [i, { bytes }] of byStep.entries())
        assert.ok(sizes.has(`${copies[i].tensor} ${bytes}`), `${copies[i].tensor} ${bytes}`);
      for (const out of [0, 1])
        assert.equal(link.copies.reduce((sum, c) => sum + (c.out === out ? c.bytes : 0), 0),
          out ? fit.to_host_bytes : fit.from_host_bytes);
      const waits = link.waits.reduce((sum, { duration }) => sum + duration, 0);
      near(waits, link.waited, 1);
    }
    near(links[0].waited, fit.stall, links[0].waits.length + 1); // a picosecond of rounding each
    near(links[0].end, fit.time, 1000);
    assert.ok(links[1].end > links[0].end && links[1].waited > links[0].waited, "a slower link");
    for (const k of [0, 1]) {
      const [x, y, step] = await page.evaluate((which) => {
        const s = scales(linkPane), lane = laneOf(s, which);
        const copy = [...links[which].copies].sort((a, b) => b.bytes - a.bytes)[0];
        const bar = barOf(s, lane, copy), box = linkPane.box.getBoundingClientRect();
        return [box.x + bar.x + bar.width / 2, box.y + bar.y + bar.tall / 2, copy.step];
      }, k);
      await page.mouse.move(x, y);
      await frames(page, 2);
      const tip = await page.locator("#tip").innerText();
      assert.ok(tip.includes(links[k].name) && tip.includes(steps[step].tensor), tip);
    }
    await page.keyboard.press("n");
    await frames(page, 2);
    const at = Number((await page.locator("#moment").innerText()).match(/step (\d+)/)[1]);
    assert.ok(links.some(({ waits }) => waits.some(({ step }) => step === at)), `step ${at} waits`);
    const moved = tensors.find((t) => t.decision === "swapped" && t.size > 4096);
    await page.fill("#search", moved.name);
    await frames(page, 2);
    const details = await page.locator("#details").innerText();
    const outs = steps.flatMap(({ opcode, tensor }, step) =>
      opcode === "swap_out" && tensor === moved.name ? [step] : []);
    assert.match(details, new RegExp(`swapped out\\s+at step ${outs.join(", ")}`));
    assert.deepEqual(trouble, []);
    await page.close();
  },

  async "screenshots for people to look at"() {
    for (const colorScheme of ["light", "dark"]) {
      for (const name of ["small", "large", "model", "step", "fit", "swap", "ranks"]) {
        const { page } = await open(name, { colorScheme });
        await page.screenshot({ path: join(folder, `${name}-${colorScheme}.png`) });
        await page.close();
      }
    }
  },
};

const tools = { open, frames, planOf, hover, pixel, view, near, piecesOf, liveIn, peakOf };
Object.assign(tests, stepTests(tools), lookTests(tools), ranksTests(tools));

let failed = 0;
for (const [name, test] of Object.entries(tests)) {
  try {
    await test();
    console.log(`ok   ${name}`);
  } catch (error) {
    failed++;
    console.log(`FAIL ${name}\n${error.stack}`);
  }
}
await browser.close();
console.log(failed ? `${failed} failed` : "all passed");
process.exit(failed ? 1 : 0);
