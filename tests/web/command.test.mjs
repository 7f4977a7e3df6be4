/* command.test.mjs - the WebAssembly command answers what the native command answers.

     node command.test.mjs TENURE FOLDER ROOT [large]

   FOLDER is the output of web/build. Both commands read the same files; their standard output, exit status and written files
   must be equal to the byte, except measured times. Then the package: as it is packed and installed, by `import` and `require`,
   and with broken files. */
import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { createRequire } from "node:module";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

const [tenure, folder, root] = process.argv.slice(2).map((path) => resolve(path));
if (!existsSync(join(folder, "npm/tenure.wasm"))) {
  console.log("SKIP: web.build made nothing: no source packages of Debian");
  process.exit(77);
}
const cli = join(folder, "npm/cli.cjs");
const work = mkdtempSync(join(tmpdir(), "tenure-web-"));
process.on("exit", () => rmSync(work, { recursive: true, force: true }));
let checked = 0;

/* --- the same answers --- */

/* Measured times are the only thing that may differ. */
const timeless = (text) => text.replace(/"seconds":\{[^}]*\}/g, '"seconds":{}').replace(/"seconds":[\d.e+-]+/g, '"seconds":0')
  .replace(/^ *[\d.]+ m?s: import .*$/gm, "TIMES").replace(/^ *[\d.]+ m?s: .*$/gm, "TIMES");

function both(words, written = []) {
  const [native, page] = [[tenure], [process.execPath, cli]].map(([program, ...first], index) => {
    const where = join(work, String(index));
    rmSync(where, { recursive: true, force: true });
    mkdirSync(where);
    const ran = spawnSync(program, [...first, ...words], { cwd: where, maxBuffer: 1 << 28 });
    const files = written.map((name) => (existsSync(join(where, name)) ? timeless(readFileSync(join(where, name), "utf8")) : null));
    return { status: ran.status, stdout: timeless(ran.stdout.toString()), stderr: timeless(ran.stderr.toString()), files };
  });
  assert.deepEqual(page, native, `tenure ${words.join(" ")}`);
  checked++;
  return native;
}

const example = (path) => join(root, "examples", path);
const shared = (path) => join(root, "../shared/data", path);
const list = (place, suffix) => (existsSync(place) ? readdirSync(place).filter((name) => name.endsWith(suffix)).map((name) => join(place, name)) : []);

const models = list(example("models"), ".onnx"), tiny = list(example("models"), ".tflite");
const problems = list(example("problems"), ".csv"), configs = list(example("configs"), ".json");
for (const model of [...models, ...tiny, ...problems]) both(["plan", model, "--json"]);
for (const model of [...models, ...tiny]) both(["estimate", model, "--json"]);
for (const model of models) both(["plan", model, "--train", "--batch", "2", "-o", "x.html", "-o", "x.json", "-o", "x.svg", "-o", "x.csv"], ["x.html", "x.json", "x.svg", "x.csv"]);
for (const model of tiny) {
  both(["arena", model, "--json"]);
  both(["arena", model, "--target", "esp32-s3", "-o", "a.h", "-o", "a.tflite"], ["a.h", "a.tflite"]);
}
for (const config of configs) {
  both(["estimate", config, "--json"]);
  both(["estimate", config, "--device", "t4"]);
}
both(["estimate", example("configs/llama_8b.json"), "--train", "--parallel", "auto", "--devices", "8", "--device", "a100-80", "--json"]);
for (const snapshot of list(example("snapshots"), ".pickle")) {
  both(["report", snapshot, "--json"]);
  both(["report", snapshot, "-o", "r.html"], ["r.html"]);
}
both(["replay", example("traces/two_steps.csv"), "-o", "pools.svg"], ["pools.svg"]);
both(["diff", example("models/mobilenet_v2.onnx"), example("models/unet64.onnx"), "--json"]);
both(["fit", example("models/unet64.onnx"), "--train", "--budget", "400MiB", "--costs", "model:v100-16", "--json"]);
/* options: abbreviations, clusters of letters, the end of options, a value that looks like an option, and what is wrong with them */
for (const words of [["plan", problems[0], "--js"], ["plan", "-qo", "p.csv", problems[0], "-op.json"], ["plan", "--json", "--", problems[0]],
  ["plan", problems[0], "--capacity=1MiB"], ["plan"], ["plan", problems[0], problems[0]], ["plan", problems[0], "--jsno"], ["plan", problems[0], "--capacity"],
  ["plan", "absent.onnx"], ["plna"], ["plan", "--help"], ["plan", "--help=all"], ["plan", problems[0], "-o", "-"], ["list", "planners"]])
  both(words, words.includes("-qo") ? ["p.csv", "p.json"] : []);

