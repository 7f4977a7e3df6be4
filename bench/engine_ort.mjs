/* engine_ort.mjs - one model in ONNX Runtime, timed; for bench/engine.c.

     node engine_ort.mjs MODULES MODEL THREADS REPEAT

   Prints the fastest run in milliseconds of wall and of processor time, and the bytes by which the
   resident set grew from before the session to after the runs. ONNX Runtime's own log (standard
   error, severity "info") says what its arena took, for weights ("Reserving memory") and for the
   rest ("Extended allocation"): engine.c adds that up. */

import { createRequire } from "node:module";
import { join, resolve } from "node:path";

const [modules, model, threads, repeat] = process.argv.slice(2);
const ort = createRequire(join(resolve(modules), "here.js"))("onnxruntime-node");
ort.env.logLevel = "info"; // what the arena takes
const arrays = {
  float32: Float32Array, float64: Float64Array, int64: BigInt64Array, int32: Int32Array,
  uint8: Uint8Array, bool: Uint8Array,
};

const before = process.memoryUsage().rss;
const session = await ort.InferenceSession.create(model, {
  executionProviders: ["cpu"], intraOpNumThreads: Number(threads), interOpNumThreads: 1,
  executionMode: "sequential", graphOptimizationLevel: "all", logSeverityLevel: 3,
});
const feeds = {};
for (const { name, type, shape } of session.inputMetadata) {
  const dims = shape.map((extent) => (typeof extent === "number" && extent > 0 ? extent : 1));
  const count = dims.reduce((product, extent) => product * extent, 1);
  const data = new arrays[type](count);
  if (type === "float32") for (let i = 0; i < count; i++) data[i] = ((i * 2654435761) >>> 0) / 2 ** 31 - 1;
  feeds[name] = new ort.Tensor(type, data, dims);
}
let wall = Infinity, cpu = Infinity;
for (let i = 0; i < Number(repeat); i++) {
  const from = process.hrtime.bigint(), used = process.cpuUsage();
  await session.run(feeds);
  const spent = process.cpuUsage(used);
  wall = Math.min(wall, Number(process.hrtime.bigint() - from) / 1e6);
  cpu = Math.min(cpu, (spent.user + spent.system) / 1e3);
}
console.log(`wall_ms ${wall} cpu_ms ${cpu} rss ${process.memoryUsage().rss - before}`);
