"""TensorFlow Lite Micro's own rules, told a third time: does a planned model get the arena it was promised?

    micro.py TENURE FOLDER...

The run time cannot be had from a package, so its rules stand here again, in other words and another
language than in src/io/import/tflm/tflm_planner.c: lives in scopes, then what has an offset where the plan
inside the model says, and the rest (scratch, too) largest first into the lowest gap. For every model of the
folders, planned and not, and with a part of its plan left to the run time, the head must come out as
`tenure arena` promised, to the byte; no two buffers that live at once may share a byte, but for those
that the plan itself put at one place; and `tenure verify` must accept what came out.
Exit status: 0 all right, 1 not, or there are no models.
"""
import glob
import json
import os
import random
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "import"))
from tflite import Model  # noqa: E402

BYTES = {0: 4, 1: 2, 2: 4, 3: 1, 4: 8, 6: 1, 7: 2, 8: 8, 9: 1, 10: 8, 11: 16, 12: 8, 13: 4, 15: 4, 16: 2, 17: 1, 18: 2}
CONV_2D, DEPTHWISE, DENSE, MEAN, SUM, SVDF, LSTM, TRANSPOSE_CONV, REDUCE_MAX, REDUCE_MIN, MIRROR_PAD = (
    3, 4, 9, 40, 74, 27, 44, 67, 82, 89, 100)
IF, WHILE, CALL_ONCE, VAR_HANDLE = 118, 119, 129, 142
INT8, UINT8, INT16, INT4 = 9, 3, 7, 17


def up(size):
    return (size + 15) // 16 * 16


def count(tensor):
    result = 1
    for extent in tensor.ints(0):
        result *= max(extent, 1) if extent < 0 else extent
    return result


def scratch(code, op, tensors):
    """Requests of the reference kernel, in its order."""
    def operand(list_field, index):
        numbers = op.ints(list_field)
        return tensors[numbers[index]] if index < len(numbers) and numbers[index] >= 0 else None
    first, second, out = operand(1, 0), operand(1, 1), operand(2, 0)
    kind = first.number(1, "b") if first else None
    if code == SVDF:
        sizes = [4 * first.ints(0)[0] * second.ints(0)[0]]
        return sizes + [4 * count(out)] if kind == INT8 else sizes
    if code in (CONV_2D, DEPTHWISE, DENSE):
        return [count(second)] if second.number(1, "b") == INT4 else []
    if code in (MEAN, SUM, REDUCE_MAX, REDUCE_MIN):  # the indices: since January 2026
        sizes = [4 * count(out)] if code in (MEAN, SUM) and kind in (INT8, UINT8, INT16) else []
        return sizes + [4 * len(first.ints(0)), 4 * count(second)]
    if code == MIRROR_PAD:
        return 2 * [4 * len(first.ints(0))]
    if code == LSTM:
        cell = operand(1, 19)
        return 4 * [count(cell) * BYTES[cell.number(1, "b")] if cell else 0]
    if code == TRANSPOSE_CONV:
        image, bias = operand(1, 2), operand(1, 3)
        kind = image.number(1, "b")
        sizes = [4 * count(out)] if kind == INT8 else [8 * count(out)] if kind == INT16 else []
        return sizes + ([8 * count(bias)] if kind == INT16 and bias and bias.number(1, "b") == INT16 else [])
    return []


