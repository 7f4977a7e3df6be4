#!/usr/bin/env python3
"""Weights that do not fit: runs within a part of the weights' bytes, beside the run where all stay.

    bench/stream.py TENURE MODEL.onnx... [--parts 1.0,0.5,0.25,0.1] [--threads 1] [--repeat 5] [--storage 1GB/s]
    bench/stream.py TENURE --gpt2-xl FOLDER [--budget 1GiB]

Models have their weights in files (tools/fill-weights makes some up; one with made-up weights alone is read from a file of forms).
For each part: planned = measured peak of arena and weights, at most that part of the weights' bytes; every output bit by bit that
of the run where all stay, or, where an operator runs in slices, whose kernels may sum in another order, within 1e-5 of its largest
element, which is told; time (the fastest of --repeat runs; nothing that is read stays in the system's cache, so each run is
cold; with --storage reads take no less than that), predicted and measured, and how long it waited. --gpt2-xl writes a network with the
shapes of GPT-2 1.5B and 6 GB of made-up weights into FOLDER, runs it in --budget and removes it.
Exit status 1: something of this does not hold.
"""
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

NOISE = 1e-5


def run(tenure, model, threads, repeat, extra):
    command = [tenure, "run", str(model), "--json", "--threads", str(threads), "--repeat", str(repeat), *extra]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        return None, done.stderr.strip().splitlines()[-1]
    return json.loads(done.stdout), None


def apart(arguments, model, extra):
    """The largest difference of outputs from those of the run where all stay, of their largest element."""
    import numpy
    arrays = []
    for options in ([], extra):
        with tempfile.TemporaryDirectory() as folder:
            run(arguments.tenure, model, arguments.threads, 1, [*options, "--output-dir", folder])
            arrays.append([numpy.load(path) for path in sorted(pathlib.Path(folder).iterdir())])
    return max(float(abs(b.astype(float) - a).max() / (abs(a).max() or 1)) for a, b in zip(*arrays))


def mib(count):
    return f"{count / (1 << 20):.1f}"


def compare(arguments, model):
    wrong = False
    whole, why = run(arguments.tenure, model, arguments.threads, arguments.repeat, [])
    if whole is None:
        sys.exit(f"{model}: {why}")
    sums = [output["xxh3"] for output in whole["outputs"]]
    print(f"\n**{pathlib.Path(model).stem}**: weights {mib(whole['weights'])} MiB, arena {mib(whole['planned_peak'])} MiB, "
          f"{whole['seconds'] * 1e3:.1f} ms where all stay\n")
    print("| part | budget MiB | peak MiB | read a run MiB | stays MiB | storage GB/s | predicted ms | measured ms | off | waits ms | times | bits |")
    print("|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---|")
    for part in arguments.parts:
        budget = int(whole["weights"] * part)
        extra = ["--budget", str(budget), "--allow", "stream,split", *arguments.storage]
        one, why = run(arguments.tenure, model, arguments.threads, arguments.repeat, extra)
        if one is None:
            print(f"| {part} | {mib(budget)} | {why} |")
            wrong = True
            continue
        peak, streamed = one["measured_peak"], one.get("streamed")
        bits = "equal" if [output["xxh3"] for output in one["outputs"]] == sums else "differ"
        if bits == "differ" and "split" in one:
            noise = apart(arguments, model, extra)
            bits = f"{noise:.1e} in slices" if noise <= NOISE else "differ"
        if bits == "differ" or peak > budget or peak != one["planned_peak"]:
            print(f"FAILED: peak {peak} of {one['planned_peak']}, budget {budget}, outputs {bits}")
            wrong = True
        if streamed is None:
            print(f"| {part} | {mib(budget)} | {mib(peak)} | all stays |")
            continue
        print(f"| {part} | {mib(budget)} | {mib(peak)} | {mib(streamed['fetched_bytes'])} | {mib(one['weights'])} | "
              f"{streamed['storage_bytes_per_s'] / 1e9:.2f} | {streamed['predicted_s'] * 1e3:.1f} | {one['seconds'] * 1e3:.1f} | "
              f"{100 * (streamed['predicted_s'] / one['seconds'] - 1):+.1f} % | {streamed['waited_s'] * 1e3:.1f} | "
              f"{one['seconds'] / whole['seconds']:.2f} | {bits} |", flush=True)
    return wrong


# --- shapes of GPT-2 1.5B -----------------------------------------------------------------------

