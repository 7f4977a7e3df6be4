#!/usr/bin/env python3
"""ExecuTorch programs with known contents: pte.py TENURE [--seed N] [--count N] [--corpus FOLDER]

Writes random .pte files with a FlatBuffers writer of its own: kernels, views, delegates, lists of
tensors, state, a loop, two memories, with and without the extended header and segments. Live ranges
and conflicts are computed here pair by pair; `tenure report` and `verify` must agree. `tenure plan
-o` replaces the plan: another reader, below, must find valid offsets, and only the words of offsets,
references and sizes may differ. Damaged files must be refused with status 2.
"""
import argparse
import json
import pathlib
import random
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from count import case_count  # noqa: E402

TENSOR, TENSOR_LIST, INT = 5, 10, 2
ELEMENT = {0: 1, 3: 4, 4: 8, 5: 2, 6: 4, 15: 2}


def run(tenure, *words):
    done = subprocess.run([tenure, *map(str, words)], capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def fail(name, text):
    sys.exit(f"{name}: {text}")


def check(name, word, told, expected):
    if told != expected:
        fail(name, f"{word} is {told}, expected {expected}")


# --- writing FlatBuffers ---------------------------------------------------------------------------

class Writer:
    """Objects are tuples: ("table", {field: value}), ("vector", format, items), ("tables", objects), text.
    A scalar field is (format, number); as in FlatBuffers a field of value 0 is left out."""

    def __init__(self, head):
        self.out = bytearray(head)

    def align(self, to, ahead=0):
        while (len(self.out) + ahead) % to:
            self.out.append(0)

    def put(self, thing):
        """Returns the position of an object."""
        if isinstance(thing, str):
            self.align(4)
            at = len(self.out)
            self.out += struct.pack("<I", len(thing)) + thing.encode() + b"\0"
            return at
        if thing[0] == "vector":
            form, items = thing[1:]
            self.align(max(4, struct.calcsize(form)), 4)
            at = len(self.out)
            self.out += struct.pack("<I", len(items)) + struct.pack(f"<{len(items)}{form}", *items)
            return at
        if thing[0] == "tables":
            self.align(4)
            at = len(self.out)
            self.out += struct.pack("<I", len(thing[1])) + bytes(4 * len(thing[1]))
            for i, item in enumerate(thing[1]):
                self.point(at + 4 + 4 * i, self.put(item))
            return at
        return self.table(thing[1])

    def point(self, at, target):
        struct.pack_into("<I", self.out, at, target - at)

    def table(self, fields):
        fields = {f: v for f, v in fields.items() if v is not None and not (
            v[0] in "bBiIq?" and len(v[0]) == 1 and v[1] == 0)}
        slots, at = {}, 4
        for field in sorted(fields, key=lambda f: -self.width(fields[f])):
            width = self.width(fields[field])
            at = -(-at // width) * width
            slots[field] = at
            at += width
        count = max(fields, default=-1) + 1
        vtable = struct.pack("<HH", 4 + 2 * count, at)
        vtable += b"".join(struct.pack("<H", slots.get(f, 0)) for f in range(count))
        self.align(2)
        start = len(self.out)
        self.out += vtable
        self.align(8)
        table = len(self.out)
        self.out += struct.pack("<i", table - start) + bytes(at - 4)
        for field, slot in slots.items():
            value = fields[field]
            if self.is_scalar(value):
                struct.pack_into("<" + value[0], self.out, table + slot, value[1])
        for field, slot in slots.items():
            if not self.is_scalar(fields[field]):
                self.point(table + slot, self.put(fields[field]))
        return table

    @staticmethod
    def is_scalar(value):
        return isinstance(value, tuple) and len(value[0]) == 1

    def width(self, value):
        return struct.calcsize(value[0]) if self.is_scalar(value) else 4


# --- reading them, by other code -------------------------------------------------------------------

class Table:
    def __init__(self, data, at):
        self.data, self.at = data, at
        self.vtable = at - struct.unpack_from("<i", data, at)[0]
        self.slots = struct.unpack_from("<H", data, self.vtable)[0]

    def place(self, field):
        slot = 4 + 2 * field
        offset = struct.unpack_from("<H", self.data, self.vtable + slot)[0] if slot < self.slots else 0
        return self.at + offset if offset else None

    def number(self, field, form="I"):
        at = self.place(field)
        return 0 if at is None else struct.unpack_from("<" + form, self.data, at)[0]

    def follow(self, field):
        at = self.place(field)
        return None if at is None else at + struct.unpack_from("<I", self.data, at)[0]

    def child(self, field):
        at = self.follow(field)
        return None if at is None else Table(self.data, at)

    def tables(self, field):
        at = self.follow(field)
        count = struct.unpack_from("<I", self.data, at)[0]
        places = [at + 4 + 4 * i for i in range(count)]
        return [Table(self.data, p + struct.unpack_from("<I", self.data, p)[0]) for p in places]


def read_plan(data):
    """{value: (memory, offset)}, the sizes of the memories, and the words that a plan may change."""
    program = Table(data, struct.unpack_from("<I", data)[0])
    plan = program.tables(1)[0]
    words, places = set(), {}
    for number, value in enumerate(plan.tables(2)):
        tensor = value.child(1) if value.number(0, "B") == TENSOR else None
        details = tensor.child(6) if tensor else None
        if details is None:
            continue
        places[number] = (details.number(0), details.number(2) << 32 | details.number(1))
        for at in (tensor.place(6), details.place(1), details.place(2)):
            words |= set(range(at, at + 4)) if at else set()
    at = plan.follow(8)
    count = struct.unpack_from("<I", data, at)[0]
    sizes = struct.unpack_from(f"<{count}q", data, at + 4)
    words |= set(range(at + 4, at + 4 + 8 * count))
    return places, sizes, words


# --- a random method -------------------------------------------------------------------------------

class Tensor:
    def __init__(self, rng, number, memory):
        self.number, self.memory = number, memory
        self.kind = rng.choice(list(ELEMENT))
        self.sizes = [rng.choice([1, 2, 3, 8, 16]) for _ in range(rng.randint(0, 3))]
        self.uses, self.state, self.base, self.offset = [], False, None, 0
        self.initial, self.is_read, self.is_stored = False, False, False

    def bytes(self):
        size = ELEMENT[self.kind]
        for extent in self.sizes:
            size *= extent
        return size


class Method:
    def __init__(self, rng):
        self.rng = rng
        self.values, self.tensors, self.calls = [], {}, []
        self.operators = ["aten::add", "aten::convolution", "executorch_prim::et_view", "aten::copy_"]
        self.memories = rng.randint(1, 2)
        self.inputs = [self.tensor() for _ in range(rng.randint(1, 2))]
        state = [self.tensor() for _ in range(rng.randint(0, 1))]
        for number in state:
            self.tensors[number].initial = rng.random() < 0.5
        self.integer = self.value((INT, ("table", {0: ("q", 7)})))
        live = self.inputs + state
        for _ in range(rng.randint(3, 40)):
            self.step(rng, live)
        for number in state:
            if self.tensors[number].uses and rng.random() < 0.5:  # copy_(state, value), which returns state
                self.tensors[number].uses.append(len(self.calls))
                self.tensors[live[-1]].uses.append(len(self.calls))
                self.tensors[number].is_stored = True
                arguments = [number, live[-1], self.integer, number]
                self.calls.append((1, ("table", {0: ("i", 3), 1: ("vector", "i", arguments)}), arguments))
            it = self.tensors[number]
            it.state = it.initial or it.is_read or it.is_stored
        self.outputs = [live[-1]]
        self.loop = None
        if rng.random() < 0.3:
            self.loop = (rng.randrange(len(self.calls)), len(self.calls))
            self.calls.append((4, ("table", {0: ("i", self.integer), 1: ("i", self.loop[0])}), []))
        self.live_ranges()
        self.place()

    def value(self, made):
        self.values.append(made)
        return len(self.values) - 1

    def tensor(self, memory=None):
        number = self.value(None)
        self.tensors[number] = Tensor(self.rng, number, memory or self.rng.randint(1, self.memories))
        return number

    def step(self, rng, live):
        now, kind = len(self.calls), rng.random()
        reads = rng.sample(live, min(len(live), rng.randint(1, 3)))
        if kind < 0.2:  # a view: the output lies where its input lies
            base = self.tensors[reads[0]]
            out = self.tensor(base.memory)
            self.tensors[out].kind, self.tensors[out].sizes = base.kind, list(base.sizes)
            self.tensors[out].base = base
            arguments, call, used = [reads[0], self.integer, out], (1, 2), [reads[0], out]
        elif kind < 0.35:
            out = self.tensor()
            arguments, call, used = reads + [out], (2, 0), reads + [out]
        elif kind < 0.5 and len(reads) > 1:  # a list of tensors
            items = self.value((TENSOR_LIST, ("table", {0: ("vector", "i", reads)})))
            out = self.tensor()
            arguments, call, used = [items, self.integer, out, out], (1, 1), reads + [out]
        else:
            out = self.tensor()
            arguments, call, used = reads + [self.integer, out, out], (1, rng.randint(0, 1)), reads + [out]
        for number in used:
            if not self.tensors[number].uses:  # a delegate does not tell what it reads
                self.tensors[number].is_read = call[0] == 1 and number != out
            self.tensors[number].uses.append(now)
        live.append(out)
        if len(live) > 6:
            live.pop(rng.randrange(len(live) - 1))
        self.calls.append((call[0], ("table", {0: ("i", call[1]), 1: ("vector", "i", arguments)}), arguments))

    def live_ranges(self):
        end = len(self.calls)
        for tensor in self.tensors.values():
            uses = set(tensor.uses)
            if tensor.number in self.inputs:
                uses.add(0)
            if tensor.number in self.outputs:
                uses.add(end)
            if tensor.state or tensor.initial or not uses:
                uses = {0, end}
            tensor.first, tensor.last = min(uses), max(uses)
            if self.loop and tensor.first <= self.loop[0] <= tensor.last:
                tensor.last = max(tensor.last, self.loop[1])

    def meet(self, a, b):
        return a.memory == b.memory and a.first <= b.last and b.first <= a.last

    def place(self):
        placed = []
        for tensor in sorted(self.tensors.values(), key=lambda t: (t.first, t.number)):
            offset = 0
            while True:
                tensor.offset = offset
                met = [p for p in placed if self.conflict(p, tensor, tight=True)]
                if not met:
                    break
                offset = -(-min(p.offset + p.bytes() for p in met) // 16) * 16
            placed.append(tensor)
        # views lie at their base if nothing else lies there
        for tensor in placed:
            if tensor.base is not None:
                before, tensor.offset = tensor.offset, tensor.base.offset
                if any(p is not tensor and p is not tensor.base and self.conflict(p, tensor, tight=True)
                       for p in placed):
                    tensor.offset = before
        self.sizes = [0] * (self.memories + 1)
        for tensor in placed:
            self.sizes[tensor.memory] = max(self.sizes[tensor.memory], tensor.offset + tensor.bytes())
        self.slack = [0] + [self.rng.choice([0, 64]) for _ in range(self.memories)]
        self.sizes = [size + slack for size, slack in zip(self.sizes, self.slack)]

    def conflict(self, a, b, tight=False):
        meets = a.offset < b.offset + b.bytes() and b.offset < a.offset + a.bytes()
        return self.meet(a, b) and meets and (tight or a.offset != b.offset)

    def first_conflict(self):
        every = list(self.tensors.values())
        found = [(max(a.first, b.first), {f"value {a.number}", f"value {b.number}"})
                 for i, a in enumerate(every) for b in every[:i] if self.conflict(a, b)]
        step = min((at for at, _ in found), default=None)
        return None if step is None else (step, [pair for at, pair in found if at == step])

    def peaks(self):
        """By memory: the most live bytes, and the first step with them. Values at one offset are one storage."""
        peaks = []
        for memory in range(1, self.memories + 1):
            best = (0, 0)
            mine = [t for t in self.tensors.values() if t.memory == memory]
            for step in range(len(self.calls) + 1):
                live = {}
                for t in mine:
                    if t.first <= step <= t.last:
                        live[t.offset] = max(live.get(t.offset, 0), t.bytes())
                best = max(best, (sum(live.values()), -step))
            peaks.append((best[0], -best[1]))
        return peaks

    # --- the file ---

    def write(self, header, identifier=b"ET12", version=0, kinds=None):
        for number, tensor in self.tensors.items():
            details = {0: ("I", tensor.memory), 1: ("I", tensor.offset)}
            if self.rng.random() < 0.1 and tensor.offset:
                details[2] = ("I", 0)
            self.values[number] = (TENSOR, ("table", {
                0: ("b", kinds or tensor.kind), 2: ("vector", "i", tensor.sizes),
                3: ("vector", "B", list(range(len(tensor.sizes)))), 5: ("I", int(tensor.initial)),
                6: ("table", details)}))
        names = [("table", {0: name, 1: "out"}) for name in self.operators]
        calls = [("table", {0: ("B", kind), 1: table}) for kind, table, _ in self.calls]
        chain = ("table", {2: ("tables", calls)})
        values = [("table", {0: ("B", kind), 1: table}) for kind, table in self.values]
        plan = ("table", {0: "forward", 2: ("tables", values), 3: ("vector", "i", self.inputs),
                          4: ("vector", "i", self.outputs), 5: ("tables", [chain]), 6: ("tables", names),
                          8: ("vector", "q", self.sizes)})
        writer = Writer(bytes(4) + identifier + bytes(32 if header else 0))
        writer.align(16)
        root = writer.table({0: ("I", version), 1: ("tables", [plan])})
        struct.pack_into("<I", writer.out, 0, root)
        writer.align(16)
        if not header:
            return bytes(writer.out)
        program = len(writer.out)
        writer.align(self.rng.choice([16, 128, 4096]))
        struct.pack_into("<4sIQQQ", writer.out, 8, b"eh00", 32, program, len(writer.out), 1000)
        return bytes(writer.out) + bytes(self.rng.randrange(256) for _ in range(1000))


# --- agreement -------------------------------------------------------------------------------------

def check_report(tenure, name, method, path):
    status, out, err = run(tenure, "report", path, "--json", "--top", 100000)
    check(name, "status of report " + err, status, 0)
    told, peaks = json.loads(out), method.peaks()
    check(name, "planned", told["planned"], sum(method.sizes))
    check(name, "values", told["values"], len(method.tensors))
    check(name, "steps", told["steps"], len(method.calls))
    if method.first_conflict() is None:
        check(name, "live", told["live"], sum(live for live, _ in peaks))
        for arena, (live, step) in zip(told["planned_arenas"], peaks):
            check(name, arena["name"], (arena["live"], arena["step"]), (live, step))


def check_verdict(tenure, name, method, path):
    status, out, _ = run(tenure, "verify", path, "--json")
    expected = method.first_conflict()
    check(name, "status of verify", status, 0 if expected is None else 1)
    if expected is not None:
        told = json.loads(out)["conflict"]
        if f"at step {expected[0]} " not in told or set(told.split("'")[1::2]) not in expected[1]:
            fail(name, f"{told}; expected one of {expected}")


def check_rewritten(tenure, name, method, path):
    better = path.with_suffix(".better.pte")
    status, _, err = run(tenure, "plan", path, "-o", better, "--quiet", "--overwrite")
    check(name, "status of plan " + err, status, 0)
    old, new = path.read_bytes(), better.read_bytes()
    before, sizes, words = read_plan(old)
    after, new_sizes, _ = read_plan(new)
    check(name, "memories of the values", {k: v[0] for k, v in after.items()}, {k: v[0] for k, v in before.items()})
    place = {}
    for number, (memory, offset) in after.items():
        tensor = method.tensors[number]
        place.setdefault((memory, tensor.offset, offset), []).append(number)
        if offset % 16 and tensor.offset % 16 == 0:
            fail(name, f"value {number} lies at {offset}")
    joined = [(a, b) for i, a in enumerate(method.tensors.values()) for b in list(method.tensors.values())[:i]
              if method.meet(a, b) and a.offset == b.offset and a.bytes() and b.bytes()]
    for a, b in joined:
        check(name, f"the place of {a.number} and {b.number}", after[a.number][1], after[b.number][1])
    for number, (memory, offset) in after.items():
        method.tensors[number].offset = offset
    if method.first_conflict() is not None:
        fail(name, f"the new plan is not valid: {method.first_conflict()}")
    for memory in range(1, method.memories + 1):
        ends = [t.offset + t.bytes() for t in method.tensors.values() if t.memory == memory]
        check(name, f"size of memory {memory}", new_sizes[memory], max(ends, default=0) + method.slack[memory])
    # bytes: the program with words changed, then new records, then the segments as they were
    program, segments = len(old), len(old)
    if old[8:12] == b"eh00":
        program, segments = struct.unpack_from("<QQ", old, 16)
        words |= set(range(16, 32))
    changed = [i for i in range(program) if old[i] != new[i]]
    if not set(changed) <= words:
        fail(name, f"byte {min(set(changed) - words)} has changed")
    check(name, "segments", new[len(new) - (len(old) - segments):], old[segments:])
    if old[8:12] == b"eh00":
        check(name, "start of the segments", struct.unpack_from("<Q", new, 24)[0], len(new) - (len(old) - segments))
        low = old[24] & -old[24] if old[24] else 16
        check(name, "alignment of the segments", struct.unpack_from("<Q", new, 24)[0] % min(low, 16), 0)
    if sum(new_sizes) > sum(sizes):
        fail(name, f"the new plan takes {sum(new_sizes)}, the old one {sum(sizes)}")
    return sum(sizes) - sum(new_sizes), len(changed)


def one(tenure, seed, scratch):
    rng = random.Random(seed)
    method, name, path = Method(rng), f"seed {seed}", scratch / f"{seed}.pte"
    header = rng.random() < 0.7
    path.write_bytes(method.write(header))
    check_report(tenure, name, method, path)
    check_verdict(tenure, name, method, path)
    saved = (0, 0)
    if method.first_conflict() is None:
        saved = check_rewritten(tenure, name, method, path)
    moved = rng.choice(list(method.tensors.values()))
    moved.offset = rng.randrange(0, max(1, method.sizes[moved.memory] - moved.bytes()))
    moved.offset -= moved.offset % 16
    path.write_bytes(method.write(header))
    check_verdict(tenure, name + ", damaged", method, path)
    return saved


def check_hostile(tenure, scratch):
    method, path = Method(random.Random(4)), scratch / "hostile.pte"
    whole = method.write(True)

    def refused(name, data, words):
        path.write_bytes(data)
        for command in ("report", "verify", "plan"):
            status, _, err = run(tenure, command, path)
            check(name, f"status of {command}", status, 2)
            if words not in err:
                fail(name, f"no '{words}' in: {err}")

    refused("identifier", method.write(True, identifier=b"ET13"), "'ET13'")
    refused("other file", b"GIF89a" + bytes(100), "not a program of ExecuTorch")
    refused("version", method.write(True, version=3), "version 3")
    refused("header", whole[:8] + b"eh01" + whole[12:], "'eh01'")
    refused("header size", whole[:16] + struct.pack("<Q", 1 << 60) + whole[24:], "cut off")
    refused("root", struct.pack("<I", 0xfffffff0) + whole[4:], "beyond the end")
    refused("scalar type", method.write(True, kinds=99), "scalar type 99")
    refused("nothing", b"", "not a program")
    method.sizes = [0, 1, 1]
    refused("memory too small", method.write(True), "but memory")
    method.sizes = [0]
    refused("no memory", method.write(True), "is in memory")
    status, _, err = run(tenure, "report", path, "--module", "backward")
    check("method", "status", status, 2)
    rng = random.Random(8)
    for _ in range(60):
        data = bytearray(whole)
        for _ in range(rng.randint(1, 4)):
            data[rng.randrange(len(data) - 1000)] = rng.choice([0, 1, 127, 128, 255])
        path.write_bytes(data[:rng.randrange(len(data))] if rng.random() < 0.5 else data)
        for command in ("verify", "plan"):
            status, _, err = run(tenure, command, path, "-o", scratch / "h.pte", "--overwrite")[0:3] \
                if command == "plan" else run(tenure, command, path)
            if status not in (0, 1, 2):
                fail("noise", f"status {status}: {err}")


def main():
    words = argparse.ArgumentParser()
    words.add_argument("tenure")
    words.add_argument("--seed", type=int, default=1)
    words.add_argument("--count", type=int, default=200)
    words.add_argument("--corpus", type=pathlib.Path)
    words = words.parse_args()
    if words.corpus:
        for seed in range(1, 9):
            method = Method(random.Random(next(s for s in range(100 * seed, 100 * seed + 100)
                                               if len(Method(random.Random(s)).calls) < 12)))
            (words.corpus / f"method{seed}.pte").write_bytes(method.write(seed % 2 == 0))
        return
    count, saved, changed = case_count(words.count, 10), 0, 0
    with tempfile.TemporaryDirectory() as name:
        for seed in range(words.seed, words.seed + count):
            fewer, words_changed = one(words.tenure, seed, pathlib.Path(name))
            saved, changed = saved + fewer, changed + words_changed
        check_hostile(words.tenure, pathlib.Path(name))
    if saved == 0 or changed == 0:
        fail("all", "no plan has become smaller, so rewriting was not tested")
    print(f"{count} programs as expected; {saved} bytes fewer in all")


main()
