/* page.test.mjs - the page in Chromium, from a file, without a network.

     node page.test.mjs TENURE FOLDER ROOT

   FOLDER is the output of web/build; screenshots stay in FOLDER/screenshots for people to look at. */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { Browser, chromium } from "./browser.mjs";

const [tenure, folder, root] = process.argv.slice(2).map((path) => resolve(path));
const file = join(folder, "tenure.html");
function skip(reason) {
  console.log(`SKIP: ${reason}`);
  process.exit(77);
}
if (!existsSync(file)) skip("web.build made nothing: no source packages of Debian");
if (!chromium) skip("Chromium is not installed");
const shots = join(folder, "screenshots");
mkdirSync(shots, { recursive: true });
const work = mkdtempSync(join(tmpdir(), "tenure-web-"));
const browser = new Browser();
const example = (path) => join(root, "examples", path);
const timeless = (text) => text.replace(/"seconds":\{[^}]*\}/g, "").replace(/^ *[\d.]+ m?s: .*$/gm, "").trimEnd();

async function done(page) {
  await page.until("document.getElementById('answer').getAttribute('aria-busy') === 'false' && !document.body.classList.contains('busy')");
}
const text = (page, id) => page.evaluate(`document.getElementById(${JSON.stringify(id)}).hidden ? "" : document.getElementById(${JSON.stringify(id)}).textContent`);
async function drop(page, ...files) {
  await page.evaluate("document.getElementById('answer').setAttribute('aria-busy', 'true')");
  await page.choose("#picker", files);
  await done(page);
}
async function command(page, line) {
  await page.evaluate(`document.getElementById("words").value = ${JSON.stringify(line)}; document.getElementById("run").click()`);
  await done(page);
}

/* Size: one file for an e-mail or a stick, with the whole command in it. docs/browser.md says what was tried to make it smaller. */
const LARGEST = 950000;
assert(statSync(file).size <= LARGEST, `${statSync(file).size} bytes`);

const page = await browser.open(pathToFileURL(file).href);
await page.until("document.documentElement.dataset.ready === 'yes'");

/* Kinds of files: the answer of the command, and its picture. */
const kinds = [["models/unet64.onnx", "plan unet64.onnx", true], ["models/wake_words.tflite", "arena wake_words.tflite", true],
  ["configs/llama_8b.json", "estimate llama_8b.json", false], ["snapshots/out_of_memory.pickle", "report out_of_memory.pickle", true],
  ["problems/nine_buffers.csv", "plan nine_buffers.csv", true]];
/* Files whose kind the name alone does not tell, or that another tool wrote. */
const others = [["traces/train.pt.trace.json", "report train.pt.trace.json", true], ["foreign/node_stats.csv", "report node_stats.csv", false],
  ["foreign/memory.prof", "report memory.prof", false], ["foreign/convolutions.pte", "report convolutions.pte", true],
  ["../fuzz/corpus/pt2/gates.pt2", "plan gates.pt2", true]];
for (const [path, words, hasPicture] of [...kinds, ...others]) {
  await drop(page, example(path));
  const native = execFileSync(tenure, [...words.split(" "), ...(hasPicture ? ["-o", join(work, "x.html"), "--overwrite"] : [])],
    { cwd: join(example(path), ".."), stdio: ["ignore", "pipe", "pipe"], env: { ...process.env, COLUMNS: "100" } }).toString();
  const shown = (await text(page, "text")).replaceAll("picture.html", "FILE");
  assert.equal(timeless(shown), timeless(native.replaceAll(join(work, "x.html"), "FILE")), path);
  assert.equal(await page.evaluate("!document.getElementById('picture').hidden"), hasPicture, path);
  assert.equal(await page.evaluate("document.getElementById('picture').sandbox.value"), "allow-scripts allow-downloads");
  console.log(`${path}: the same text`);
}

/* From a server, whatever it says about the encoding: the mark at the beginning of the page goes before it. */
for (const type of ["text/html", "text/html; charset=utf-8", "text/html; charset=iso-8859-1"]) {
  const server = createServer((request, response) => response.writeHead(200, { "Content-Type": type }).end(readFileSync(file)));
  await new Promise((good) => server.listen(0, "127.0.0.1", good));
  const served = await browser.open(`http://127.0.0.1:${server.address().port}/`);
  await served.until("document.documentElement.dataset.ready === 'yes'");
  await drop(served, example("problems/nine_buffers.csv"));
  assert.match(await text(served, "text"), /96 bytes/, type);
  assert.equal(await served.evaluate("document.characterSet"), "UTF-16LE");
  await served.close();
  server.closeAllConnections();
  server.close();
}

