/* assemble.mjs - puts the page, its worker, the module and the examples into one HTML file.

     node web/assemble.mjs GLUE.js MODULE.wasm PAGE.html */
import { readFileSync, writeFileSync } from "node:fs";
import { gzipSync } from "node:zlib";

const LARGEST = 1400 * 1024; /* bytes; the whole command, with every planner and reader, is in the module */
const [glue, wasm, target] = process.argv.slice(2);
const here = new URL(".", import.meta.url);
const read = (name) => readFileSync(new URL(name, here), "utf8");
const example = (label, folder, name) => [label, name, readFileSync(new URL(`../examples/${folder}/${name}`, here)).toString("base64")];

/* Comments and indentation are for people who read the source. */
const shorter = (text) => text.replace(/^\s*\/\*[^]*?\*\/\s*$/gm, "").replace(/^[ \t]+/gm, "").replace(/\n{2,}/g, "\n");
/* An end tag inside a script would end it. */
const inside = (text) => text.replace(/<\/(script)/gi, "<\\/$1").replace(/<!--/g, "<\\!--");
const examples = [
  example("a model", "models", "unet64.onnx"), example("a microcontroller model", "models", "wake_words.tflite"), example("a language model", "configs", "llama_8b.json"),
  example("an out-of-memory snapshot", "snapshots", "out_of_memory.pickle"), example("a table of buffers", "problems", "nine_buffers.csv"),
];
const parts = {
  "page.css": shorter(read("page.css")),
  "page.js": inside(shorter(read("page.js"))),
  "NOTICES.txt": read("NOTICES.txt").replace(/&/g, "&amp;").replace(/</g, "&lt;"),
  samples: inside(JSON.stringify(examples)),
  module: gzipSync(readFileSync(wasm), { level: 9 }).toString("base64"),
  worker: inside(`${readFileSync(glue, "utf8")}\n${shorter(read("command.js"))}\n${shorter(read("worker.js"))}`),
};
const page = read("page.html").replace(/\{\{([\w.]+)\}\}/g, (all, name) => parts[name]);
writeFileSync(target, page);
const size = Buffer.byteLength(page);
console.log(`${target}: ${size} bytes, of which ${parts.module.length} are the module`);
if (size > LARGEST) {
  console.error(`assemble: error: the page has more than ${LARGEST} bytes`);
  process.exit(1);
}
