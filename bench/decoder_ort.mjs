/* decoder_ort.mjs - one step of a decoder in ONNX Runtime, timed; for bench/decoder.py.

     node decoder_ort.mjs MANIFEST

   MANIFEST is JSON: modules, model, threads, repeat, output, inputs. Prints the fastest step in milliseconds and writes
   the first output to the file `output`. The log on standard error (severity "info") says what the arena took. */

import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";

const manifest = JSON.parse(readFileSync(process.argv[2], "utf8"));
const ort = createRequire(join(manifest.modules, "here.js"))("onnxruntime-node");
ort.env.logLevel = "info";
const arrays = { float32: Float32Array, int64: BigInt64Array };
const session = await ort.InferenceSession.create(manifest.model, {
  executionProviders: ["cpu"], intraOpNumThreads: manifest.threads, interOpNumThreads: 1,
  executionMode: "sequential", graphOptimizationLevel: "all", logSeverityLevel: 3,
});
const feeds = {};
for (const { name, type, dims, file } of manifest.inputs) {
  const bytes = readFileSync(file);
  feeds[name] = new ort.Tensor(type, new arrays[type](bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length)), dims);
}
let wall = Infinity, results;
for (let i = 0; i < manifest.repeat; i++) {
  const from = process.hrtime.bigint();
  results = await session.run(feeds);
  wall = Math.min(wall, Number(process.hrtime.bigint() - from) / 1e6);
}
writeFileSync(manifest.output, new Uint8Array(results.logits.data.buffer));
console.log(wall);
