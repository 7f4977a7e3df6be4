/* library.mjs - the functions of the package, for a module that the caller has compiled. */

export class TenureError extends Error {
  constructor(result) {
    const said = result.stderr.split("\n").find((line) => line.includes("error:")) ?? result.stderr.trim();
    super(said.replace(/^tenure: error: /, "") || `exit status ${result.status}`);
    this.name = "TenureError";
    this.status = result.status;
    this.stderr = result.stderr;
  }
}

const bytesOf = (data) => (typeof data === "string" ? new TextEncoder().encode(data) : data instanceof Uint8Array ? data : new Uint8Array(data));

/* `compile` returns the WebAssembly.Module; it is asked once. */
export function makeLibrary({ factory, tenureRun, tenurePutFiles, tenureWritten, compile }) {
  let compiled = null;

  async function run(words, { files = {}, onProgress } = {}) {
    compiled ??= Promise.resolve(compile());
    const given = Object.entries(files).map(([path, data]) => [path, bytesOf(data)]);
    const line = onProgress && !words.some((word) => word.startsWith("--progress")) ? [words[0], "--progress=bar", ...words.slice(1)] : [...words];
    const result = await tenureRun(factory, await compiled, line, { onProgress, prepare: (FS) => tenurePutFiles(FS, given) });
    const made = tenureWritten(result.FS, new Map(given));
    return { status: result.status, stdout: new TextDecoder().decode(result.stdout), stderr: result.stderr, files: Object.fromEntries(made) };
  }

  /* Commands with --json; exit status 1 is an answer (it does not fit), too. */
  const answers = (command) => async (name, data, { options = [], ...others } = {}) => {
    const result = await run([command, name, "--json", ...options], { ...others, files: { ...others.files, [name]: data } });
    if (result.status > 1) throw new TenureError(result);
    return JSON.parse(result.stdout);
  };

  async function picture(name, data, { options = [], ...others } = {}) {
    const command = /\.(pickle|pkl)$/.test(name) ? "report" : "plan";
    const result = await run([command, name, ...options, "-o", "picture.html"], { ...others, files: { ...others.files, [name]: data } });
    if (result.files["picture.html"] === undefined) throw new TenureError(result);
    return new TextDecoder().decode(result.files["picture.html"]);
  }

  return { run, picture, plan: answers("plan"), estimate: answers("estimate"), arena: answers("arena"), report: answers("report") };
}
