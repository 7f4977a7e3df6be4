#!/usr/bin/env python3
"""tenure.executorch.plan with stand-ins of ExecuTorch's classes: executorch.py SOURCE LIBRARY [SAMPLES]

The stand-ins follow exir/memory_planning.py and exir/tensor.py. Each plan is checked pair by pair here: no overlap of
lifetimes and bytes outside an in-place chain, alignment, memories, sizes. It must not need more than a greedy planner
that is implemented here, and not less than the live bytes.
"""
import json
import os
import pathlib
import random
import sys
import types

source = os.path.abspath(sys.argv[1])
sys.dont_write_bytecode = True
os.environ["TENURE_LIBRARY"] = os.path.abspath(sys.argv[2])
sys.path.insert(0, os.path.join(source, "bindings/python"))
sys.path.insert(0, os.path.join(source, "tests"))
from count import case_count  # noqa: E402


class SpecAllocResult:
    def __init__(self, mem_id, mem_obj_id, mem_offset):
        self.mem_id, self.mem_obj_id, self.mem_offset = mem_id, mem_obj_id, mem_offset


class MemoryAlgoResult:
    def __init__(self, spec_dict, bufsizes):
        self.spec_dict, self.bufsizes = spec_dict, bufsizes


class TensorSpec:
    """As exir/tensor.py: hash by identity; realign rounds up and remembers the alignment."""

    def __init__(self, nbytes, lifetime, mem_id=None, base=None):
        self.nbytes, self.lifetime, self.mem_id = nbytes, lifetime, mem_id
        self.alignment, self.allocated_memory = 1, nbytes
        if base is not None:
            self.inplace_base = base  # older versions have no such attribute
        self.mem_obj_id = self.mem_offset = None

    def realign(self, alignment):
        self.alignment = alignment
        self.allocated_memory = -(-self.nbytes // alignment) * alignment
        return self.allocated_memory


def suite(algorithms, alignment, specs, graph_module, padding):
    """The part of MemoryPlanningAlgorithmSuite that calls algorithms and takes the best result."""
    results = {getattr(a, "__name__", None): a(alignment, specs, graph_module, None, padding) for a in algorithms}
    assert None not in results and len(results) == len(algorithms)
    assert len({len(r.bufsizes) for r in results.values()}) == 1, "all lists have one length"
    name, best = min(results.items(), key=lambda row: sum(row[1].bufsizes))
    for spec, place in best.spec_dict.items():
        spec.mem_id, spec.mem_obj_id, spec.mem_offset = place.mem_id, place.mem_obj_id, place.mem_offset
    return name, results


def chain(spec):
    while getattr(spec, "inplace_base", None) is not None:
        spec = spec.inplace_base
    return spec


def greedy(alignment, specs, graph_module, graph_signature, extra_padding):
    """First fit of in-place chains by falling size, for comparison."""
    placed, found, totals = {}, {}, {}
    chains = {}
    for spec in specs:
        chains.setdefault(id(chain(spec)), []).append(spec)
    for row in sorted(chains.values(), key=lambda r: -max(s.realign(alignment) for s in r)):
        memory, size = row[0].mem_id or 1, max(s.allocated_memory for s in row)
        start = (getattr(graph_module, "input_mem_buffer_sizes", None) or [0] * 9)[memory]
        offset = -(-start // alignment) * alignment
        for at, taken, others in sorted(placed.get(memory, []), key=lambda p: p[0]):
            meets = any(a.lifetime[0] <= b.lifetime[1] and b.lifetime[0] <= a.lifetime[1] for a in row for b in others)
            if meets and at < offset + size and offset < at + taken:
                offset = at + taken
        placed.setdefault(memory, []).append((offset, size, row))
        totals[memory] = max(totals.get(memory, 0), offset + size)
        for spec in row:
            found[spec] = SpecAllocResult(memory, 0, offset)
    sizes = [0] * max([2] + [m + 1 for m in totals])
    for memory, total in totals.items():
        sizes[memory] = total + extra_padding
    return MemoryAlgoResult(found, sizes)


def check(result, alignment, specs, graph_module, padding):
    starts = getattr(graph_module, "input_mem_buffer_sizes", None) or [0] * 9
    assert set(result.spec_dict) == set(specs)
    rows = [(spec, result.spec_dict[spec]) for spec in specs]
    live = {}
    for spec, place in rows:
        memory = spec.mem_id or 1
        assert place.mem_id == memory and place.mem_obj_id is not None
        assert place.mem_offset % alignment == 0
        if spec.nbytes:
            assert place.mem_offset >= starts[memory]
        assert place.mem_offset + spec.allocated_memory + (padding if spec.nbytes else 0) <= result.bufsizes[memory] or not spec.nbytes
        base = getattr(spec, "inplace_base", None)
        if base is not None and spec.nbytes and base.nbytes:
            assert place.mem_offset == result.spec_dict[base].mem_offset
        if spec.nbytes:
            for step in range(spec.lifetime[0], spec.lifetime[1] + 1):
                group = live.setdefault((memory, step), {})
                group[id(chain(spec))] = max(group.get(id(chain(spec)), 0), spec.allocated_memory)
    for i, (a, x) in enumerate(rows):
        for b, y in rows[:i]:
            shares = x.mem_id == y.mem_id and x.mem_offset < y.mem_offset + b.allocated_memory and \
                y.mem_offset < x.mem_offset + a.allocated_memory
            if not shares or not a.nbytes or not b.nbytes:
                continue
            assert x.mem_obj_id == y.mem_obj_id
            together = a.lifetime[0] <= b.lifetime[1] and b.lifetime[0] <= a.lifetime[1]
            assert not together or chain(a) is chain(b), "two tensors share bytes while both are live"
    for (memory, step), group in live.items():
        assert result.bufsizes[memory] >= sum(group.values()) + padding


def one(seed):
    rng = random.Random(seed)
    alignment, padding = rng.choice([1, 16, 64]), rng.choice([0, 0, 64])
    steps, memories = rng.randint(1, 30), rng.choice([[None], [None, 1], [1, 2], [3]])
    specs = []
    for _ in range(rng.randint(0, 40)):
        first = rng.randint(0, steps)
        specs.append(TensorSpec(rng.choice([0, 1, 100, rng.randint(1, 9000)]), [first, min(steps, first + rng.randint(0, 9))],
                                rng.choice(memories)))
    tails = [s for s in specs]
    for _ in range(rng.randint(0, 8)):
        base = rng.choice(tails) if tails else None
        if base is None or not base.nbytes:
            continue
        tails.remove(base)
        specs.append(TensorSpec(rng.randint(1, base.nbytes), [base.lifetime[1], base.lifetime[1] + rng.randint(0, 5)],
                                base.mem_id, base))
        tails.append(specs[-1])
    graph = types.SimpleNamespace()
    if rng.random() < 0.3:
        graph.input_mem_buffer_sizes = [0, rng.randint(0, 500), 48, 16]
    ours = tenure.executorch.plan(alignment, set(specs) if seed % 2 else specs, graph, None, padding)
    assert all(s.mem_offset is None and s.mem_obj_id is None for s in specs), "the algorithm must not write specs"
    check(ours, alignment, specs, graph, padding)
    again = tenure.executorch.plan(alignment, specs, graph, None, padding)
    assert again.bufsizes == ours.bufsizes
    name, results = suite([greedy, tenure.executorch.plan], alignment, specs, graph, padding)
    check(results["greedy"], alignment, specs, graph, padding)
    assert sum(results["plan"].bufsizes) <= sum(results["greedy"].bufsizes), (seed, results["plan"].bufsizes)


def sample(path):
    """../shared/data/foreign/pte/*.specs.json: bounds and the plan of ExecuTorch's greedy planner."""
    told = json.loads(path.read_text())
    specs = [TensorSpec(row["nbytes"], row["lifetime"], row["mem_id"]) for row in told["specs"]]
    for spec, row in zip(specs, told["specs"]):
        if row["inplace_base"] is not None:
            spec.inplace_base = specs[row["inplace_base"]]
    result = tenure.executorch.plan(told["alignment"], specs, types.SimpleNamespace(), None, told["extra_padding"])
    check(result, told["alignment"], specs, types.SimpleNamespace(), told["extra_padding"])
    assert len(result.bufsizes) == len(told["greedy"]["bufsizes"])
    for memory, bound in told["bound"].items():
        print(path.name, "memory", memory, "greedy", told["greedy"]["bufsizes"][int(memory)], "ours",
              result.bufsizes[int(memory)], "bound", bound)
        assert result.bufsizes[int(memory)] == bound


def refusals():
    spec = TensorSpec(8, [0, 1])
    other = TensorSpec(8, [1, 2], 2, spec)
    for words, arguments in (("0.6 or later", (types.SimpleNamespace(), 16, None)), ("power of two", (24, [spec], None)),
                             ("memory 2", (16, [spec, other], None)), ("numbered from 1", (16, [TensorSpec(8, [0, 1], 0)], None)),
                             ("no lifetime", (16, [TensorSpec(8, [None, None])], None))):
        try:
            tenure.executorch.plan(*arguments)
        except (TypeError, ValueError) as why:
            assert words in str(why), why
        else:
            sys.exit(f"no error with: {words}")


names = ["executorch", "executorch.exir", "executorch.exir.memory_planning"]
for each in names:
    sys.modules[each] = types.ModuleType(each)
sys.modules[names[2]].MemoryAlgoResult = MemoryAlgoResult
sys.modules[names[2]].SpecAllocResult = SpecAllocResult
import tenure.executorch  # noqa: E402

cases = case_count(200, 20)
for number in range(cases):
    one(number)
refusals()
samples = sorted(pathlib.Path(sys.argv[3]).glob("*.specs.json")) if len(sys.argv) > 3 else []
for each in samples:
    sample(each)
print(f"{cases} graphs, {len(samples)} samples: all as expected")
