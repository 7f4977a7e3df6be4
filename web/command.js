/* command.js - runs the command `tenure` once, in a new instance of the WebAssembly module.

   The command ends like a process: its memory is freed with the instance, and a run never sees the state of an earlier run.
   `prepare` puts files into the instance's file system; the working folder is /work unless `prepare` changes it. */

/* Splits the bytes of standard error into lines and into states of the progress bar, which the command draws as
   "\r", "\x1b[K", text. */
function tenureErrorLines(onLine, onProgress) {
  const decoder = new TextDecoder();
  let bytes = [];
  function end(isLine) {
    const text = decoder.decode(new Uint8Array(bytes));
    bytes = [];
    const bar = text.startsWith("\x1b[K");
    if (isLine) onLine((bar ? text.slice(3) : text) + "\n");
    else if (bar && text.length > 3) onProgress(text.slice(3));
    else if (text !== "" && !bar) onLine(text);
  }
  return {
    byte(value) {
      if (value === 10) end(true);
      else if (value === 13) end(false);
      else if (value !== null) bytes.push(value);
    },
    end() { if (bytes.length > 0) end(false); },
  };
}

/* Bytes in one growing array. */
function tenureBytes() {
  let room = new Uint8Array(4096), size = 0;
  return {
    byte(value) {
      if (value === null) return;
      if (size === room.length) {
        const wider = new Uint8Array(2 * size);
        wider.set(room);
        room = wider;
      }
      room[size++] = value;
    },
    all: () => room.subarray(0, size),
  };
}

/* The files below /work that the command wrote, as [path, bytes]: all but those of the Map `given`, unless they were
   replaced. */
function tenureWritten(FS, given, prefix = "", found = []) {
  for (const name of FS.readdir(`/work/${prefix}`)) {
    if (name === "." || name === "..") continue;
    const path = prefix + name, { node } = FS.lookupPath(`/work/${path}`);
    if (FS.isDir(node.mode)) tenureWritten(FS, given, `${path}/`, found);
    else if (node.contents?.buffer !== given.get(path)?.buffer || !given.has(path)) found.push([path, FS.readFile(`/work/${path}`)]);
  }
  return found;
}

/* Puts `files`, a list of [path, Uint8Array], into /work of the instance. A path that would leave the folder is refused. */
function tenurePutFiles(FS, files) {
  for (const [path, bytes] of files) {
    const folders = path.split("/");
    if (folders.some((name) => name === "" || name === "." || name === "..")) throw new Error(`the file name '${path}' is not a relative path`);
    FS.mkdirTree(`/work/${folders.slice(0, -1).join("/")}`);
    FS.writeFile(`/work/${path}`, bytes, { canOwn: true }); /* not copied */
  }
}

/* Resolves to {status, stdout, stderr, FS}: the exit status of the process, and its bytes and text. A trap of WebAssembly, such as
   memory that cannot grow, rejects. */
async function tenureRun(factory, wasm, words, { prepare, onProgress = () => {}, onOutput, onError, input = () => null, columns } = {}) {
  const out = tenureBytes();
  let stderr = "", status = null, failure = null;
  const error = tenureErrorLines((line) => {
    stderr += line;
    if (onError) onError(line);
  }, onProgress);
  const module = await factory({
    thisProgram: "tenure",
    stdin: input,
    stdout: onOutput ?? out.byte,
    stderr: error.byte,
    onExit: (code) => { status = code; },
    quit: (code, end) => { throw end; }, /* or Node would end, too */
    onAbort: (what) => { failure = what; },
    preRun: [(self) => { if (columns) self.ENV.COLUMNS = String(columns); }],
    instantiateWasm(imports, use) {
      WebAssembly.instantiate(wasm, imports).then((instance) => use(instance, wasm));
      return {};
    },
  });
  module.FS.mkdir("/work");
  module.FS.chdir("/work");
  if (prepare) prepare(module.FS, module);
  try {
    const returned = module.callMain(words);
    if (status === null) status = returned;
  } catch (trap) {
    error.end();
    const reason = String(failure ?? trap?.message ?? trap);
    throw new Error(`tenure stopped: ${/memory|OOM/i.test(reason) ? "out of memory (a page has at most 4 GiB)" : reason}`);
  }
  error.end();
  return { status, stdout: out.all(), stderr, FS: module.FS };
}
