/* index.mjs - the package in a browser, through a bundler or not. */
import { factory, tenureRun, tenurePutFiles, tenureWritten } from "./module.mjs";
import { makeLibrary, TenureError } from "./library.mjs";

let source = new URL("./tenure.wasm", import.meta.url);

/* Where the module comes from, if not from the file next to this one: a URL, a Response, bytes or a WebAssembly.Module. */
export function init(from) {
  source = from;
}

async function compile() {
  let from = await source;
  if (from instanceof WebAssembly.Module) return from;
  if (typeof from === "string" || from instanceof URL) from = await fetch(from);
  if (typeof Response !== "undefined" && from instanceof Response) {
    if (!from.ok) throw new Error(`tenure.wasm: the server answered ${from.status}`);
    from = await from.arrayBuffer();
  }
  return WebAssembly.compile(from);
}

export const { run, plan, estimate, arena, report, picture } = makeLibrary({ factory, tenureRun, tenurePutFiles, tenureWritten, compile });
export { TenureError };
