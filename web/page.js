/* page.js - the page: takes files, offers commands for their kind, shows what the command answers.

   Everything runs in one worker. Cancelling ends it and starts another, because a command is one synchronous call. */
"use strict";
const $ = (id) => document.getElementById(id);
const examples = {{examples}}; /* [label, file name] */

/* --- kinds of files: how they are recognised, the commands for them, and options that are often added ---

   In a command, {} stands for the file. The first command of a kind runs at once when a file is dropped. */
const PICTURE = "-o picture.html";
const SAVE = ["-o plan.json", "-o plan.csv", "-o plan.svg"];
const MODEL = {
  commands: [["Plan", `plan {} ${PICTURE}`], ["Training step", `plan {} --train ${PICTURE}`], ["Estimate", "estimate {}"],
    ["Estimate training", "estimate {} --train"], ["Explain the peak", "plan {} --explain"]],
  options: ["--batch 8", "--device t4", "--order auto", "--holders", ...SAVE, "--json"] };
const EVENTS = { commands: [["Report", `report {} ${PICTURE}`], ["Compare pools", "replay {}"]], options: ["--top 30", "--device 0", "--json"] };
const KINDS = {
  onnx: { about: "ONNX model", suffixes: ".onnx .pt2", ...MODEL },
  exported: { about: "program of torch.export", ...MODEL },
  tflite: { about: "TensorFlow Lite model", suffixes: ".tflite",
    commands: [["Arena", `arena {} ${PICTURE}`], ["Plan", `plan {} ${PICTURE}`], ["C header", "arena {} -o arena.h"],
      ["Model with plan", "arena {} -o planned.tflite"], ["Explain the peak", "plan {} --explain"]],
    options: ["--target cortex-m7", "--target esp32-s3", "--max 96KiB", "--kernels cmsis-nn", "--json"] },
  buffers: { about: "table of buffers", suffixes: ".csv of buffers",
    commands: [["Plan", `plan {} ${PICTURE}`], ["Explain the peak", "plan {} --explain"], ["Offsets", "plan {} -o offsets.csv"]],
    options: ["--capacity 1MiB", "--planner exact", "--timeout 10", ...SAVE, "--json"] },
  plan: { about: "plan or problem", suffixes: ".json plan",
    commands: [["Plan", `plan {} ${PICTURE}`], ["Explain the peak", "plan {} --explain"]], options: [...SAVE.slice(1), "--json"] },
  config: { about: "language model", suffixes: "config.json",
    commands: [["Estimate", "estimate {}"], ["4-bit weights", "estimate {} --weight-type int4"],
      ["Training on 8 GPUs", "estimate {} --train --parallel auto --devices 8 --device a100-80"]],
    options: ["--device t4", "--batch 8", "--sequence 4096", "--max-batch", "--json"] },
  weights: { about: "weights of a language model", suffixes: ".safetensors .gguf",
    commands: [["Estimate", "estimate {}"]], options: ["--device 24GiB", "--batch 8", "--sequence 4096", "--json"] },
  snapshot: { about: "memory snapshot of PyTorch", suffixes: ".pickle .trace.json", ...EVENTS },
  profiler: { about: "trace of PyTorch's profiler", ...EVENTS },
  program: { about: "memory plan of another tool", suffixes: ".pte -buffer-assignment.txt",
    commands: [["Check its plan", `report {} ${PICTURE}`], ["Plan again", `plan {} ${PICTURE}`]], options: ["--top 30", "--json"] },
  profile: { about: "profile of memory", suffixes: ".prof, node statistics", commands: [["Report", "report {}"]], options: ["--top 30", "--json"] },
  trace: { about: "trace of allocations", suffixes: ".csv of events",
    commands: [["Compare pools", "replay {} -o pools.svg"]], options: ["--pool caching", "--capacity 24GB", "--json"] },
  log: { about: "log of operators", suffixes: ".log",
    commands: [["Evict and recompute", `simulate {} ${PICTURE}`]], options: ["--budget 0.5", "--policy all", "--sweep", "--json"] },
};
const TWO = [["Compare", "diff {0} {1} -o picture.html"], ["Plan the first", `plan {0} ${PICTURE}`], ["Plan the second", `plan {1} ${PICTURE}`]];
const UNKNOWN = { about: "unknown kind of file", commands: [["Plan", `plan {} ${PICTURE}`], ["Estimate", "estimate {}"], ["Report", `report {} ${PICTURE}`]], options: ["--json"] };
const SHOWN = [["onnx", "plan, picture, training, estimate"], ["tflite", "arena, header, planned model"], ["config", "estimate: what it needs to run"],
  ["weights", "estimate, from the file's header"], ["snapshot", "which code held the memory"], ["buffers", "offsets for your allocator"], ["plan", "picture, explanation"],
  ["trace", "what each pool would reserve"], ["log", "what eviction would cost"], ["program", "is this plan valid, is there a smaller one"],
  ["profile", "what holds the memory"]];

