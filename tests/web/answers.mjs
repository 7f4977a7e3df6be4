/* answers.mjs - two builds of the command give the same answers: the same exit status, standard output, standard error and
   written files, to the byte, except measured times.

     node answers.mjs ROOT FIRST -- SECOND...     two commands; SECOND may have words before it, such as those of an emulator */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

/* Measured times may differ, and the plan of a report, because the clock ends its search. */
const timeless = (text) => text.replace(/"seconds":\{[^}]*\}/g, '"seconds":{}').replace(/"seconds":[\d.e+-]+/g, '"seconds":0')
  .replace(/"name":"planned"[^}]*/g, "").replace(/planned  .*/g, "")
  .replace(/^ *[\d.]+ m?s: import .*$/gm, "TIMES").replace(/^ *[\d.]+ m?s: .*$/gm, "TIMES");

/* Compares `first` and `second`, lists of words that begin a command line, on the files of the tree `root`. `few`: only its examples.
   The first difference throws, or each of them goes to `onDifference`. Returns the number of command lines. */
export function sameAnswers(first, second, root, { few = false, onDifference } = {}) {
  const work = mkdtempSync(join(tmpdir(), "tenure-answers-"));
  let checked = 0;

  function both(words, written = []) {
    const [one, other] = [first, second].map(([program, ...begin], index) => {
      const where = join(work, String(index));
      rmSync(where, { recursive: true, force: true });
      mkdirSync(where);
      const ran = spawnSync(program, [...begin, ...words], { cwd: where, maxBuffer: 1 << 28 });
      const files = written.map((name) => (existsSync(join(where, name)) ? timeless(readFileSync(join(where, name), "latin1")) : null));
      return { status: ran.status, stdout: timeless(ran.stdout.toString()), stderr: timeless(ran.stderr.toString()), files };
    });
    checked++;
    try {
      assert.deepEqual(other, one, `tenure ${words.join(" ")}`);
    } catch (error) {
      if (!onDifference) throw error;
      onDifference(error);
    }
  }

  const example = (path) => join(root, "examples", path);
  const shared = (path) => join(root, "../shared/data", path);
  const list = (place, suffix) => (existsSync(place) ? readdirSync(place).filter((name) => name.endsWith(suffix)).map((name) => join(place, name)) : []);

  const models = list(example("models"), ".onnx"), tiny = list(example("models"), ".tflite");
  const problems = list(example("problems"), ".csv"), configs = list(example("configs"), ".json");
  for (const model of [...models, ...tiny, ...problems]) both(["plan", model, "--json"]);
  for (const model of [...models, ...tiny]) both(["estimate", model, "--json"]);
  for (const model of models) both(["plan", model, "--train", "--batch", "2", "-o", "x.html", "-o", "x.json", "-o", "x.svg", "-o", "x.csv"], ["x.html", "x.json", "x.svg", "x.csv"]);
  for (const model of tiny) {
    both(["arena", model, "--json"]);
    both(["arena", model, "--target", "esp32-s3", "-o", "a.h", "-o", "a.tflite"], ["a.h", "a.tflite"]);
  }
  for (const config of configs) {
    both(["estimate", config, "--json"]);
    both(["estimate", config, "--device", "t4"]);
  }
  both(["estimate", example("configs/llama_8b.json"), "--train", "--parallel", "auto", "--devices", "8", "--device", "a100-80", "--json"]);
  for (const snapshot of list(example("snapshots"), ".pickle")) {
    both(["report", snapshot, "--json"]);
    both(["report", snapshot, "-o", "r.html"], ["r.html"]);
  }
  both(["replay", example("traces/two_steps.csv"), "-o", "pools.svg"], ["pools.svg"]);
  both(["diff", example("models/mobilenet_v2.onnx"), example("models/unet64.onnx"), "--json"]);
  both(["fit", example("models/unet64.onnx"), "--train", "--budget", "400MiB", "--costs", "model:v100-16", "--json"]);
  /* options: abbreviations, clusters of letters, the end of options, a value that looks like an option, and wrong ones */
  for (const words of [["plan", problems[0], "--js"], ["plan", "-qo", "p.csv", problems[0], "-op.json"], ["plan", "--json", "--", problems[0]],
    ["plan", problems[0], "--capacity=1MiB"], ["plan"], ["plan", problems[0], problems[0]], ["plan", problems[0], "--jsno"], ["plan", problems[0], "--capacity"],
    ["plan", "absent.onnx"], ["plna"], ["plan", "--help"], ["plan", "--help=all"], ["plan", problems[0], "-o", "-"], ["list", "planners"]])
    both(words, words.includes("-qo") ? ["p.csv", "p.json"] : []);

  if (few || !existsSync(shared(""))) {
    rmSync(work, { recursive: true });
    if (!few) console.log("SKIP: shared/data is not there: only the examples were compared");
    return checked;
  }
  const large = list(shared("onnx-weightless"), ".onnx").concat(list(shared("tflite"), ".tflite"), list(shared("tflite-2026"), ".tflite"));
  const problemFiles = list(shared("problems"), ".csv").filter((path) => /minimalloc_[A-CE-H]\.csv$/.test(path));
  for (const model of large) if (statSync(model).size < 4e6) both(["plan", model, "--planner", "best-fit", "--json"]);
  for (const problem of problemFiles) both(["plan", problem, "--json"]);
  rmSync(work, { recursive: true });
  return checked;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [root, first, , ...second] = process.argv.slice(2);
  let differences = 0;
  const count = sameAnswers([resolve(first)], second, resolve(root), { few: true, onDifference: (error) => { differences++; console.log(error.message); } });
  console.log(`${count} command lines: ${differences === 0 ? "the same bytes" : `${differences} with other bytes`}`);
  process.exitCode = differences === 0 ? 0 : 1;
}
