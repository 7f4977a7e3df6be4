/* worker.js - the Web Worker of the page: compiles the module once, then runs commands.

   Messages in:  {module: gzip bytes}; {words, files: [[path, File]]}
   Messages out: {ready}; {progress}; {done: {status, stdout, stderr, files: [[path, bytes]]}}; {failed: text} */
let compiled = null;

async function unpack(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return WebAssembly.compile(await new Response(stream).arrayBuffer());
}

async function runCommand({ words, files }) {
  const wasm = await compiled;
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
    if (data.module) {
      compiled = unpack(data.module);
      await compiled;
      postMessage({ ready: true });
    } else {
      postMessage({ done: await runCommand(data) });
    }
  } catch (error) {
    postMessage({ failed: String(error?.message ?? error) });
  }
};
