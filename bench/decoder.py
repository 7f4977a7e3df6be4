#!/usr/bin/python3
"""One token of a decoder whose cache holds N tokens: Tenure next to ONNX Runtime, in one run.

    bench/decoder.py TENURE FOLDER [--tokens 1024,8192] [--weights float32,int4] [--layers 8] [--repeat 20] [--threads 1]

FOLDER receives the models and holds the npm package onnxruntime-node (tests/engine/decoders.py installs it there). The
decoder is made here, in the form of onnxruntime-genai's model builder (GroupQueryAttention with rotary embedding, 512
wide, 8 heads, 2 KV heads of 64, MLP of 1,536, 8,192 words, random weights), float32 or 4-bit in blocks of 32. Both
programs run the same file with the same inputs: one token, and a cache that already has N - 1. They alternate, round by
round, so that a busy machine slows both; each row has the fastest run of either.

Columns: milliseconds of a token and tokens per second of both, their ratio (above 1: Tenure is faster), and bytes in
addition to the weights: Tenure's arena, which holds old and new cache and every input, and what ONNX Runtime's arena
took from the system by its own log. The greatest difference of the logits, relative to the largest, is printed; above
1e-3 the exit status is 1.
"""
import argparse
import json
import os
import subprocess
import sys

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

WIDE, HEADS, KV_HEADS, HEAD, MLP, WORDS, BLOCK = 512, 8, 2, 64, 1536, 8192, 32
HERE = os.path.dirname(os.path.abspath(__file__))


class Builder:
    """Collects nodes and initializers; every matrix product is float32 or 4-bit."""

    def __init__(self, weights):
        self.weights, self.nodes, self.tensors, self.random = weights, [], [], numpy.random.default_rng(5)

    def constant(self, name, array):
        self.tensors.append(numpy_helper.from_array(numpy.array(array, order="C"), name))
        return name

    def node(self, kind, inputs, outputs, domain="com.microsoft", **attributes):
        self.nodes.append(helper.make_node(kind, inputs, outputs, domain=domain, **attributes))
        return outputs[0]

    def product(self, name, source, rows, columns):
        if self.weights == "float32":
            matrix = self.random.standard_normal((rows, columns), numpy.float32) / numpy.sqrt(rows)
            return self.node("MatMul", [source, self.constant(name + "_w", matrix)], [name], domain="")
        blocks = rows // BLOCK
        packed = self.random.integers(0, 256, (columns, blocks, BLOCK // 2), numpy.uint8)
        scales = numpy.full(columns * blocks, 0.25 / numpy.sqrt(rows), numpy.float32)
        return self.node("MatMulNBits", [source, self.constant(name + "_q", packed), self.constant(name + "_s", scales)], [name],
                         K=rows, N=columns, bits=4, block_size=BLOCK)

    def norm(self, name):
        return self.constant(name, numpy.ones(WIDE, numpy.float32))


def make(path, weights, layers, tokens):
    """Writes the model for `tokens` tokens, all sizes fixed. Returns its inputs as arrays."""
    b, qkv = Builder(weights), (HEADS + 2 * KV_HEADS) * HEAD
    angles = numpy.arange(tokens)[:, None] / 10000 ** (numpy.arange(HEAD // 2)[None] * 2 / HEAD)
    cos, sin = b.constant("cos", numpy.cos(angles).astype(numpy.float32)), b.constant("sin", numpy.sin(angles).astype(numpy.float32))
    table = b.constant("embedding", b.random.standard_normal((WORDS, WIDE), numpy.float32))
    b.constant("seqlens", numpy.array([tokens - 1], numpy.int32))
    b.constant("total", numpy.array(tokens, numpy.int32))
    residual = b.node("Gather", [table, "input_ids"], ["x0"], domain="")
    hidden = b.node("SimplifiedLayerNormalization", [residual, b.norm("n0")], ["h0"], domain="", axis=-1, epsilon=1e-6, stash_type=1)
    feeds, presents = {"input_ids": numpy.array([[3]], numpy.int64)}, []
    for i in range(layers):
        p = "l%d_" % i
        past = ["past.%d.%s" % (i, kind) for kind in ("key", "value")]
        for name in past:
            feeds[name] = b.random.standard_normal((1, KV_HEADS, tokens - 1, HEAD), numpy.float32)
        presents += [name.replace("past", "present") for name in past]
        b.node("GroupQueryAttention", [b.product(p + "qkv", hidden, WIDE, qkv), "", "", *past, "seqlens", "total", cos, sin],
               [p + "a", *presents[-2:]], num_heads=HEADS, kv_num_heads=KV_HEADS, do_rotary=1)
        out = b.product(p + "o", p + "a", HEADS * HEAD, WIDE)
        b.node("SkipSimplifiedLayerNormalization", [residual, out, b.norm(p + "n")], [p + "h", "", "", p + "r"], epsilon=1e-6)
        gate = b.product(p + "g", p + "h", WIDE, MLP)
        b.node("Sigmoid", [gate], [p + "s"], domain="")
        b.node("Mul", [gate, p + "s"], [p + "gs"], domain="")
        b.node("Mul", [p + "gs", b.product(p + "u", p + "h", WIDE, MLP)], [p + "m"], domain="")
        down = b.product(p + "d", p + "m", MLP, WIDE)
        b.node("SkipSimplifiedLayerNormalization", [p + "r", down, b.norm(p + "n2")], [p + "h2", "", "", p + "r2"], epsilon=1e-6)
        hidden, residual = p + "h2", p + "r2"
    b.product("logits", hidden, WIDE, WORDS)
    kinds = {"int64": TensorProto.INT64, "float32": TensorProto.FLOAT}
    inputs = [helper.make_tensor_value_info(n, kinds[str(a.dtype)], a.shape) for n, a in feeds.items()]
    outputs = [helper.make_tensor_value_info("logits", TensorProto.FLOAT, [1, 1, WORDS])]
    outputs += [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, KV_HEADS, tokens, HEAD]) for n in presents]
    graph = helper.make_graph(b.nodes, "decoder", inputs, outputs, b.tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)], ir_version=8)
    onnx.save(model, path)
    return feeds


