/* worker.js - the Web Worker of the page: unpacks and compiles the module, then runs commands.

   Messages in:  {packed: text, sizes: [[name, bytes]]} or {parts}, what an earlier worker made of it; {words, files: [[path, File]]}
   Messages out: {ready: parts}, a Map with the compiled module, the URL of its JavaScript, and the bytes of the examples by name;
                 {progress}; {done: {status, stdout, stderr, files: [[path, bytes]]}}; {failed: text} */
let parts = null; /* or a promise of them */

async function unpack(packed, sizes) {
  const bytes = unpackLzma(unpackText(packed), sizes.reduce((sum, [, size]) => sum + size, 0)), found = new Map();
  let at = 0;
  for (const [name, size] of sizes) found.set(name, bytes.slice(at, at += size));
  found.set("module", await WebAssembly.compile(found.get("module")));
  found.set("glue", new Blob([found.get("glue")], { type: "text/javascript" }));
  return found;
}

async function open(data) {
  const opened = data.parts ?? (await unpack(data.packed, data.sizes));
  importScripts(URL.createObjectURL(opened.get("glue")));
  return opened;
}

async function runCommand({ words, files }) {
  const wasm = (await parts).get("module");
  const given = [];
  for (const [path, file] of files) given.push([path, new Uint8Array(await file.arrayBuffer())]);
  const result = await tenureRun(tenureModule, wasm, words, {
    columns: 100,
    onProgress: (text) => postMessage({ progress: text }),
    prepare: (FS) => tenurePutFiles(FS, given),
  });
  const made = tenureWritten(result.FS, new Map(given));
  return { status: result.status, stdout: new TextDecoder().decode(result.stdout), stderr: result.stderr, files: made };
}

onmessage = async ({ data }) => {
  try {
    if (data.words) postMessage({ done: await runCommand(data) });
    else {
      parts = open(data);
      postMessage({ ready: await parts });
    }
  } catch (error) {
    postMessage({ failed: String(error?.message ?? error) });
  }
};