class Runtime:
    def __init__(self, path):
        self.model = Model(path)
        self.graphs = [(g, g.tables(0), g.tables(3)) for g in self.model.graphs]
        self.first = [0]
        for _, tensors, _ in self.graphs:
            self.first.append(self.first[-1] + len(tensors))
        self.offsets = [-1] * self.first[-1]
        for entry in self.model.metadata:
            if entry.blob(0) == b"OfflineMemoryAllocation":
                blob = self.model.buffers[entry.number(1, "I")].blob(0)
                numbers = struct.unpack(f"<{len(blob) // 4}i", blob)
                assert numbers[2] == self.first[-1] == len(numbers) - 3
                self.offsets = list(numbers[3:])
        self.life = [[-1, -1] for _ in self.offsets]
        self.scratch, self.scope = [], 0  # of scratch: bytes, first, last
        self.requests = {}
        for g, (_, tensors, ops) in enumerate(self.graphs):
            for o, op in enumerate(ops):
                sizes = scratch(self.model.codes[op.number(0, "I")], op, tensors)
                self.requests[g, o] = range(len(self.scratch), len(self.scratch) + len(sizes))
                self.scratch += [[size, -1, -1] for size in sizes]
        self.run(0)

    def run(self, index):
        graph, _, ops = self.graphs[index]
        base = self.first[index]
        for tensor in graph.ints(1) + graph.ints(2):
            if tensor >= 0:
                self.life[base + tensor] = [self.scope, self.scope]
        for o, op in enumerate(ops):
            self.scope += 1
            start = self.scope
            for tensor in op.ints(2):
                if tensor >= 0:
                    self.life[base + tensor] = [self.scope, self.scope]
            code = self.model.codes[op.number(0, "I")]
            for field in {IF: (0, 1), WHILE: (0, 1), CALL_ONCE: (0,)}.get(code, ()):
                self.scope += 1
                self.run(op.table(4).number(field, "i"))
            for tensor in op.ints(1) + op.ints(2):
                if tensor >= 0:
                    self.life[base + tensor][1] = self.scope
            for request in self.requests[index, o]:
                self.scratch[request][1:] = start, self.scope
        for tensor in graph.ints(2):
            if tensor >= 0:
                self.life[base + tensor][1] = self.scope

    def buffers(self):
        """(bytes, first, last, fixed offset or -1, tensor or None) in the order in which they are added."""
        for index, (_, tensors, ops) in enumerate(self.graphs):
            handles = {o for op in ops if self.model.codes[op.number(0, "I")] == VAR_HANDLE for o in op.ints(2)}
            for i, tensor in enumerate(tensors):
                if i in handles:
                    continue  # its kernel sets the address
                at = self.first[index] + i
                source = self.model.buffers[tensor.number(2, "I")]
                if source.blob(0) or source.number(1, "Q") > 1:
                    continue
                if tensor.number(5, "B") and self.offsets[at] < 0:
                    continue
                size = count(tensor) * BYTES[tensor.number(1, "b")]
                if size:
                    yield up(size), *self.life[at], self.offsets[at], at
        for size, first, last in self.scratch:
            yield up(size), first, last, -1, None

    def place(self):
        """Offsets of all buffers, and the bytes of the head."""
        buffers = list(self.buffers())
        fixed = [i for i, b in enumerate(buffers) if b[3] >= 0]
        free = sorted((i for i, b in enumerate(buffers) if b[3] < 0), key=lambda i: (-buffers[i][0], -i))
        placed, offset = [], {}
        for i in fixed + free:
            size, first, last, given, _ = buffers[i]
            if given >= 0:
                offset[i] = given
            else:
                at = 0
                for other in sorted((j for j in placed if buffers[j][1] <= last and first <= buffers[j][2]),
                                    key=lambda j: offset[j]):
                    if offset[other] - at >= size:
                        break
                    at = max(at, offset[other] + buffers[other][0])
                offset[i] = at
            placed.append(i)
        for i in offset:
            for j in offset:
                together = buffers[i][1] <= buffers[j][2] and buffers[j][1] <= buffers[i][2]
                apart = offset[i] + buffers[i][0] <= offset[j] or offset[j] + buffers[j][0] <= offset[i]
                planned = buffers[i][3] >= 0 and buffers[j][3] >= 0
                assert i >= j or not together or apart or planned, "buffers share bytes"
        return max((offset[i] + buffers[i][0] for i in offset), default=0)


def arena(tenure, path, *options):
    answer = subprocess.run([tenure, "arena", path, "--kernels", "reference,tflm=2026-06-01", "--json", *options],
                            capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr
    found = json.loads(answer.stdout)
    assert found["head"]["least"] == found["head"]["most"], "the head of the reference kernels is known"
    return found


def check(tenure, path, folder):
    copy = os.path.join(folder, "planned.tflite")
    promised = arena(tenure, path, "-o", copy)
    head = promised["head"]["least"]
    assert Runtime(copy).place() == head, "planned"
    assert promised["head_lower_bound"]["least"] <= head
    alone = Runtime(path)
    assert alone.place() == promised["head_without_plan"]["least"], "without a plan"
    # a part is left to the run time: where does it go, and is that still right?
    with open(copy, "rb") as file:
        data = file.read()
    whole = Runtime(copy).offsets
    at = 12 + data.index(struct.pack(f"<{len(whole) + 3}i", 1, len(Runtime(copy).graphs), len(whole), *whole))
    for seed in range(4):
        draw = random.Random(seed)
        part = [n if draw.random() < 0.6 else -1 for n in whole]
        with open(copy, "wb") as file:
            file.write(data[:at] + struct.pack(f"<{len(part)}i", *part) + data[at + 4 * len(part):])
        found = Runtime(copy).place()
        assert found == arena(tenure, copy)["head"]["least"], f"part of a plan, seed {seed}"
        if len(alone.graphs) > 1:  # around WHILE and CALL our lives are longer, for other run times
            continue
        answer = subprocess.run([tenure, "verify", copy], capture_output=True, text=True)
        assert answer.returncode == 0 and answer.stdout.startswith("valid"), f"seed {seed}: {answer.stdout}{answer.stderr}"
    return head, promised["head_without_plan"]["least"]


def main():
    paths = [p for folder in sys.argv[2:] for deep in ("", "/*")
             for p in sorted(glob.glob(folder + deep + "/*.tflite"))]
    bad = 0
    with tempfile.TemporaryDirectory() as folder:
        for path in paths:
            try:
                head, alone = check(sys.argv[1], path, folder)
                print(f"{head:12} of {alone:12} bytes  {path}")
            except AssertionError as problem:
                bad += 1
                print(f"FAILED: {path}: {problem}")
    print(f"{len(paths)} models, {bad} wrong")
    return 1 if bad or not paths else 0


sys.exit(main())