const large = list(shared("onnx-weightless"), ".onnx").concat(list(shared("tflite"), ".tflite"), list(shared("tflite-2026"), ".tflite"));
const problemFiles = list(shared("problems"), ".csv").filter((path) => /minimalloc_[A-CE-H]\.csv$/.test(path));
if (!existsSync(shared(""))) console.log("SKIP: shared/data is not there: only the examples were compared");
for (const model of large) if (statSync(model).size < 4e6) both(["plan", model, "--planner", "best-fit", "--json"]);
for (const problem of problemFiles) both(["plan", problem, "--json"]);
console.log(`${checked} command lines: the same bytes`);

/* --- broken files: an error that the native command also gives, and the next run works --- */

const library = await import(pathToFileURL(join(folder, "npm/node.mjs")));
let random = 1;
const byte = () => (random = (Math.imul(random, 1103515245) + 12345) >>> 0) >>> 24;
let broken = 0;
for (const path of [models[1], tiny[0], problems[0], configs[0], example("snapshots/out_of_memory.pickle")]) {
  const whole = readFileSync(path), name = basename(path);
  const command = name.endsWith(".pickle") ? "report" : /\.json$/.test(name) ? "estimate" : "plan";
  const versions = [whole.subarray(0, 0), Buffer.from(Array.from({ length: 9216 }, byte)), Buffer.alloc(9216)];
  for (let k = 1; k < 16; k++) versions.push(whole.subarray(0, Math.floor((whole.length * k) / 16)));
  for (let k = 0; k < 16; k++) {
    const changed = Buffer.from(whole);
    for (let n = 0; n < 8; n++) changed[(byte() * 65536 + byte() * 256 + byte()) % changed.length] = byte();
    versions.push(changed);
  }
  for (const bytes of versions) {
    writeFileSync(join(work, name), bytes);
    const native = spawnSync(tenure, [command, name], { cwd: work });
    const page = await library.run([command, name], { files: { [name]: bytes } });
    assert.equal(page.status, native.status, `${command} ${name}, ${bytes.length} bytes: ${page.stderr} native: ${native.stderr}`);
    if (native.status >= 2) assert.equal(page.stderr, native.stderr.toString());
    broken++;
  }
  assert.equal((await library.run([command, name], { files: { [name]: whole } })).status, 0);
}
console.log(`${broken} broken files: the same errors`);

/* --- the package, as it is installed --- */

const version = JSON.parse(readFileSync(join(folder, "npm/package.json"))).version;
const archive = join(folder, `tenure-${version}.tgz`);
if (existsSync(archive)) {
  const place = join(work, "user", "node_modules", "tenure");
  mkdirSync(place, { recursive: true });
  execFileSync("tar", ["-xzf", archive, "-C", place, "--strip-components=1"]);
  const facts = JSON.parse(readFileSync(join(place, "package.json")));
  assert.deepEqual(Object.keys(facts).filter((key) => /dependencies|scripts/i.test(key)), [], "no install script, no dependencies");
  for (const target of Object.values(facts.exports).flatMap((to) => (typeof to === "string" ? to : [to.types, to.default, to.node.import, to.node.require])))
    assert(existsSync(join(place, target)), target);
  const model = example("models/mobilenet_v2.onnx");
  writeFileSync(join(work, "user", "use.mjs"), `import { plan, run, TenureError } from "tenure";
    import { readFileSync } from "node:fs";
    const answer = await plan("m.onnx", readFileSync(process.argv[2]));
    let refused = false;
    try { await plan("m.onnx", "no model"); } catch (error) { refused = error instanceof TenureError && error.status === 2; }
    let outside = false;
    try { await run(["plan", "x"], { files: { "../x": "" } }); } catch { outside = true; }
    console.log(answer.peak, refused, outside);`);
  writeFileSync(join(work, "user", "use.cjs"), `require("tenure").plan("m.onnx", require("fs").readFileSync(process.argv[2])).then((answer) => console.log(answer.peak));`);
  const node = (file) => execFileSync(process.execPath, [join(work, "user", file), model], { cwd: work }).toString().trim();
  assert.equal(node("use.mjs"), "6021120 true true");
  assert.equal(node("use.cjs"), "6021120");
  const typed = spawnSync(process.execPath, [join(place, facts.bin.tenure), "plan", model, "--json"]);
  assert.equal(JSON.parse(typed.stdout).peak, 6021120);
  assert.equal(spawnSync(process.execPath, [join(place, facts.bin.tenure), "plan", "-"], { input: "" }).status, 2);
  console.log(`tenure-${version}.tgz: ${statSync(archive).size} bytes, imported, required, run`);
} else console.log("SKIP: no npm");

/* --- a figure, not a verdict --- */

const rows = ["id,lower,upper,size"];
for (let i = 0; i < 100000; i++) {
  const lower = byte() * 256 + byte();
  rows.push(`b${i},${lower},${lower + 1 + (byte() % 64)},${64 * (1 + byte())}`);
}
const table = rows.join("\n");
const start = performance.now();
const planned = await library.plan("many.csv", table);
console.log(`100,000 buffers: planned in ${((performance.now() - start) / 1000).toFixed(1)} s, peak ${planned.peak}, lower bound ${planned.lower_bound}`);
