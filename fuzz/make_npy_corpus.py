"""Writes the seeds of fuzz_npy into a folder: numpy's files and ONNX tensors, one idea each.

    python3 make_npy_corpus.py fuzz/corpus/npy
"""
import os
import sys

import numpy
from onnx import TensorProto, numpy_helper

NUMBERS = numpy.arange(6)
ARRAYS = {
    "f4": (NUMBERS.astype("<f4").reshape(2, 3), 1),
    "fortran": (numpy.asfortranarray(NUMBERS.astype("<i2").reshape(2, 3)), 1),
    "v2": (NUMBERS.astype("u1"), 2),
    "v3": (NUMBERS.astype("<c8")[:2], 3),
    "scalar": (numpy.array(True), 1),
    "big": (NUMBERS.astype(">i4"), 1),
    "empty": (numpy.zeros((0, 3), "<f8"), 1),
    "text": (numpy.array(["a", "bc"]), 1),
}
TENSORS = {
    "f4": numpy_helper.from_array(NUMBERS.astype("f4").reshape(2, 3), "x"),
    "typed": TensorProto(data_type=7, dims=[2, 2], int64_data=[1, -2, 3, 1 << 40]),
    "int4": TensorProto(data_type=22, dims=[3], int32_data=[0x21, 3]),
    "half": TensorProto(data_type=10, dims=[2], int32_data=[0x3c00, 0x8000]),
    "double": TensorProto(data_type=11, dims=[1], double_data=[1.5]),
}

for name, (array, version) in ARRAYS.items():
    with open(os.path.join(sys.argv[1], name + ".npy"), "wb") as file:
        numpy.lib.format.write_array(file, array, version=(version, 0))
for name, tensor in TENSORS.items():
    with open(os.path.join(sys.argv[1], name + ".pb"), "wb") as file:
        file.write(tensor.SerializeToString())
