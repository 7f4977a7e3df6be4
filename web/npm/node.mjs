/* node.mjs - the package in Node: the module is read from the package's own folder. */
import { readFile } from "node:fs/promises";
import { factory, tenureRun, tenurePutFiles, tenureWritten } from "./module.mjs";
import { makeLibrary, TenureError } from "./library.mjs";

let source = null;

/* Bytes or a WebAssembly.Module in place of the package's own. */
export function init(from) {
  source = from;
}

async function compile() {
  const from = (await source) ?? (await readFile(new URL("./tenure.wasm", import.meta.url)));
  return from instanceof WebAssembly.Module ? from : WebAssembly.compile(from);
}

export const { run, plan, estimate, arena, report, picture } = makeLibrary({ factory, tenureRun, tenurePutFiles, tenureWritten, compile });
export { TenureError };
