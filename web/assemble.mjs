/* assemble.mjs - puts the page, its worker, the module and the examples into one HTML file.

     node web/assemble.mjs GLUE.js MODULE.wasm PAGE.html

   All but a shell is packed: what the page shows, the module, the JavaScript that emcc wrote for it, the examples. web/unpack.js
   takes them apart again. */
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
/* What is shown comes first, because it is unpacked by itself (web/shell.js). */
const shown = {
  "page.css": shorter(read("page.css")),
  "page.html": read("page.html").replace("{{NOTICES.txt}}", () => read("NOTICES.txt").replace(/&/g, "&amp;").replace(/</g, "&lt;")),
  "page.js": shorter(read("page.js")).replace("{{examples}}", () => JSON.stringify(examples.map(([label, , name]) => [label, name]))),
  "worker.js": ["command.js", "worker.js"].map((name) => shorter(read(name))).join("\n"),
};
const files = [...Object.entries(shown).map(([name, text]) => [name, Buffer.from(text)]),
  ["glue", readFileSync(glue)], ["module", readFileSync(wasm)], ...examples.map(([, folder, name]) => [name, example(folder, name)])];

/* Two bytes of the stream a character; web/unpack.js says what becomes a surrogate pair. */
function characters(bytes) {
  const units = [];
  for (let at = 0; at < bytes.length; at += 2) {
    const unit = bytes[at] | ((bytes[at + 1] ?? 0) << 8), special = [0, 13, 60].indexOf(unit);
    const number = unit >> 11 === 0x1b ? unit - 0xd800 : special < 0 ? -1 : 2048 + special;
    if (number < 0) units.push(unit);
    else {
      const pair = (number << 8) | (bytes[at++ + 2] ?? 0);
      units.push(0xd800 | (pair >> 10), 0xdc00 | (pair & 1023));
    }
  }
  return Buffer.from(Uint16Array.from(units).buffer).toString("utf16le");
}

const whole = Buffer.concat(files.map(([, bytes]) => bytes));
const packed = characters(execFileSync("xz", ["--format=raw", "--lzma1=preset=9e,dict=8MiB,lc=4,lp=0,pb=0", "--stdout"], { input: whole, maxBuffer: 2 ** 28 }));
const unpack = new Function(`${read("unpack.js")} return (text, size) => unpackLzma(unpackText(text), size);`)();
if (!whole.equals(unpack(packed, whole.length))) throw new Error("web/unpack.js does not give back what was packed");

const parts = { packed, sizes: JSON.stringify(files.map(([name, bytes]) => [name, bytes.length])),
  "unpack.js": inside(shorter(read("unpack.js"))), "shell.js": inside(shorter(read("shell.js"))) };
const page = "\ufeff" + read("shell.html").replace(/\{\{([\w.]+)\}\}/g, (all, name) => parts[name]);
writeFileSync(target, page, "utf16le");
console.log(`${target}: ${2 * page.length} bytes, of which ${2 * packed.length} are the packed files`);