def gpt2(folder, layers=48, width=1600, heads=25, words=50257, tokens=64):
    """A decoder without cache, as exports of GPT-2 have it; weights of 6 GB beside the model."""
    import numpy
    from onnx import TensorProto, helper, save_model
    nodes, initial, at = [], [], 0
    path = folder / "gpt2_xl.weights"
    draw = numpy.random.default_rng(1)
    with open(path, "wb") as out:
        def weight(name, *shape):
            nonlocal at
            tensor = TensorProto(name=name, dims=shape, data_type=TensorProto.FLOAT, data_location=TensorProto.EXTERNAL)
            count = int(numpy.prod(shape))
            for first in range(0, count, 1 << 24):
                size = min(1 << 24, count - first)
                out.write(((draw.random(size, dtype=numpy.float32) - 0.5) * 0.04).tobytes())
            for key, value in (("location", path.name), ("offset", str(at)), ("length", str(4 * count))):
                tensor.external_data.add(key=key, value=value)
            at += 4 * count
            initial.append(tensor)
            return name

        def node(kind, inputs, output, **attributes):
            nodes.append(helper.make_node(kind, inputs, [output], **attributes))
            return output

        def constant(name, values):
            initial.append(helper.make_tensor(name, TensorProto.INT64, [len(values)], values))
            return name
        apart = constant("apart", [1, tokens, heads, width // heads])
        together = constant("together", [1, tokens, width])
        mask = numpy.triu(numpy.full((tokens, tokens), -1e9, numpy.float32), 1)
        initial.append(helper.make_tensor("mask", TensorProto.FLOAT, mask.shape, mask.ravel()))
        initial.append(helper.make_tensor("scale", TensorProto.FLOAT, [], [(width // heads) ** -0.5]))
        x = node("Add", [node("Gather", [weight("wte", words, width), "ids"], "word"), weight("wpe", tokens, width)], "x")
        for i in range(layers):
            name = f"h{i}."
            n = node("LayerNormalization", [x, weight(name + "ln1", width), weight(name + "ln1b", width)], name + "n1", axis=-1)
            parts = []
            for part, turn in zip("qkv", ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3])):
                y = node("MatMul", [n, weight(name + part, width, width)], name + part + "m")
                y = node("Add", [y, weight(name + part + "b", width)], name + part + "a")
                parts.append(node("Transpose", [node("Reshape", [y, apart], name + part + "r")], name + part + "t", perm=turn))
            y = node("Add", [node("Mul", [node("MatMul", parts[:2], name + "qk"), "scale"], name + "s"), "mask"], name + "masked")
            y = node("MatMul", [node("Softmax", [y], name + "soft", axis=-1), parts[2]], name + "pv")
            y = node("Reshape", [node("Transpose", [y], name + "o", perm=[0, 2, 1, 3]), together], name + "c")
            y = node("Add", [node("MatMul", [y, weight(name + "proj", width, width)], name + "pm"), weight(name + "projb", width)], name + "pa")
            x = node("Add", [x, y], name + "x1")
            n = node("LayerNormalization", [x, weight(name + "ln2", width), weight(name + "ln2b", width)], name + "n2", axis=-1)
            y = node("Add", [node("MatMul", [n, weight(name + "fc", width, 4 * width)], name + "f"), weight(name + "fcb", 4 * width)], name + "fa")
            y = node("Add", [node("MatMul", [node("Relu", [y], name + "g"), weight(name + "out", 4 * width, width)], name + "u"),
                             weight(name + "outb", width)], name + "ua")
            x = node("Add", [x, y], name + "x2")
        n = node("LayerNormalization", [x, weight("lnf", width), weight("lnfb", width)], "n", axis=-1)
        node("MatMul", [n, weight("head", width, words)], "logits")
        out.flush()
        os.fsync(out.fileno())
    graph = helper.make_graph(nodes, "gpt2_xl", [helper.make_tensor_value_info("ids", TensorProto.INT64, [1, tokens])],
                              [helper.make_tensor_value_info("logits", TensorProto.FLOAT, [1, tokens, words])], initial)
    model = folder / "gpt2_xl.onnx"
    save_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), str(model))
    return model, at


def large(arguments):
    folder = pathlib.Path(arguments.gpt2_xl)
    folder.mkdir(parents=True, exist_ok=True)
    try:
        model, size = gpt2(folder)
        command = ["/usr/bin/time", "-f", "%M KiB at most resident, %e s in all", arguments.tenure, "run", str(model), "--threads",
                   str(arguments.threads), "--budget", arguments.budget, "--allow", "stream", "--repeat", "2", "--forms", str(folder)]
        print(f"{size:,} bytes of weights; " + " ".join(command[3:]), flush=True)
        return subprocess.run(command).returncode != 0
    finally:
        for name in ("gpt2_xl.onnx", "gpt2_xl.weights"):
            (folder / name).unlink(missing_ok=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tenure")
    parser.add_argument("models", nargs="*")
    parser.add_argument("--parts", type=lambda text: [float(part) for part in text.split(",")], default=[1.0, 0.5, 0.25, 0.1])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--storage", type=lambda text: ["--storage", text], default=[], metavar="SIZE/s")
    parser.add_argument("--gpt2-xl", metavar="FOLDER")
    parser.add_argument("--budget", default="1GiB")
    arguments = parser.parse_args()
    if shutil.which(arguments.tenure) is None and not os.path.exists(arguments.tenure):
        parser.error(f"no program {arguments.tenure}")
    if arguments.gpt2_xl is not None:
        sys.exit(large(arguments))
    sys.exit(any([compare(arguments, model) for model in arguments.models]))


if __name__ == "__main__":
    main()