/* What the picture's frame draws: its script ran under both policies. */
await drop(page, example("models/unet64.onnx"));
await new Promise((good) => setTimeout(good, 1500)); /* for the pictures to look at; nothing is decided by it */

/* Screenshots: three widths, light and dark. */
for (const dark of [false, true])
  for (const width of [500, 900, 1400]) {
    const look = await browser.open(pathToFileURL(file).href, { width, height: 900, dark });
    await look.until("document.documentElement.dataset.ready === 'yes'");
    const name = `${width}${dark ? "-dark" : ""}`;
    await look.screenshot(join(shots, `start-${name}.png`));
    const wide = () => look.evaluate("document.documentElement.scrollWidth <= innerWidth");
    assert(await wide(), `the page at ${width} is as wide as the window`);
    for (const [path] of kinds) {
      await drop(look, example(path));
      assert(await wide(), `${path} at ${width} is as wide as the window`);
      await new Promise((good) => setTimeout(good, 1000)); /* as above */
      await look.screenshot(join(shots, `${path.split("/")[1]}-${name}.png`));
    }
    await look.close();
  }

/* Errors: a broken model is an error that is seen; the page goes on. */
const broken = join(work, "broken.onnx");
writeFileSync(broken, readFileSync(example("models/mobilenet_v2.onnx")).subarray(0, 20000));
await drop(page, broken);
assert.match(await text(page, "error"), /error: broken\.onnx/);
await page.screenshot(join(shots, "error.png"));
const noise = join(work, "noise.tflite");
writeFileSync(noise, Buffer.from(Array.from({ length: 9216 }, (_, i) => (i * i * 7919) >>> 5 & 255)));
await drop(page, noise);
assert.match(await text(page, "error"), /error: noise\.tflite/);
await command(page, "plan --no-such-option");
assert.match(await text(page, "error"), /there is no option/);
await command(page, "train x.onnx");
assert.match(await text(page, "error"), /cannot/);
await drop(page, example("problems/nine_buffers.csv"));
assert.match(await text(page, "text"), /96 bytes/);

/* A name is shown as text, never as HTML. */
const markup = join(work, "names.csv");
writeFileSync(markup, "id,lower,upper,size\n<img src=x onerror=document.title=1>,0,2,32\n");
await drop(page, markup);
await command(page, "plan names.csv --holders");
assert.match(await text(page, "text"), /<img src=x/);
assert.equal(await page.evaluate("document.querySelectorAll('pre img').length"), 0);

/* Two files are compared. */
await drop(page, example("models/mobilenet_v2.onnx"), example("models/unet64.onnx"));
assert.match(await page.evaluate("document.getElementById('words').value"), /^diff /);
assert.equal(await page.evaluate("!document.getElementById('picture').hidden"), true);

/* Cancel: a search that would go on for an hour ends, and the next command runs. */
const hard = join(work, "hard.csv");
let random = 7;
const next = (most) => ((random = (Math.imul(random, 1103515245) + 12345) >>> 0) >>> 8) % most;
writeFileSync(hard, "id,lower,upper,size\n" + Array.from({ length: 300 }, (_, i) => { const lower = next(60); return `b${i},${lower},${lower + 1 + next(30)},${1 + next(100000)}\n`; }).join(""));
await drop(page, example("problems/nine_buffers.csv"));
await page.evaluate("document.getElementById('other').click()");
await page.choose("#picker", [hard]);
await page.until("!document.getElementById('work').hidden && document.getElementById('name').textContent === 'hard.csv'");
await page.evaluate("document.getElementById('cancel').click()");
await page.evaluate(`document.getElementById("words").value = "plan hard.csv --planner exact --timeout 3600"; document.getElementById("run").click()`);
await page.until("/best/.test(document.getElementById('status').textContent)");
await page.screenshot(join(shots, "busy.png"));
console.log(`progress: ${await text(page, "status")}`);
await page.evaluate("document.getElementById('cancel').click()");
assert.match(await text(page, "status"), /cancelled/);
await command(page, "plan hard.csv --planner best-fit");
assert.match(await text(page, "text"), /arena/);

/* No request but the page itself, which is what its policy promises. */
const requests = page.requests.filter((url) => !/^(file|blob|data|about):/.test(url));
assert.deepEqual(requests, []);
assert.equal(page.requests.filter((url) => url.startsWith("file:")).length, 1);
assert.deepEqual(page.complaints, []);
const refused = await page.evaluate("fetch('https://example.org/').then(() => 'sent', (error) => String(error))");
assert.match(refused, /TypeError/);
assert.match(await page.evaluate("document.querySelector('meta[http-equiv]').content"), /^default-src 'none';/);
await browser.close();
rmSync(work, { recursive: true, force: true });
console.log(`tenure.html: ${statSync(file).size} bytes; screenshots in ${shots}`);
