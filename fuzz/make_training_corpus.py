"""Writes the seeds of fuzz_idx, fuzz_checkpoint and fuzz_shards.

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


def checkpoint(*tensors, magic=b"TENURECK"):
    run = struct.pack("<5Q4I", 3, 1, 8, 1, 96, 2, 1, 0, 0)
    return magic + struct.pack("<2I", 3, len(tensors)) + run + bytes(8) + b"".join(tensors)


def stretch(number, whole, at, size):
    """Bytes [at, at + size) of a tensor of 24 bytes."""
    return struct.pack("<I", number) + whole[:-24] + struct.pack("<2Q", at, size) + whole[-24:][at:at + size]


def shards(*stretches, names=("f.ck.1.0-of-1",)):
    """A file that names one part, behind its size; and that part."""
    entries = [struct.pack("<I", len(name)) + name.encode() + bytes(17) for name in names]
    index = checkpoint(*entries, magic=b"TENURESS")
    return struct.pack("<H", len(index)) + index + checkpoint(*stretches, magic=b"TENURESH")


FLOATS = struct.pack("<6f", 0, 1, -1, 0.5, float("inf"), float("nan"))
W, M = kept("w", 0, 1, [2, 3], FLOATS), kept("w.moment1", 2, 1, [6], FLOATS)
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
    "shards/none.ck": shards(),
    "shards/whole.ck": shards(stretch(0, W, 0, 24), stretch(1, M, 0, 24)),
    "shards/joined.ck": shards(stretch(1, M, 0, 24), stretch(0, W, 8, 16), stretch(0, W, 0, 8)),
    "shards/missing.ck": shards(stretch(0, W, 4, 20)),
    "shards/twice.ck": shards(stretch(0, W, 0, 24), names=("f.ck.1.0-of-1", "f.ck.1.0-of-1")),
    "shards/elsewhere.ck": shards(stretch(0, W, 0, 24), names=("../f.ck",)),
    "shards/itself.ck": shards(stretch(0, W, 0, 24), names=("f.ck",)),
}
for name, data in SEEDS.items():
    path = os.path.join(sys.argv[1], name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(data)
