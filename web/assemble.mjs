/* assemble.mjs - puts the page, its worker, the module and the examples into one HTML file.

     node web/assemble.mjs GLUE.js MODULE.wasm PAGE.html

   The module, the JavaScript that emcc wrote for it and the examples are packed; web/unpack.js takes them apart again. */
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";

const [glue, wasm, target] = process.argv.slice(2);
const here = new URL(".", import.meta.url);
const read = (name) => readFileSync(new URL(name, here), "utf8");
const example = (folder, name) => readFileSync(new URL(`../examples/${folder}/${name}`, here));

/* Comments and indentation are for people who read the source. */
const shorter = (text) => text.replace(/^\s*\/\*[^]*?\*\/\s*$/gm, "").replace(/^[ \t]+/gm, "").replace(/\n{2,}/g, "\n");
/* An end tag inside a script would end it. */
const inside = (text) => text.replace(/<\/(script)/gi, "<\\/$1").replace(/<!--/g, "<\\!--");
const examples = [
  ["a model", "models", "unet64.onnx"], ["a microcontroller model", "models", "wake_words.tflite"], ["a language model", "configs", "llama_8b.json"],
  ["an out-of-memory snapshot", "snapshots", "out_of_memory.pickle"], ["a table of buffers", "problems", "nine_buffers.csv"],
];
const files = [["glue", readFileSync(glue)], ["module", readFileSync(wasm)], ...examples.map(([, folder, name]) => [name, example(folder, name)])];

/* Seven bits of the stream a character. HTML changes NUL and CR, and "<" could begin a tag. */
function sevenBits(bytes) {
  const letters = [];
  let bits = 0, count = 0;
  function put(value) {
    if (value === 0 || value === 13 || value === 60 || value === 61) letters.push(61, value + 64);
    else letters.push(value);
  }
  for (const byte of bytes) {
    bits = (bits << 8) | byte;
    for (count += 8; count >= 7; bits &= (1 << count) - 1) {
      count -= 7;
      put(bits >> count);
    }
  }
  if (count > 0) put(bits << (7 - count));
  return Buffer.from(letters).toString("latin1");
}

const whole = Buffer.concat(files.map(([, bytes]) => bytes));
const packed = sevenBits(execFileSync("xz", ["--format=raw", "--lzma1=preset=9e,dict=8MiB,lc=4,lp=0,pb=0", "--stdout"], { input: whole, maxBuffer: 2 ** 28 }));
const unpack = new Function(`${read("unpack.js")} return (text, size) => unpackLzma(unpackText(text), size);`)();
if (!whole.equals(unpack(packed, whole.length))) throw new Error("web/unpack.js does not give back what was packed");

const parts = {
  "page.css": shorter(read("page.css")),
  "page.js": inside(shorter(read("page.js"))),
  "NOTICES.txt": read("NOTICES.txt").replace(/&/g, "&amp;").replace(/</g, "&lt;"),
  examples: JSON.stringify(examples.map(([label, , name]) => [label, name])),
  sizes: JSON.stringify(files.map(([name, bytes]) => [name, bytes.length])),
  packed,
  worker: inside(["unpack.js", "command.js", "worker.js"].map((name) => shorter(read(name))).join("\n")),
};
const page = read("page.html").replace(/\{\{([\w.]+)\}\}/g, (all, name) => parts[name]);
writeFileSync(target, page);
console.log(`${target}: ${Buffer.byteLength(page)} bytes, of which ${packed.length} are the module with its JavaScript and the examples`);
