"""Writes the seeds of fuzz_idx and fuzz_checkpoint.

    python3 make_training_corpus.py fuzz/corpus
"""
import gzip
import os
import struct
import sys


def idx(dims, data):
    return bytes([0, 0, 8, len(dims)]) + struct.pack(">%dI" % len(dims), *dims) + data


def kept(name, role, dtype, shape, data):
    return struct.pack("<I", len(name)) + name.encode() + b"\0" + \
        struct.pack("<3I", role, dtype, len(shape)) + struct.pack("<%dq" % len(shape), *shape) + \
        struct.pack("<Q", len(data)) + data


def checkpoint(*tensors):
    run = struct.pack("<5Q4I", 3, 1, 8, 1, 96, 2, 1, 0, 0)
    return b"TENURECK" + struct.pack("<2I", 3, len(tensors)) + run + bytes(8) + b"".join(tensors)


FLOATS = struct.pack("<6f", 0, 1, -1, 0.5, float("inf"), float("nan"))
SEEDS = {
    "idx/pictures.idx": idx([2, 3, 3], bytes(range(18))),
    "idx/labels.idx": idx([4], b"\1\2\3\4"),
    "idx/packed.gz": gzip.compress(idx([2, 8, 8], bytes(128)), mtime=0),
    "idx/empty.idx": idx([0, 5], b""),
    "idx/absurd.idx": idx([1 << 31, 1 << 31, 1 << 31], b"1"),
    "idx/longer.idx": idx([2], b"123"),
    "checkpoint/none.ck": checkpoint(),
    "checkpoint/adam.ck": checkpoint(kept("w", 0, 1, [2, 3], FLOATS), kept("w.moment1", 2, 1, [6], FLOATS),
                                     kept("mean", 1, 1, [1], FLOATS[:4])),
    "checkpoint/scalar.ck": checkpoint(kept("", 2, 7, [], bytes(8))),
}
for name, data in SEEDS.items():
    path = os.path.join(sys.argv[1], name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(data)