/* The kind of a file by its name and first bytes, as src/cli/model/file_kind.c tells them apart. */
async function kindOf(path, file) {
  const name = path.toLowerCase();
  if (name.endsWith(".onnx")) return "onnx";
  if (name.endsWith(".tflite")) return "tflite";
  if (/\.(safetensors|gguf)$/.test(name)) return "weights";
  if (/\.(prof|pb\.gz)$/.test(name)) return "profile";
  if (/\.(pickle|pkl|gz)$/.test(name)) return "snapshot";
  if (name.endsWith(".pt2")) return "exported";
  if (/(\.pte|-buffer-assignment\.txt)$/.test(name)) return "program";
  if (name.endsWith(".log")) return "log";
  const head = await file.slice(0, 65536).text();
  if (name.endsWith(".csv")) return /^#name,/.test(head) ? "profile" : /^(action|thread)\b/i.test(head) ? "trace" : "buffers";
  if (!name.endsWith(".json")) return null;
  if (/"mem-plan"/.test(head)) return "plan";
  if (/"traceEvents"/.test(head)) return "profiler";
  return /"(model_type|hidden_size|architectures|n_embd|d_model|weight_map)"/.test(head) ? "config" : "plan";
}

/* --- the worker --- */

const code = URL.createObjectURL(new Blob([$("unpack").textContent, packedFiles["worker.js"]], { type: "text/javascript" }));
let parts = null, opened; /* unpacked by the first worker, so that a later one need not do it again */
const unpacked = new Promise((good) => { opened = good; });
let worker = null, waiting = null, began = 0, ticking = 0;

function startWorker() {
  worker = new Worker(code);
  worker.onmessage = ({ data }) => heard(data);
  worker.onerror = (event) => heard({ failed: event.message || "the worker did not start: the policy of the page or of its server forbids it" });
  worker.postMessage(parts ? { parts } : { packed: packedText, sizes: packedSizes });
}

function heard(data) {
  if (data.ready) {
    opened(parts = data.ready);
    document.documentElement.dataset.ready = "yes";
  }
  if (data.progress) progress(data.progress);
  if (data.done) finish(data.done);
  if (data.failed) {
    worker.terminate(); /* its instance is in an unknown state */
    startWorker();
    finish({ status: 4, stdout: "", stderr: `tenure: error: ${data.failed}\n`, files: [] });
  }
}

function seconds() { return `${((performance.now() - began) / 1000).toFixed(1)} s`; }
function progress(text) { waiting.text = text; tick(); }
function tick() { if (waiting) $("status").textContent = waiting.text ?? `running, ${seconds()}`; }

/* --- words of a command line --- */

