// A model that is planned, or written in parts, still runs: TensorFlow.js' TFLite (@tensorflow/tfjs-tflite), the same
// outputs as the original.
//
//     TENURE_TFJS_TFLITE=PACKAGE node tfjs.mjs TENURE FOLDER...
//
// PACKAGE is the unpacked npm package. Every model of the folders is planned into a copy of itself, and split into one
// where that needs less; all run on the same random inputs, and every byte of every output must agree, also in a second
// run (variables keep their contents). Models that this run time cannot load (operators of microcontrollers) are named and left out.
// Exit status: 0 all right, 1 not, 77 the package is absent.
import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

const [tenure, ...folders] = process.argv.slice(2);
const home = process.env.TENURE_TFJS_TFLITE;
if (!home || !existsSync(join(home, "wasm"))) {
  console.log("SKIP: @tensorflow/tfjs-tflite is not there (TENURE_TFJS_TFLITE names its folder)");
  process.exit(77);
}
const wasm = join(resolve(home), "wasm", "tflite_web_api_cc");
const factory = createRequire(import.meta.url)(wasm + ".js");
const quiet = { wasmBinary: readFileSync(wasm + ".wasm"), print() {}, printErr() {} };

function list(vector) {
  const items = [];
  for (let i = 0; i < vector.size(); i++) items.push(vector.get(i));
  return items;
}

// All outputs of two runs, as bytes; null when the model cannot be loaded.
async function outputs(path) {
  const runtime = await factory({ ...quiet });
  const bytes = readFileSync(path);
  const at = runtime._malloc(bytes.length + 16);
  const place = Math.ceil(at / 16) * 16;
  runtime.HEAPU8.set(bytes, place);
  const made = runtime.TFLiteWebModelRunner.CreateFromBufferAndOptions(place, bytes.length, {
    numThreads: 1, enableProfiling: false, maxProfilingBufferEntries: 16 });
  if (!made.ok()) return null;
  const runner = made.value();
  const found = [];
  let state = 12345;
  for (let turn = 0; turn < 2; turn++) {
    for (const input of list(runner.GetInputs())) {
      const data = input.data();
      for (let i = 0; i < data.length; i++) {
        state = (Math.imul(state, 1103515245) + 12345) >>> 0;
        const wide = state >>> 16;
        data[i] = data instanceof Float32Array ? wide / 32768 - 1 : data instanceof Int32Array ? wide % 8 : wide & 255;
      }
    }
    if (!runner.Infer()) return null;
    for (const output of list(runner.GetOutputs())) {
      const data = output.data();
      found.push(Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString("hex"));
    }
  }
  return found;
}

// False: nothing was to be written (status 1).
function write(command, path, options, copy) {
  try {
    execFileSync(tenure, [command, path, ...options, "-o", copy], { stdio: "ignore" });
    return true;
  } catch (error) {
    if (error.status !== 1) throw error;
    return false;
  }
}

const folder = mkdtempSync(join(tmpdir(), "tenure-tfjs-"));
const ways = [["plan", []], ["split", ["--extra-work", "30%", "--plan"]]];
let ran = 0, split = 0, bad = 0, bytes = 0;
for (const source of folders) {
  if (!existsSync(source)) {
    console.log(`SKIP: ${source} is not there`);
    continue;
  }
  for (const name of readdirSync(source).filter((n) => n.endsWith(".tflite")).sort()) {
    const path = join(source, name), copy = join(folder, name);
    const before = await outputs(path);
    if (before === null) {
      console.log(`cannot be run by TensorFlow.js: ${name}`);
      continue;
    }
    ran++;
    bytes += before.reduce((sum, text) => sum + text.length / 2, 0);
    for (const [command, options] of ways) {
      if (!write(command, path, options, copy)) continue;
      split += command === "split";
      const after = await outputs(copy);
      if (JSON.stringify(before) === JSON.stringify(after)) continue;
      console.log(`FAILED: ${name}: after tenure ${command}, it computes something else`);
      bad++;
    }
  }
}
rmSync(folder, { recursive: true });
console.log(`${ran} models, original and planned, ${split} in parts: ${bytes} bytes of outputs compared, ${bad} differ`);
process.exit(bad || !ran || !split ? 1 : 0);
