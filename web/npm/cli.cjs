#!/usr/bin/env node
/* cli.cjs - `npx tenure`: the command, with the files of this machine. */
"use strict";
const fs = require("node:fs");
const path = require("node:path");
const { factory, tenureRun } = require("./module.cjs");

/* The folders of the root get the same names in the instance, so that a path means what it means outside. On Windows only
   the current folder is there, and paths are relative. */
function mount(FS, { NODEFS }) {
  if (process.platform === "win32") {
    FS.mount(NODEFS, { root: process.cwd() }, "/work");
    return;
  }
  for (const name of fs.readdirSync("/")) {
    const folder = `/${name}`;
    if (name === "dev" || name === "proc" || name === "sys") continue;
    try {
      if (!fs.statSync(folder).isDirectory()) continue;
      if (!FS.analyzePath(folder).exists) FS.mkdir(folder);
      FS.mount(NODEFS, { root: fs.realpathSync(folder) }, folder);
    } catch {
      /* a folder that this user may not read */
    }
  }
  FS.chdir(process.cwd());
}

async function main() {
  const words = process.argv.slice(2);
  /* the command spools a pipe into an unlinked file, which Emscripten's view of the machine's folders cannot read again */
  if (words.some((word, index) => word === "-" && !/^(-o|--output)$/.test(words[index - 1]))) throw Object.assign(new Error("standard input is not read here; name a file"), { status: 2 });
  const bar = process.stderr.isTTY && words.length > 1 && !/^(-|help$|version$|list$|completion$)/.test(words[0]) && !words.some((word) => word.startsWith("--progress"));
  if (bar) words.splice(1, 0, "--progress=bar");
  let drawn = false;
  const clear = () => {
    if (drawn) process.stderr.write("\r\x1b[K");
    drawn = false;
  };
  const wasm = await WebAssembly.compile(fs.readFileSync(path.join(__dirname, "tenure.wasm")));
  const result = await tenureRun(factory, wasm, words, {
    prepare: mount,
    columns: process.stdout.columns,
    onProgress(text) {
      fs.writeSync(2, `\r\x1b[K${text}`);
      drawn = true;
    },
    onError(text) {
      clear();
      fs.writeSync(2, text);
    },
  });
  clear();
  for (let at = 0; at < result.stdout.length;) at += write(result.stdout, at);
  process.exitCode = result.status;
}

/* A pipe whose reader is slow answers EAGAIN; one that is closed ends the command. */
function write(bytes, at) {
  try {
    return fs.writeSync(1, bytes, at, bytes.length - at);
  } catch (error) {
    if (error.code === "EAGAIN") return 0;
    if (error.code === "EPIPE") process.exit(0);
    throw error;
  }
}

main().catch((error) => {
  process.stderr.write(`tenure: error: ${error.message}\n`);
  process.exitCode = error.status ?? 4;
});
