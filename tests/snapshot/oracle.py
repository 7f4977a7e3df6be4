#!/usr/bin/env python3
"""The reader of pickles against CPython's: random structures, all protocols, shared and circular.

    oracle.py PICKLE_DUMP [--count N] [--seed N]
"""
import argparse
import os
import pickle
import pickletools
import random
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
from count import case_seed  # noqa: E402

INTEGERS = [0, 1, -1, 127, 128, 255, 256, 65535, 65536, 2**31 - 1, 2**31, -2**31, -2**31 - 1, 2**53,
            2**63 - 1, 2**63, -2**63, -2**63 - 1, 2**64 - 1, 2**64, 2**71, -2**71, 2**2100, -(2**2048)]


def atom(rng, protocol):
    kind = rng.randrange(10)
    if kind == 0:
        return None
    if kind == 1:
        return rng.random() < 0.5
    if kind <= 3:
        return rng.choice(INTEGERS) + rng.choice([0, 0, 1, -1])
    if kind == 4:
        return rng.getrandbits(rng.randrange(1, 90)) * rng.choice([1, -1])
    if kind == 5:
        return rng.choice([0.0, -0.0, 1.5, float("inf"), float("-inf"), rng.uniform(-1e9, 1e9), 5e-324])
    if kind == 6 and protocol >= 3:  # protocol 2 has no bytes: it would call codecs.encode
        data = bytes(rng.getrandbits(8) for _ in range(rng.choice([0, 1, 9, 255, 256, 700])))
        return bytearray(data) if protocol == 5 and rng.random() < 0.5 else data
    return "".join(rng.choice("ab\u00e9\u20ac\U0001f600\x00 \n") for _ in range(rng.choice([0, 1, 5, 80, 300])))


def structure(rng, protocol, depth, made):
    """A random value; `made` are containers that may come again, the open ones among them."""
    kind = rng.randrange(12)
    if made and kind == 0:
        return rng.choice(made)
    if depth == 0 or kind < 4:
        return atom(rng, protocol)
    length = rng.choice([0, 1, 2, 3, 4, 7, 1001 if depth == 1 and rng.random() < 0.1 else 2])
    if kind < 7:
        value = []
        made.append(value)
        value.extend(structure(rng, protocol, depth - 1, made) for _ in range(length))
    elif kind < 10:
        value = {}
        made.append(value)
        for number in range(length):
            key = rng.choice([number, "key%d" % number, (number, "k"), float(number) + 0.5])
            value[key] = structure(rng, protocol, depth - 1, made)
    else:
        value = tuple(structure(rng, protocol, depth - 1, made) for _ in range(length))
    return value


def dump(value, seen):
    """As pickle_dump.c prints it."""
    if value is None:
        return "N"
    if value is True or value is False:
        return "T" if value else "F"
    if isinstance(value, int):
        if -2**63 <= value < 2**64:
            return "i%d" % value
        size = ((value if value >= 0 else ~value).bit_length()) // 8 + 1
        return "b" + value.to_bytes(size, "little", signed=True).hex()
    if isinstance(value, float):
        return "r" + struct.pack(">d", value).hex()
    if isinstance(value, str):
        return "s" + value.encode("utf-8").hex()
    if isinstance(value, (bytes, bytearray)):
        return "y" + value.hex()
    if isinstance(value, tuple):
        return "(" + " ".join(dump(item, seen) for item in value) + ")"
    if id(value) in seen:
        return "#%d" % seen[id(value)]
    number = seen[id(value)] = len(seen) + 1
    if isinstance(value, list):
        return "[%d:%s]" % (number, " ".join(dump(item, seen) for item in value))
    return "{%d:%s}" % (number, " ".join(dump(k, seen) + " " + dump(v, seen) for k, v in value.items()))


def run(program, pickles):
    with tempfile.NamedTemporaryFile() as file:
        for data in pickles:
            file.write(struct.pack("<I", len(data)) + data)
        file.flush()
        told = subprocess.run([program, file.name], capture_output=True, check=True)
    return told.stdout.decode().splitlines()


def check_structures(program, count, rng):
    pickles, expected = [], []
    for number in range(count):
        protocol = 2 + number % 4
        value = structure(rng, protocol, rng.randrange(1, 6), [])
        data = pickle.dumps(value, protocol)
        if number % 7 == 0:
            data = pickletools.optimize(data)  # without what nobody asks the memo for
        elif number % 7 == 1:
            data = pickle._dumps(value, protocol)  # by CPython's other pickler, in Python
        again = pickle.loads(data)  # what CPython makes of it: equal keys are one, and so on
        pickles.append(data)
        expected.append(dump(again, {}))
    for number, (mine, theirs) in enumerate(zip(run(program, pickles), expected)):
        assert mine == theirs, "structure %d:\n%s\n%s\n%r" % (number, mine, theirs, pickles[number])
    return len(pickles)


class Code:
    def __init__(self, *call):
        self.call = call

    def __reduce__(self):
        return self.call


def check_refused(program):
    """What would run code is refused, with its byte; so is every truncation of what is right."""
    hostile = [pickle.dumps({"segments": Code(os.system, ("false",))}, p) for p in range(2, 6)]
    hostile += [pickle.dumps(thing, p) for p in range(2, 6) for thing in ({1, 2}, 1j, range(3), Code)]
    hostile.append(b"cos\nsystem\n(S'false'\ntR.")
    for data, line in zip(hostile, run(program, hostile)):
        assert line.startswith("! pickle, byte "), (data, line)
        at = int(line.split("byte ")[1].split(":")[0])
        op = next((o for o, _, pos in pickletools.genops(data) if pos == at), None)
        assert op is not None and at < len(data), (data, line)
    codes = [line for line in run(program, hostile) if "asks for code to be run" in line]
    assert len(codes) >= 5, codes
    whole = pickle.dumps({"a": [1, 2.5, "x" * 300, (2**70, None)], "b": {"c": []}}, 4)
    cut = [whole[:size] for size in range(len(whole))]
    for line in run(program, cut):
        assert line.startswith("! pickle, byte "), line
    return len(hostile) + len(cut)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--count", type=int, default=10000)
    parser.add_argument("--seed", type=int, default=case_seed())
    options = parser.parse_args()
    print("seed %d" % options.seed)
    sys.setrecursionlimit(10000)
    same = check_structures(options.program, options.count, random.Random(options.seed))
    refused = check_refused(options.program)
    print("%d structures read as CPython reads them; %d pickles refused" % (same, refused))


if __name__ == "__main__":
    main()
