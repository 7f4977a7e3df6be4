#!/usr/bin/env python3
"""Every rule of `tenure list combinations` holds: for each row, a command line that breaks it ends with status 2 and one line that names
the option, the other one and the reason. The command lines are made from the rows.

    combine.py TENURE MODELS
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

tenure, models = sys.argv[1], pathlib.Path(sys.argv[2]).resolve()
folder = tempfile.TemporaryDirectory()
os.chdir(folder.name)
MODEL, TINY, PROBLEM, CONFIG, WEIGHTS = "five_operators.onnx", "keywords.tflite", "buffers.csv", "config.json", "w.safetensors"
for name in MODEL, TINY:
    pathlib.Path(name).symlink_to(models / name)
pathlib.Path(PROBLEM).write_text("id,lower,upper,size\na,0,3,600\nb,1,4,500\n")
pathlib.Path("plan.csv").write_text("id,lower,upper,size,offset\na,0,3,600,0\nb,1,4,500,600\n")
pathlib.Path("problem.json").write_text("{}")
pathlib.Path(CONFIG).write_text(json.dumps({
    "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64, "vocab_size": 100,
    "max_position_embeddings": 64}))
pathlib.Path("stats.csv").write_text("#name,input_sizes,initializers_sizes,total_dynamic_sizes,total_temp_allocations\nrelu,8,0,8,0\n")
header = json.dumps({"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
pathlib.Path(WEIGHTS).write_bytes(len(header).to_bytes(8, "little") + header + bytes(4))

# What each command needs in any case: its input, then options.
BASE = {"plan": [MODEL], "verify": [MODEL, "--plan", "plan.csv"], "diff": [MODEL, MODEL], "arena": [TINY], "estimate": [MODEL], "run": [MODEL],
        "train": [MODEL, "--data", "x.npy"], "fit": [MODEL, "--budget", "1MiB", "--costs", "model:t4"], "split": [MODEL],
        "simulate": [PROBLEM], "replay": [PROBLEM], "report": ["s.pickle"], "watch": ["1"], "embed": ["replay", PROBLEM, "--cache", "1MiB"]}
# Words of conditions: how each one is met, and how it is not. A first word that is a file replaces the input.
FORMULAS, TO_RUN = [CONFIG, "--train"], [CONFIG]
CONDITIONS = {
    "a model": ([MODEL], [PROBLEM]),
    "an .onnx model": (None, [TINY]),
    "a plan of another tool (an XLA dump, a .pte program)": (["k.pte"], None),
    "a profile or statistics (JAX, ONNX Runtime)": (["stats.csv"], None),
    "a .tflite model": (None, [MODEL]),
    "a plan for a microcontroller (-o FILE.tflite, or -o FILE.h for a .tflite model)": ([TINY, "-o", "k.tflite"], None),
    "swapping": (None, []),
    "MODEL": ([MODEL], None),
    "kernels of this machine": (None, ["--kernels", "none"]),
    "pipeline stages": (None, []),
    "--parallel interleave=N": (["--parallel", "interleave=2"], None),
    "several tensor ranks": (None, []),
    "several data-parallel ranks": (None, []),
    "a single process": (None, []),
    "an estimate by formulas (config.json, --parallel tensor=N, --shard, --recompute)": (FORMULAS, [MODEL]),
    "the run of a language model (its folder, config.json, .safetensors or .gguf file, without --train)": (TO_RUN, [MODEL]),
    "a config.json": (FORMULAS, None),
    "a weights file": ([WEIGHTS], None),
    "--runtime NAME": (["--runtime", "vllm"], None),
    "an estimate with a plan": (None, ["--pool", "caching"]),
    "a plan of an .onnx model": (None, ["--pool", "caching"]),
    "the speed of a device": (None, ["--device", "80GiB"]),
    "--parallel auto or --sweep": (["--sweep"], None),
    "--parallel tensor=N,pipeline=N,data=N": (["--parallel", "tensor=2"], None),
    "create": (["create", "t.rows"], None),
    "replay": (["replay", PROBLEM, "--cache", "1MiB"], None),
}
# Rows that need another base.
OTHER_BASE = {"fit --problem": ["--budget", "1MiB"], "embed --zipf": ["replay", "--cache", "1MiB"]}
# Options that another rule asks for first.
FIRST = {"report --bars cannot": ["-o", "out.html"],
         "run --host-budget needs swapping": ["--budget", "1MiB"], "train --host-budget needs swapping": ["--budget", "1MiB"],
         "run --swap-device needs --allow": ["--budget", "1MiB"], "train --swap-device needs --allow": ["--budget", "1MiB"],
         "run --allow": ["--budget", "1MiB"], "train --allow": ["--budget", "1MiB"], "estimate --allow swap": ["--budget", "1MiB"],
         "train --whole-sends needs several": ["--parallel", "pipeline=2"], "estimate --whole-sends needs several": ["--parallel", "pipeline=2"],
         "fit --allow stream cannot": ["--storage", "1GB/s"], "fit --run needs kernels": ["--costs", "model:t4"],
         "train --online needs --link": ["--budget", "1MiB"], "train --online cannot": ["--budget", "1MiB", "--link", "1GB/s"],
         "train --online needs a single": ["--budget", "1MiB", "--link", "1GB/s"],
         "plan --sweep cannot": ["--split"], "estimate --parallel auto needs the speed": ["--devices", "8"],
         "plan --momentum needs --opt": ["--train"], "verify --momentum needs --opt": ["--train"], "fit --momentum needs --opt": ["--train"],
         "estimate --momentum has": ["--optimizer", "momentum"], "estimate --as cannot": ["--optimizer", "momentum"],
         "fit --codecs float16": ["--allow", "compress"], "fit --max-error needs --run": ["--lossy"], "estimate --max-batch has": ["--device", "t4"], "estimate --gather-ahead has": ["--shard", "parameters"]}
VALUES = {"N": "2", "SIZE": "1MiB", "SIZE/s": "1GB/s", "SPEED": "1GB/s", "TIME": "9s", "SHARE": "10%", "RATE": "0.5", "EXPONENT": "1.0",
          "B1": "0.5", "X": "0.5", "NUMBER": "0.5"}
NAMED = {"report device": "1", "swap": "a", "planner": "auto", "order": "memory", "pool": "caching", "device": "t4", "swap-device": "host", "loss": "cross-entropy", "schedule": "gpipe",
         "alignment": "64", "bank": "a=none", "dim": "N=2", "input-shape": "A=2,2", "value": "A=1", "parameter": "A", "format": "nchw",
         "stream": "type:Conv=1", "momentum": "0.5", "weight-decay": "0.5", "recompute-work": "0.5", "host-experts": "all", "cached-experts": "2", "freeze": "zebra", "trainable": "zebra", "optimizer": "adam", "train prune": "0.5", "prune-weights": "zebra", "dtype": "bf16", "loss-scale": "2", "costs": "model:t4", "codecs": "bits",
         "allow": "order", "kernels": "plain", "weight-type": "int4", "cache-type": "f16", "problem": "problem.json", "forms": ".",
         "save-costs": "costs.json", "table": PROBLEM, "trace": "t.trace.json", "plan": "inside", "runtime": "1MiB", "parallel": "safe",
         "shard": "optimizer", "recompute": "full", "extra-work": "10%", "policy": "lru", "output": "out.html", "pass": "joint", "online": "capuchin", "by": "line"}
JOIN = re.compile(r", | or ")
failed = 0


def run(words, **more):
    return subprocess.run([tenure, *words], capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL, **more)


def arguments(command):
    """{option: placeholder, None: no value}."""
    text = run([command, "--help=all"], env={**os.environ, "COLUMNS": "200"}).stdout
    return {name: value for name, value in re.findall(r"^ {2,6}(?:-\w, )?--([a-z-]+)(?:=(\S+))?", text, re.M)}


def option(command, text):
    """The words that give an option as a rule names it: "--allow swap", "--kernels plain|onednn", "--shard (not none)", "-o"."""
    if text == "-o":
        return ["-o", "out.csv" if command == "arena" else "out.html"]
    name, _, value = text[2:].partition(" ")
    if "=" in name:
        return ["--" + name]
    if value.startswith("(not"):
        value = ""
    takes = known[command][name]
    if not takes:
        return ["--" + name]
    return ["--" + name, value.split("|")[0] or NAMED.get(f"{command} {name}") or NAMED.get(name) or VALUES.get(takes) or takes.split("|")[0]]


def others(text):
    """The options and conditions of "--a, --b x or a model"."""
    found = []
    while text:
        for words in sorted(CONDITIONS, key=len, reverse=True):
            if text.startswith(words):
                found.append(words)
                break
        else:
            found.append(JOIN.split(text)[0])
        text = JOIN.sub("", text[len(found[-1]):], count=1)
    return found


def merge(*parts):
    """A first word that is a file or an action replaces the input; of an option given twice, both stay, as the last one counts."""
    inputs, words = [], []
    for part in parts:
        if part and not part[0].startswith("-"):
            count = next((i for i, word in enumerate(part) if word.startswith("-")), len(part))
            inputs, part = part[:count], part[count:]
        words += part
    return inputs + words


def without(words, names):
    """The words without options that would meet a rule."""
    kept, i = [], 0
    while i < len(words):
        if words[i] in names:
            i += 2
        else:
            kept.append(words[i])
            i += 1
    return kept


def attempt(command, row, words, says):
    global failed
    environment = None
    if "a single process" in row:  # Open MPI starts, and leaks memory of its own
        options = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0:use_sigaltstack=0"
        environment = {**os.environ, "OMPI_COMM_WORLD_SIZE": "2", "ASAN_OPTIONS": options}
    done = run([command, *words], env=environment)
    lines = done.stderr.splitlines()
    if done.returncode != 2 or len(lines) != 1 or any(part not in lines[0] for part in says) or len(lines[0]) > 420:
        print(f"FAILED: {row}\n    tenure {command} {' '.join(words)}\n    {done.returncode}: {done.stderr.strip()}, not {says}")
        failed = 1


def check(name, rule):
    command, _, subject = name.partition(" ")
    row = f"{name} {rule}"
    when = re.match(r"(with|without) (.*?): (?=needs|cannot|has)", rule)
    parts = [OTHER_BASE.get(name, BASE[command])]
    if when and name not in OTHER_BASE:
        parts.append(CONDITIONS[when[2]][when[1] == "without"] or [])
    if when:
        rule = rule[when.end():]
    relation, rest = re.match(r"(needs|cannot be combined with|has no effect on) (.*)", rule).groups()
    rest, why = rest.split("; ")[0], ""
    if ": " in rest:
        rest, why = rest.split(": ", 1)
    parts += [words for text, words in FIRST.items() if f"{name} {rule}".startswith(text)]
    if subject in CONDITIONS:
        has = CONDITIONS[subject][0]
        called = subject
    else:
        has = option(command, subject)
        called = re.split(r"[ =]", subject)[0]
    told = others(rest)
    if command == "diff":
        parts.append([PROBLEM, PROBLEM])
    if name == "estimate --momentum" and "--train" in told:
        return 0  # --momentum needs --optimizer first, and then --optimizer needs --train
    if relation == "needs":
        missing = [CONDITIONS[one][1] or [] for one in told if one in CONDITIONS and command != "diff"]
        names = [re.split(r"[ =]", one)[0] for one in told if one not in CONDITIONS]
        words = without(merge(*parts, *missing, has), [one for one in names if one != called])
        if names and names[0] == "--allow" and "--allow" not in words:
            words += [] if subject.startswith(("--storage", "--forms", "--codecs")) else ["--allow", "order"]
        attempt(command, row, words, [called, "needs", told[0], why])
        return 1
    for one in told:
        met = CONDITIONS[one][0] if one in CONDITIONS else option(command, one)
        attempt(command, row, merge(*parts, met, has), [called, relation, one.split("|")[0], why])
    return len(told)


rows = json.loads(run(["list", "combinations", "--json"]).stdout)
known = {command: arguments(command) for command in BASE}
count = sum(check(row["name"], row["rule"]) for row in rows)
print(f"{len(rows)} rules, {count} command lines")
if len(rows) < 200:
    sys.exit("FAILED: few rules")
sys.exit(failed)
