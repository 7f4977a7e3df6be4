#!/usr/bin/env python3
"""Writes seeds of fuzz_split: small .tflite networks that take less memory in parts.

    make_split_corpus.py FOLDER
"""
import os
import pathlib
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "examples", "models"))
import make_tflite  # noqa: E402


def pair(model):
    source = model.tensor("x", [1, 24, 24, 1])
    at = model.convolution(source, "a", 6, (3, 3))
    return source, model.convolution(at, "b", 2, (3, 3), 2)


def depthwise(model):
    source = model.tensor("x", [1, 16, 16, 2])
    at = model.convolution(source, "a", 8, (1, 1))
    at = model.convolution(at, "b", 0, (3, 3), 2, depthwise=True)
    return source, model.classify(at, 2)


folder = pathlib.Path(sys.argv[1])
folder.mkdir(exist_ok=True)
for make in (pair, depthwise):
    with tempfile.NamedTemporaryFile(suffix=".tflite") as file:
        model = make_tflite.Model(3)
        model.save(file.name, *make(model))
        data = pathlib.Path(file.name).read_bytes()
    for share in (0, 32):  # of the difference between the whole and the smallest, in parts of 128
        (folder / ("%s_%d_tflite.bin" % (make.__name__, share))).write_bytes(bytes([share << 1 | 1]) + data)
