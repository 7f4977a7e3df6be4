/* command.test.mjs - the WebAssembly command answers what the native command answers.

     node command.test.mjs TENURE FOLDER ROOT [large]

   FOLDER is the output of web/build. Both commands read the same files (answers.mjs). Then the package: as it is packed and
   installed, by `import` and `require`, and with broken files. */
import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { sameAnswers } from "./answers.mjs";

const [tenure, folder, root] = process.argv.slice(2).map((path) => resolve(path));
if (!existsSync(join(folder, "npm/tenure.wasm"))) {
  console.log("SKIP: web.build made nothing: no source packages of Debian");
  process.exit(77);
}
const cli = join(folder, "npm/cli.cjs");
const work = mkdtempSync(join(tmpdir(), "tenure-web-"));
process.on("exit", () => rmSync(work, { recursive: true, force: true }));
console.log(`${sameAnswers([tenure], [process.execPath, cli], root)} command lines: the same bytes`);

/* --- a budget: without kernels, what the native command answers when no kernels are asked for --- */

{
  const words = ["fit", join(root, "examples/models/mobilenet_v2.onnx"), "--budget", "20MiB", "--json"];
  const answer = (program, ...more) => execFileSync(program, more).toString().replace(/"seconds":[\d.e+-]+/g, "");
  assert.equal(answer(process.execPath, cli, ...words), answer(tenure, ...words, "--kernels", "none"));
}

/* --- broken files: an error that the native command also gives, and the next run works --- */

const library = await import(pathToFileURL(join(folder, "npm/node.mjs")));
let random = 1;
const byte = () => (random = (Math.imul(random, 1103515245) + 12345) >>> 0) >>> 24;
let broken = 0;
const example = (path) => join(root, "examples", path);
for (const path of ["models/mobilenet_v2.onnx", "models/keywords.tflite", "problems/nine_buffers.csv", "configs/llama_8b.json", "snapshots/out_of_memory.pickle"].map(example)) {
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