/* Words are separated by spaces; quotes keep spaces. */
function split(line) {
  const words = [];
  for (const [, ...parts] of line.matchAll(/((?:"(?:[^"\\]|\\.)*"|'[^']*'|\\.|[^\s"'\\])+)/g))
    words.push(parts[0].replace(/"((?:[^"\\]|\\.)*)"|'([^']*)'|\\(.)/g, (all, double, single, escaped) =>
      double !== undefined ? double.replace(/\\(.)/g, "$1") : single ?? escaped));
  return words;
}
const quote = (word) => (/^[\w./=:@%+,-]+$/.test(word) ? word : `'${word.replace(/'/g, `'"'"'`)}'`);

/* --- running a command --- */

let files = []; /* [path, File] */

function run() {
  if (waiting) return;
  const words = split($("words").value);
  if (words[0] === "tenure") words.shift();
  if (words.length === 0) words.push("help");
  if (words[0] === "run" || words[0] === "train") {
    show({ status: 2, stdout: "", stderr: `tenure: error: '${words[0]}' executes a network, which this page cannot; install the command (make install)\n`, files: [] });
    return;
  }
  clearAnswer();
  /* the bar of the command, which is drawn only on a terminal unless it is asked for */
  const known = !["help", "version", "list", "completion"].includes(words[0]) && !words[0].startsWith("-");
  if (known && !words.some((word) => word.startsWith("--progress"))) words.splice(1, 0, "--progress=bar");
  waiting = {};
  began = performance.now();
  ticking = setInterval(tick, 200);
  busy(true);
  tick();
  worker.postMessage({ words, files });
}

function busy(is) {
  document.body.classList.toggle("busy", is);
  $("answer").hidden = false;
  $("cancel").hidden = !is;
  $("run").disabled = is;
  for (const button of $("actions").children) button.disabled = is;
  $("answer").setAttribute("aria-busy", is);
}

function cancel() {
  if (!waiting) return;
  worker.terminate();
  startWorker();
  finish({ status: null, stdout: "", stderr: "", files: [] });
}

function finish(result) {
  clearInterval(ticking);
  if (!waiting) return show(result);
  waiting = null;
  busy(false);
  show(result, seconds());
}

/* --- the answer --- */

const urls = [];
function clearAnswer() {
  for (const id of ["error", "text", "files", "picture"]) $(id).hidden = true;
  $("picture").removeAttribute("srcdoc");
  $("files").replaceChildren();
  for (const url of urls.splice(0)) URL.revokeObjectURL(url);
}

const SAID = { 0: "done", 1: "the answer is no (exit status 1)", 2: "not done: see the message", 3: "stopped before an answer", 4: "internal error" };

function bytesText(count) {
  const units = ["bytes", "KiB", "MiB", "GiB"];
  let unit = 0;
  while (count >= 1024 && unit < 3) { count /= 1024; unit++; }
  return `${unit === 0 ? count : count.toFixed(1)} ${units[unit]}`;
}

function show({ status, stdout, stderr, files: made }, time) {
  clearAnswer();
  $("answer").hidden = false;
  $("status").textContent = status === null ? `cancelled after ${time}` : `${SAID[status] ?? `exit status ${status}`}${time ? `, ${time}` : ""}`;
  $("error").textContent = stderr;
  $("error").hidden = stderr === "";
  $("error").classList.toggle("bad", status !== 0 && /error:/.test(stderr));
  $("text").textContent = stdout;
  $("text").hidden = stdout === "";
  $("text").classList.toggle("wrap", stdout.startsWith("{"));
  $("text").scrollTop = 0;
  const pictures = made.filter(([path]) => /\.(html|svg)$/.test(path));
  for (const [path, bytes] of made) $("files").append(link(path, bytes));
  if (made.length > 0) $("files").prepend(Object.assign(document.createElement("span"), { textContent: "Files to save:" }));
  $("files").hidden = made.length === 0;
  if (pictures.length === 0) return;
  const text = new TextDecoder().decode(pictures[0][1]);
  $("picture").srcdoc = pictures[0][0].endsWith(".svg") ? `<!doctype html><body style="margin:0;background:#fff">${text}` : text;
  $("picture").hidden = false;
}

function link(path, bytes) {
  const url = URL.createObjectURL(new Blob([bytes], { type: "application/octet-stream" }));
  urls.push(url);
  const anchor = Object.assign(document.createElement("a"), { href: url, download: path.split("/").pop(), textContent: path + " " });
  anchor.append(Object.assign(document.createElement("small"), { textContent: bytesText(bytes.length) }));
  return anchor;
}

/* --- choosing files --- */

/* An option or command line as a button. */
function button(text, title, act) {
  const made = Object.assign(document.createElement("button"), { type: "button", textContent: text, title });
  made.onclick = act;
  return made;
}

function press(line, pressed) {
  $("words").value = line;
  for (const each of $("actions").children) each.setAttribute("aria-pressed", each === pressed);
  run();
}

async function take(given) {
  if (given.length === 0) return;
  cancel();
  given.sort(([a], [b]) => a.split("/").length - b.split("/").length);
  files = given;
  const kinds = await Promise.all(files.map(([path, file]) => kindOf(path, file)));
  const first = Math.max(0, kinds.findIndex((kind) => kind !== null));
  const kind = KINDS[kinds[first]] ?? UNKNOWN;
  const both = files.length === 2 && kinds.every((each) => ["onnx", "exported", "tflite", "buffers", "plan"].includes(each));
  /* a folder of a language model: the folder itself is the argument */
  const folder = kinds[first] === "config" && files.length > 1 && files[first][0].includes("/") ? files[first][0].split("/").slice(0, -1).join("/") : null;
  const main = folder ?? files[first][0];
  $("choose").hidden = true;
  $("work").hidden = false;
  $("name").textContent = both ? files.map(([path]) => path).join(" and ") : main;
  $("about").textContent = both ? "two plans or models" : `${kind.about}, ${bytesText(files.reduce((sum, [, file]) => sum + file.size, 0))}${files.length > 1 ? ` in ${files.length} files` : ""}`;
  const fill = (line) => line.replace("{0}", () => quote(files[0][0])).replace("{1}", () => quote(files[1][0])).replace("{}", () => quote(main));
  $("actions").replaceChildren(...(both ? TWO : kind.commands).map(([label, line]) => {
    const made = button(label, `tenure ${fill(line)}`, () => press(fill(line), made));
    return made;
  }));
  $("options").replaceChildren(Object.assign(document.createElement("span"), { textContent: "Add:" }),
    ...(both ? ["--json"] : kind.options).map((option) => button(option, "Adds this option to the line and runs it", () => {
      if (!waiting && !split($("words").value).join(" ").includes(option)) $("words").value += ` ${option}`;
      run();
    })),
    button("all options", "tenure help COMMAND all", () => {
      const command = split($("words").value)[0] ?? "plan";
      if (waiting) return;
      const line = $("words").value;
      $("words").value = `help ${command} all`;
      run();
      $("words").value = line;
    }));
  $("actions").firstElementChild.click();
}

/* All files of a dropped folder, with their paths. */
async function walk(entry, prefix) {
  if (entry.isFile) return [[prefix + entry.name, await new Promise((good, bad) => entry.file(good, bad))]];
  const reader = entry.createReader(), found = [];
  for (;;) {
    const some = await new Promise((good, bad) => reader.readEntries(good, bad));
    if (some.length === 0) return found;
    for (const each of some) found.push(...await walk(each, `${prefix}${entry.name}/`));
  }
}

async function dropped(event) {
  event.preventDefault();
  document.body.classList.remove("over");
  const entries = [...event.dataTransfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
  const plain = [...event.dataTransfer.files].map((file) => [file.name, file]);
  const found = entries.length > 0 ? (await Promise.all(entries.map((entry) => walk(entry, "")))).flat() : plain;
  await take(found.slice(0, 1000));
}

document.addEventListener("dragover", (event) => { event.preventDefault(); document.body.classList.add("over"); });
document.addEventListener("dragleave", (event) => { if (!event.relatedTarget) document.body.classList.remove("over"); });
document.addEventListener("drop", dropped);
document.addEventListener("keydown", (event) => { if (event.key === "Escape") cancel(); });
$("picker").onchange = () => { const chosen = [...$("picker").files].map((file) => [file.name, file]); $("picker").value = ""; take(chosen); };
$("line").onsubmit = (event) => { event.preventDefault(); for (const each of $("actions").children) each.setAttribute("aria-pressed", false); run(); };
$("cancel").onclick = cancel;
$("other").onclick = () => { cancel(); clearAnswer(); $("answer").hidden = $("work").hidden = true; $("choose").hidden = false; $("picker").focus(); };
for (const [kind, use] of SHOWN) {
  const made = document.createElement("span");
  made.append(Object.assign(document.createElement("b"), { textContent: KINDS[kind].suffixes }), ` ${use}`);
  $("kinds").append(made);
}
for (const [label, name] of examples)
  $("examples").append(button(label, name, () => unpacked.then((found) => take([[name, new File([found.get(name)], name)]]))));
startWorker();
