#!/usr/bin/env python3
"""examples/embedding/tvm_usmp.py with stand-ins of TVM's classes: tvm_usmp.py SOURCE LIBRARY

Buffers in conflict never share bytes, and intervals reach the peak of their live bytes.
"""
import os
import random
import sys
import types

source = os.path.abspath(sys.argv[1])
sys.dont_write_bytecode = True
os.environ["TENURE_LIBRARY"] = os.path.abspath(sys.argv[2])
sys.path[:0] = [os.path.join(source, folder) for folder in ("bindings/python", "examples/embedding", "tests")]
from count import case_count  # noqa: E402


class PoolAllocation:
    def __init__(self, pool_info, byte_offset):
        self.pool_info, self.byte_offset = pool_info, byte_offset


class BufferInfo:
    def __init__(self, name_hint, size_bytes, pool_candidates, alignment):
        self.name_hint, self.size_bytes, self.pool_candidates = name_hint, size_bytes, pool_candidates
        self.alignment, self.conflicts = alignment, []


registered = {}
for name in ("tvm", "tvm.tir", "tvm.tir.usmp", "tvm.tir.usmp.utils"):
    sys.modules[name] = types.ModuleType(name)
sys.modules["tvm"].register_func = lambda name: lambda function: registered.setdefault(name, function)
sys.modules["tvm.tir.usmp.utils"].PoolAllocation = PoolAllocation
import tvm_usmp  # noqa: E402,F401

algorithm = registered["tir.usmp.algo.tenure"]


def one(seed):
    rng = random.Random(seed)
    pools = [types.SimpleNamespace(pool_name=f"pool{i}") for i in range(rng.randint(1, 2))]
    intervals = seed % 2 == 0
    buffers, lives = [], []
    for i in range(rng.randint(1, 25)):
        first = rng.randint(0, 20)
        lives.append((first, first + rng.randint(0, 6)))
        buffers.append(BufferInfo(f"b{i}", rng.randint(1, 64) * 16, [rng.choice(pools)], rng.choice([1, 16])))
    order = sorted(range(len(buffers)), key=lambda i: lives[i])
    buffers, lives = [buffers[i] for i in order], [lives[i] for i in order]
    for i, a in enumerate(buffers):
        for k, b in enumerate(buffers[:i]):
            meets = lives[i][0] <= lives[k][1] and lives[k][0] <= lives[i][1] if intervals else rng.random() < 0.3
            if meets and a.pool_candidates == b.pool_candidates:
                a.conflicts.append(b)
                b.conflicts.append(a)
    found = algorithm(buffers, 0)
    assert set(found) == set(buffers)
    for a in buffers:
        at = found[a].byte_offset
        assert found[a].pool_info is a.pool_candidates[0] and at % a.alignment == 0
        for b in a.conflicts:
            assert at + a.size_bytes <= found[b].byte_offset or found[b].byte_offset + b.size_bytes <= at
    for pool in pools if intervals else []:
        members = [i for i, b in enumerate(buffers) if b.pool_candidates[0] is pool]
        peak = max((sum(buffers[i].size_bytes for i in members if lives[i][0] <= step <= lives[i][1]) for step in range(30)))
        assert max((found[buffers[i]].byte_offset + buffers[i].size_bytes for i in members), default=0) >= peak


cases = case_count(150, 20)
for each in range(cases):
    one(each)
print(f"{cases} sets of buffers: all as expected")