def run_tenure(arguments, path, feeds, folder):
    line = [arguments.tenure, "run", path, "--json", "--output-dir", folder, "--repeat", str(arguments.repeat), "--threads", str(arguments.threads)]
    for name in feeds:
        line += ["--input", "%s=%s" % (name, os.path.join(folder, name + ".npy"))]
    report = json.loads(subprocess.run(line, capture_output=True, text=True, check=True).stdout)
    return report, numpy.load(os.path.join(folder, "logits.npy"))


def run_runtime(arguments, path, feeds, folder):
    manifest = {"modules": os.path.abspath(arguments.folder), "model": path, "threads": arguments.threads, "repeat": arguments.repeat,
                "output": os.path.join(folder, "logits.bin"),
                "inputs": [{"name": n, "type": str(a.dtype), "dims": a.shape, "file": os.path.join(folder, n + ".raw")} for n, a in feeds.items()]}
    with open(os.path.join(folder, "manifest.json"), "w", encoding="utf-8") as file:
        json.dump(manifest, file)
    done = subprocess.run(["node", os.path.join(HERE, "decoder_ort.mjs"), file.name], capture_output=True, text=True, check=True)
    grown = sum(int(line.split("Extended allocation by ")[1].split()[0]) for line in done.stderr.splitlines() if "Extended allocation by " in line)
    return float(done.stdout.split()[0]), grown, numpy.fromfile(manifest["output"], numpy.float32).reshape(1, 1, WORDS)


def measure(arguments, weights, tokens):
    folder = os.path.join(os.path.abspath(arguments.folder), "%s_%d" % (weights, tokens))
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, "model.onnx")
    feeds = make(path, weights, arguments.layers, tokens)
    for name, array in feeds.items():
        numpy.save(os.path.join(folder, name + ".npy"), array)
        array.tofile(os.path.join(folder, name + ".raw"))
    ours = theirs = float("inf")
    for _ in range(3):
        report, logits = run_tenure(arguments, path, feeds, folder)
        ours = min(ours, report["seconds"] * 1e3)
        wall, grown, wanted = run_runtime(arguments, path, feeds, folder)
        theirs = min(theirs, wall)
    error = float(numpy.abs(logits - wanted).max() / numpy.abs(wanted).max())
    cache = sum(2 * a.nbytes // (tokens - 1) * tokens for n, a in feeds.items() if n.startswith("past"))
    print("| %s | %s | %.2f ms, %.0f/s | %.2f ms, %.0f/s | %.2f | %s | %s | %s | %.1e |" % (
        weights, f"{tokens:,}", ours, 1e3 / ours, theirs, 1e3 / theirs, theirs / ours, f"{cache // 2:,}", f"{report['planned_peak']:,}", f"{grown:,}", error),
        flush=True)
    return error <= 1e-3


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tenure")
    parser.add_argument("folder")
    parser.add_argument("--tokens", default="1024,8192")
    parser.add_argument("--weights", default="float32,int4")
    for name, number in (("layers", 8), ("repeat", 20), ("threads", 1)):
        parser.add_argument("--" + name, type=int, default=number)
    arguments = parser.parse_args()
    print("| weights | tokens | Tenure | ONNX Runtime | ratio | new cache | Tenure's arena | ONNX Runtime's arena | difference |\n|---|---|---|---|---|---|---|---|---|")
    good = [measure(arguments, weights, int(tokens)) for weights in arguments.weights.split(",") for tokens in arguments.tokens.split(",")]
    return 0 if all(good) else 1


sys.exit(main())
