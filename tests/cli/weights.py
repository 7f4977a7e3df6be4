#!/usr/bin/env python3
"""`tenure run --weights FILE.safetensors`: the same bits as a model that carries those weights itself.

    weights.py TENURE

Models and files of weights are written here, byte by byte, so that neither onnx nor safetensors is needed.
"""
import json
import pathlib
import random
import struct
import subprocess
import sys
import tempfile

tenure = sys.argv[1]
failed = 0


def varint(value):
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def field(number, content):
    if isinstance(content, int):
        return varint(number << 3) + varint(content)
    content = content.encode() if isinstance(content, str) else content
    return varint(number << 3 | 2) + varint(len(content)) + content


def value(name, shape):
    dims = b"".join(field(1, field(1, extent)) for extent in shape)
    return field(1, name) + field(2, field(1, field(1, 1) + field(2, dims)))


def node(kind, inputs, outputs):
    return b"".join(field(1, name) for name in inputs) + b"".join(field(2, name) for name in outputs) + field(4, kind)


def model(weights):
    """y = Relu(x w + b) v, weights as float32; weights: name to (shape, numbers)."""
    nodes = [node("MatMul", "xw", "h"), node("Add", "hb", "s"), node("Relu", "s", "r"), node("MatMul", "rv", "y")]
    graph = b"".join(field(1, each) for each in nodes) + field(2, "g")
    for name, (shape, numbers) in weights.items():
        raw = struct.pack("<%df" % len(numbers), *numbers)
        graph += field(5, b"".join(field(1, extent) for extent in shape) + field(2, 1) + field(8, name) + field(9, raw))
    graph += field(11, value("x", (3, 8))) + field(12, value("y", (3, 5)))
    return field(1, 8) + field(8, field(1, "") + field(2, 17)) + field(7, graph)


def safetensors(tensors):
    """tensors: name to (dtype, shape, bytes)."""
    header, contents = {}, b""
    for name, (dtype, shape, raw) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(contents), len(contents) + len(raw)]}
        contents += raw
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + contents


def run(folder, *more):
    done = subprocess.run([tenure, "run", *more], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    return done.returncode, done.stdout, done.stderr


def outputs(folder, *more):
    status, out, err = run(folder, *more, "--json")
    assert status == 0, err
    return [each["xxh3"] for each in json.loads(out)["outputs"]]


def check(what, good, why=""):
    global failed
    if not good:
        print("FAILED:", what, why)
        failed = 1


def refused(folder, pattern, *more):
    status, _, err = run(folder, *more)
    check(more, status == 2 and pattern in err, err)


def halves(numbers):
    return struct.pack("<%de" % len(numbers), *numbers)


def bfloats(numbers):
    return b"".join(struct.pack("<f", number)[2:] for number in numbers)


def main():
    print("seed 5")
    draw = random.Random(5)
    numbers = lambda count: [draw.randrange(-128, 128) / 64 for _ in range(count)]  # exact in every type here
    true = {"w": ((8, 8), numbers(64)), "b": ((8,), numbers(8)), "v": ((8, 5), numbers(40))}
    other = {name: (shape, numbers(len(content))) for name, (shape, content) in true.items()}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "true.onnx").write_bytes(model(true))
        (folder / "other.onnx").write_bytes(model(other))
        mixed = {"w": ("F32", (8, 8), struct.pack("<64f", *true["w"][1])), "b": ("F16", (8,), halves(true["b"][1])),
                 "v": ("BF16", (8, 5), bfloats(true["v"][1])), "elsewhere": ("I64", (1,), bytes(8))}
        (folder / "all.safetensors").write_bytes(safetensors(mixed))
        (folder / "part.safetensors").write_bytes(safetensors({"w": mixed["w"]}))
        (folder / "turned.safetensors").write_bytes(safetensors({"v": ("F32", (5, 8), bytes(160))}))
        (folder / "whole.safetensors").write_bytes(safetensors({"v": ("I8", (8, 5), bytes(40))}))
        (folder / "none.safetensors").write_bytes(safetensors({"layer.w": mixed["w"]}))
        partly = dict(other, w=true["w"])
        (folder / "partly.onnx").write_bytes(model(partly))
        for plain in [], ["--plain"]:
            expected = outputs(folder, "true.onnx", *plain)
            check("other weights, other outputs", expected != outputs(folder, "other.onnx", *plain))
            check("all", outputs(folder, "other.onnx", "--weights", "all.safetensors", *plain) == expected)
            check("part", outputs(folder, "other.onnx", "--weights", "part.safetensors", *plain) ==
                  outputs(folder, "partly.onnx", *plain))
        status, out, _ = run(folder, "other.onnx", "--weights", "all.safetensors", "--check", "naive", "--poison")
        check("told", status == 0 and "3 tensors of all.safetensors" in out and "every bit equal" in out, out)
        refused(folder, "[5, 8] in the file of weights, but [8, 5]", "other.onnx", "--weights", "turned.safetensors")
        refused(folder, "does not become the model's float32", "other.onnx", "--weights", "whole.safetensors")
        refused(folder, "none of its 1 tensors", "other.onnx", "--weights", "none.safetensors")
        refused(folder, "nowhere.safetensors", "other.onnx", "--weights", "nowhere.safetensors")
    return failed


sys.exit(main())
