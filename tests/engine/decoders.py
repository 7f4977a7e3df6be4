"""Decoders with a cache, a prompt and then single tokens, in Tenure and in ONNX Runtime.

    decoders.py TENURE FOLDER DATA

TENURE is the command, FOLDER holds arrays and the npm package onnxruntime-node (installed there when it is nowhere),
DATA is ../shared/data/onnx-2026. Three exports: optimum (Attention of opset 23, caches that grow), the model builder
of onnxruntime-genai (GroupQueryAttention, 4-bit weights), a static cache (TensorScatter, Attention of opset 24). Each
step feeds the caches that the step before gave. The model of genai asks for 8-bit activations (accuracy_level 4),
which ONNX Runtime uses and Tenure does not: both run a copy that asks for float32.
Exit status: 0 all agree, 1 not all, 77 something is absent.
"""
import json
import os
import subprocess
import sys

try:
    import numpy
    import onnx
except ImportError:
    print("SKIP: python3-onnx is not installed")
    sys.exit(77)

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGE = "onnxruntime-node@1.30.0"
VOCABULARY, PROMPT, STEPS = 40, 5, 3


def modules(folder):
    if not os.path.isdir(os.path.join(folder, "node_modules", "onnxruntime-node")):
        os.makedirs(folder, exist_ok=True)
        done = subprocess.run(["npm", "install", "--ignore-scripts", "--no-save", "--no-package-lock", "--prefix",
                               folder, PACKAGE], capture_output=True, text=True, check=False)
        if done.returncode:
            print("SKIP: npm cannot install %s: %s" % (PACKAGE, done.stderr[-200:]))
            sys.exit(77)
    return folder


def file_name(name):
    return "".join(c if c.isascii() and (c.isalnum() or c == "-" or (c == "." and i)) else "_"
                   for i, c in enumerate(name))[:127]


def tenure(command, path, feeds, folder):
    line = [command, "run", path, "--json", "--output-dir", folder, "--poison"]
    for name, array in feeds.items():
        file = os.path.join(folder, "in_" + file_name(name) + ".npy")
        numpy.save(file, array)
        line += ["--input", "%s=%s" % (name, file), "--input-shape", "%s=%s" % (name, ",".join(map(str, array.shape)))]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit("tenure: " + done.stderr)
    report = json.loads(done.stdout)
    return {o["name"]: numpy.load(os.path.join(folder, file_name(o["name"]) + ".npy")) for o in report["outputs"]}


def runtime(where, path, feeds, folder):
    inputs = []
    for name, array in feeds.items():
        file = os.path.join(folder, "in_" + file_name(name) + ".bin")
        array.tofile(file)
        inputs.append({"name": name, "type": str(array.dtype), "dims": list(array.shape), "file": file})
    manifest = os.path.join(folder, "manifest.json")
    with open(manifest, "w", encoding="utf-8") as file:
        json.dump({"modules": where, "runs": [{"model": path, "folder": folder, "inputs": inputs}]}, file)
    done = subprocess.run(["node", os.path.join(HERE, "ort_run.mjs"), manifest], capture_output=True, text=True,
                          check=False)
    entry = json.loads(done.stdout.splitlines()[0])
    if "error" in entry:
        sys.exit("ONNX Runtime: " + entry["error"])
    return {o["name"]: numpy.fromfile(os.path.join(folder, "%d.bin" % i), o["type"]).reshape(o["dims"])
            for i, o in enumerate(entry["outputs"])}


def feeds_of(kind, model, tokens, done, caches):
    """Inputs of one step: `tokens` new ids, `done` tokens in the caches."""
    count, feeds = len(tokens), {"input_ids": numpy.array([tokens], numpy.int64)}
    names = [i.name for i in model.graph.input if i.name.startswith("past")]
    for name in names:
        empty = {"optimum": 0, "genai": 0, "opset24_static_cache": PROMPT + STEPS}[kind]
        feeds[name] = caches.get(name.replace("past_key_values", "present"),
                                 numpy.zeros([1, 2, empty, 16], numpy.float32))
    if kind == "genai":
        feeds["attention_mask"] = numpy.ones([1, done + count], numpy.int64)
    if kind == "opset24_static_cache":
        feeds["pos"] = numpy.arange(done, done + count, dtype=numpy.int64)[None]
        feeds["write"] = numpy.array([done], numpy.int64)
        feeds["nonpad"] = numpy.array([done + count], numpy.int64)
    return feeds


def check(command, where, data, kind, limit):
    path, folder = "%s/decoder_%s.onnx" % (data, kind), os.path.join(where, "decoder_" + kind)
    os.makedirs(folder, exist_ok=True)
    model, random = onnx.load(path), numpy.random.default_rng(7)
    for attribute in [a for n in model.graph.node for a in n.attribute if a.name == "accuracy_level"]:
        attribute.i = 0
    path = os.path.join(folder, "model.onnx")
    onnx.save(model, path)
    caches, done, worst, count = {}, 0, 0, 0
    for step in range(1 + STEPS):
        tokens = random.integers(0, VOCABULARY, PROMPT if step == 0 else 1).tolist()
        feeds = feeds_of(kind, model, tokens, done, caches)
        ours, theirs = tenure(command, path, feeds, folder), runtime(where, path, feeds, folder)
        for name, wanted in theirs.items():
            got = ours[name]
            if got.shape != wanted.shape:
                print("%s, step %d: %s is %s, not %s" % (kind, step, name, got.shape, wanted.shape))
                return False
            worst = max(worst, float(numpy.abs(got - wanted).max() / numpy.abs(wanted).max()))
            count += 1
        caches, done = ours, done + len(tokens)
    good = worst <= limit
    print("decoder_%s: a prompt of %d tokens and %d steps, %d outputs, error %.1e: %s" % (
        kind, PROMPT, STEPS, count, worst, "agrees" if good else "DIFFERS, limit %.0e" % limit))
    return good


def main():
    command, folder, data = sys.argv[1:4]
    if not os.path.exists(data + "/decoder_genai.onnx"):
        print("SKIP: no shared data")
        return 77
    where = os.path.abspath(modules(folder))
    good = [check(command, where, os.path.abspath(data), kind, 1e-4)
            for kind in ("optimum", "opset24_static_cache", "genai")]
    return 0 if all(good) else 1


sys.exit(main())
