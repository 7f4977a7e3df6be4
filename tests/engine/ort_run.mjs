/* ort_run.mjs - runs models in ONNX Runtime, for compare_ort.py.

     node ort_run.mjs MANIFEST.json

   MANIFEST: {"modules": folder with node_modules, "runs": [{"model", "inputs": [{"name", "type",
   "dims", "file"}], "folder"}]}. Inputs are raw little-endian bytes. Each output goes to the run's
   folder as <index>.bin, and a line of JSON with names, types and dims to standard output. */

import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";

const manifest = JSON.parse(readFileSync(process.argv[2], "utf8"));
const ort = createRequire(join(manifest.modules, "here.js"))("onnxruntime-node");

const arrays = {
  float32: Float32Array, float64: Float64Array, int64: BigInt64Array, int32: Int32Array,
  uint8: Uint8Array, int8: Int8Array, uint16: Uint16Array, int16: Int16Array, uint32: Uint32Array,
  uint64: BigUint64Array, bool: Uint8Array,
};

function tensorOf({ type, dims, file }) {
  const bytes = readFileSync(file);
  const copy = new Uint8Array(bytes).buffer; // aligned
  return new ort.Tensor(type, new arrays[type](copy), dims);
}

for (const { model, inputs, folder } of manifest.runs) {
  try {
    const options = { intraOpNumThreads: 1, interOpNumThreads: 1, logSeverityLevel: 3 };
    const session = await ort.InferenceSession.create(model, options);
    const feeds = Object.fromEntries(inputs.map((input) => [input.name, tensorOf(input)]));
    const results = await session.run(feeds);
    const outputs = session.outputNames.map((name, index) => {
      const { type, dims, data } = results[name];
      writeFileSync(join(folder, `${index}.bin`),
        new Uint8Array(data.buffer, data.byteOffset, data.byteLength));
      return { name, type, dims };
    });
    console.log(JSON.stringify({ model, outputs }));
    await session.release();
  } catch (error) {
    console.log(JSON.stringify({ model, error: String(error.message) }));
  }
}
