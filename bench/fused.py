#!/usr/bin/env python3
"""One AllReduce for many gradients against one for each: messages, bytes, seconds, and how much passes behind the computing.

    python3 bench/fused.py BUILD [--gradients 100,1000] [--ranks 2,4] [--buckets 1B,64KiB,4MiB] [--width 64] [--steps 20]
                           [--rounds 3] [--mpi]

A network of as many gradients (weights and biases of layers of --width, half of each) is trained by ranks that are threads, or
with --mpi processes, for each size of bucket: of a byte, every gradient has a call of its own. Ways follow each other in every
round, and medians are told. Counts are exact, of what one rank sends in a step: calls (buckets, and one that adds up losses),
messages, MiB. Seconds are of a step, of rank 0's calls of others in one, and of those the share in which it computed. Gradients
are made where they lie in their bucket: nothing is copied there or back, whatever its size.
"""
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests" / "cli"))
import train_models as onnx  # noqa: E402


def make(path, gradients, width):
    nodes, weights, last = [], [], "x"
    for layer in range(gradients // 2):
        out = "y" if layer + 1 == gradients // 2 else f"h{layer}"
        product = out if out == "y" else f"g{layer}"
        nodes.append(onnx.node("Gemm", f"{last},w{layer},b{layer}", product))
        if out != "y":
            nodes.append(onnx.node("Tanh", product, out))
        weights += [onnx.weights(f"w{layer}", width, width), onnx.tensor(f"b{layer}", [width], [0.0] * width)]
        last = out
    onnx.model(path, nodes, [onnx.value("x", ["n", width])], [onnx.value("y", ["n", width])], weights)


def make_data(width):
    import random
    import struct
    rows = 64
    onnx.npy("x.npy", "<f4", f"({rows}, {width})", struct.pack(f"<{rows * width}f", *(random.gauss(0, 1) for _ in range(rows * width))))
    onnx.npy("y.npy", "<i8", f"({rows},)", struct.pack(f"<{rows}q", *(random.randrange(width) for _ in range(rows))))


def train(tenure, model, ranks, bucket, options):
    way = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", str(ranks)] if options["mpi"] else []
    words = [*way, tenure, "train", model, "--data", "x.npy,y.npy", "--batch", str(8 * ranks), "--steps", options["--steps"],
             "--optimizer", "momentum", "--bucket", bucket, "--parallel", f"data={ranks}", "--json"]
    done = subprocess.run(words + ([] if way else ["--ranks-as-threads"]), capture_output=True, text=True,
                          env=dict(os.environ, OMP_NUM_THREADS="1"), check=False)
    if done.returncode != 0:
        sys.exit(done.stderr)
    return json.loads(done.stdout)


def row(gradients, ranks, bucket, told, steps):
    rank = told[0]["ranks"][0]
    hidden = [max(0, 1 - r["stall_seconds"] / r["talk_seconds"]) for t in told for r in t["ranks"][:1] if r["talk_seconds"] > 0]
    return [str(gradients), str(ranks), bucket, f"{rank['step_messages'] / steps:.0f}", f"{rank['step_bytes'] / steps / 2 ** 20:.2f}",
            f"{1e3 * statistics.median(t['seconds'] / steps for t in told):.2f}",
            f"{1e3 * statistics.median(t['ranks'][0]['talk_seconds'] for t in told):.2f}", f"{100 * statistics.median(hidden or [0]):.0f}"]


def main():
    words = sys.argv[1:]
    options = {"--gradients": "100,1000", "--ranks": "2,4", "--buckets": "1B,64KiB,4MiB", "--width": "64", "--steps": "20", "--rounds": "3",
               "mpi": "--mpi" in words}
    for name in [key for key in options if key in words]:
        options[name] = words[words.index(name) + 1]
    tenure, width = os.path.abspath(f"{words[0]}/tenure"), int(options["--width"])
    print("| gradients | ranks | bucket | messages | MiB | ms a step | ms in calls | hidden % |\n|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        make_data(width)
        for gradients in map(int, options["--gradients"].split(",")):
            make("net.onnx", gradients, width)
            for ranks in map(int, options["--ranks"].split(",")):
                told = {bucket: [] for bucket in options["--buckets"].split(",")}
                for _ in range(int(options["--rounds"])):
                    for bucket, list_of in told.items():
                        list_of.append(train(tenure, "net.onnx", ranks, bucket, options))
                for bucket, list_of in told.items():
                    print("| " + " | ".join(row(gradients, ranks, bucket, list_of, int(options["--steps"]))) + " |", flush=True)


main()
