#!/usr/bin/env python3
"""ExecuTorch programs with known contents: pte.py TENURE [--seed N] [--count N] [--corpus FOLDER]

Writes random .pte files with a FlatBuffers writer of its own: kernels, views, delegates, lists of
tensors, state, a loop, two memories, with and without the extended header and segments. Live ranges
and conflicts are computed here pair by pair; `tenure report` and `verify` must agree. `tenure plan
-o` replaces the plan: another reader, below, must find valid offsets, and only the words of offsets,
references and sizes may differ. Damaged files must be refused with status 2.
"""
import argparse
import collections
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
    """A value with a place. `root` is the value whose bytes it has: a view of fixed shape, for which new exporters write
    no instruction. `base` is the same for views with an instruction, which can be elsewhere."""

    def __init__(self, rng, number, memory):
        self.number, self.memory = number, memory
        self.kind = rng.choice(list(ELEMENT))
        self.sizes = [rng.choice([1, 2, 3, 8, 16]) for _ in range(rng.randint(0, 3))]
        self.uses, self.state, self.base, self.root, self.offset = [], False, None, None, 0
        self.initial, self.named, self.scratch, self.dynamic, self.first_output = False, False, False, False, False
        self.is_data = False  # an instruction reads it for certain, so that it cannot be scratch memory
        self.is_vague = False  # it can also be an output of the delegate that uses it first

    def bytes(self):
        size = ELEMENT[self.kind]
        for extent in self.sizes:
            size *= extent
        return size

    def storage(self):
        return self.root or self


class Method:
    is_twice = False  # a second method with the same plan

    def __init__(self, rng):
        self.rng = rng
        self.values, self.tensors, self.calls = [], {}, []
        self.operators = ["aten::add", "cortex_m::conv", "executorch_prim::et_view", "aten::copy_", "aten::topk"]
        self.memories = rng.randint(1, 2)
        self.elides = rng.random() < 0.6  # a new exporter
        state = [self.tensor() for _ in range(rng.randint(0, 2))]
        self.inputs = [self.tensor() for _ in range(rng.randint(1, 2))]
        if rng.random() < 0.2:
            state.append(self.tensor())
            self.tensors[state[-1]].named = True
        for number in state:
            self.tensors[number].state = True
            self.tensors[number].initial = rng.random() < 0.5
        self.integer = self.value((INT, ("table", {0: ("q", 7)})))
        live = self.inputs + state
        for _ in range(rng.randint(3, 40)):
            self.step(rng, live)
        for number in state:
            if rng.random() < 0.5:  # copy_(state, value), which returns state
                self.call(3, [number, live[-1], self.integer, number], [number, live[-1]])
        self.outputs = [self.tensors[live[-1]].storage().number]
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

    def call(self, operator, arguments, used, kind=1):
        for number in used:
            self.tensors[number].uses.append(len(self.calls))
        made = ("table", {0: ("i", operator), 1: ("vector", "i", arguments)})
        self.calls.append((kind, made, arguments))

    def view(self, rng, live, number):
        """A view without an instruction."""
        root = self.tensors[number].storage()
        made = self.tensor(root.memory)
        it = self.tensors[made]
        it.kind, it.root, it.sizes = root.kind, root, [1, *root.sizes]
        if rng.random() < 0.5:
            live.insert(0, made)
        return made

    def scratch(self, rng):
        made = self.tensor()
        it = self.tensors[made]
        it.scratch = True
        if rng.random() < 0.7:
            it.kind, it.sizes = 0, [rng.choice([0, 16, 64, 256])]
        return made

    def step(self, rng, live):
        kind = rng.random()
        reads = rng.sample(live, min(len(live), rng.randint(1, 3)))
        if self.elides and rng.random() < 0.4:
            at = rng.randrange(len(reads)) if kind >= 0.2 else 0
            reads[at] = self.view(rng, live, reads[at])
        if kind < 0.2:  # a view with an instruction: the output lies where its input lies
            base = self.tensors[reads[0]]
            out = self.tensor(base.memory)
            it = self.tensors[out]
            it.kind, it.sizes, it.base, it.dynamic = base.kind, list(base.sizes), base, self.elides
            base.is_data = True
            self.call(2, [reads[0], self.integer, out], [reads[0], out])
        elif kind < 0.35:
            outs = [self.tensor() for _ in range(rng.choice([1, 1, 2]))]
            self.tensors[outs[0]].first_output = len(outs) > 1
            first = outs[0]  # an input that is numbered directly before the outputs can be one
            while reads and reads[-1 - (outs[0] - first)] == first - 1 and outs[0] - first + 1 < len(reads):
                first -= 1
            for number in reads:
                self.tensors[number].is_data |= number < first - 1
                self.tensors[number].is_vague |= number >= first - 1 and not self.tensors[number].uses
            self.call(0, reads + outs, reads + outs, kind=2)
            out = outs[-1]
        elif kind < 0.5 and len(reads) > 1:  # a list of tensors
            items = self.value((TENSOR_LIST, ("table", {0: ("vector", "i", reads)})))
            out = self.tensor()
            for number in reads:
                self.tensors[number].is_data = True
            self.call(1, [items, self.integer, out, out], reads + [out])
        elif kind < 0.6:  # two outputs
            first, out = self.tensor(), self.tensor()
            both = self.value((TENSOR_LIST, ("table", {0: ("vector", "i", [first, out])})))
            for number in reads:
                self.tensors[number].is_data = True
            self.call(4, reads + [self.integer, first, out, both], reads + [first, out])
        elif kind < 0.75:  # a kernel with scratch memory
            scratch = [self.scratch(rng) for _ in range(rng.randint(1, 2))]
            out = self.tensor()
            self.tensors[reads[0]].is_data = True
            self.call(1, reads + [self.integer] + scratch + [out, out], reads + scratch + [out])
        else:
            out = self.tensor()
            for number in reads:
                self.tensors[number].is_data = True
            self.call(0, reads + [self.integer, out, out], reads + [out])
        live.append(out)
        if len(live) > 6:
            live.pop(rng.randrange(len(live) - 1))

    def live_ranges(self):
        """Values with the same bytes have one live range."""
        end, uses = len(self.calls), {}
        for tensor in self.tensors.values():
            mine = uses.setdefault(tensor.storage().number, set())
            mine |= set(tensor.uses)
            if tensor.number in self.inputs:
                mine.add(0)
            if tensor.number in self.outputs:
                mine.add(end)
            if tensor.state:
                mine |= {0, end}
        for tensor in self.tensors.values():
            mine = uses[tensor.storage().number] or {0, end}
            tensor.first, tensor.last = min(mine), max(mine)
            if self.loop and tensor.first <= self.loop[0] <= tensor.last:
                tensor.last = max(tensor.last, self.loop[1])

    def meet(self, a, b):
        return a.memory == b.memory and a.first <= b.last and b.first <= a.last

    def place(self):
        placed = []
        for tensor in sorted(self.tensors.values(), key=lambda t: (t.first, t.number)):
            offset = 0
            while tensor.root is None:
                tensor.offset = offset
                met = [p for p in placed if self.conflict(p, tensor, tight=True)]
                if not met:
                    break
                offset = -(-min(p.offset + p.bytes() for p in met) // 16) * 16
            if tensor.root is None:
                placed.append(tensor)
        # views lie at their base if nothing else lies there
        for tensor in placed:
            if tensor.base is not None:
                before, tensor.offset = tensor.offset, tensor.base.storage().offset
                if any(p is not tensor and p is not tensor.base.storage() and self.conflict(p, tensor, tight=True)
                       for p in placed):
                    tensor.offset = before
        for tensor in self.tensors.values():
            tensor.offset = tensor.storage().offset
        self.sizes = [0] * (self.memories + 1)
        for tensor in self.tensors.values():
            self.sizes[tensor.memory] = max(self.sizes[tensor.memory], tensor.offset + tensor.bytes())
        self.slack = [0] + [self.rng.choice([0, 64]) for _ in range(self.memories)]
        self.sizes = [size + slack for size, slack in zip(self.sizes, self.slack)]

    def conflict(self, a, b, tight=False):
        """Values at one offset share bytes on purpose if they have one size, or if one ends in the step in which an
        instruction writes the other, or if one is a view of the other."""
        meets = a.offset < b.offset + b.bytes() and b.offset < a.offset + a.bytes()
        if not self.meet(a, b) or not meets or a.storage() is b.storage() or not a.bytes() or not b.bytes():
            return False
        if tight or a.offset != b.offset or a.scratch or b.scratch:
            return True
        return not (a.bytes() == b.bytes() or any(x.first == y.last and self.begin(x) >= 0 for x, y in ((a, b), (b, a))) or
                    (a.base and a.base.storage() is b.storage()) or (b.base and b.base.storage() is a.storage()))

    # --- what the places explain ---

    def begin(self, tensor):
        if tensor.state or tensor.number in self.inputs or not tensor.uses:
            return -1
        return min(tensor.uses)

    def fits(self, view, base):
        return (view.memory, view.offset, view.kind, view.bytes()) == \
            (base.memory, base.offset, base.kind, base.bytes()) and base.number < view.number and not base.scratch

    def last_touch(self, view):
        """For each byte of a view: the value that used it last before the view's first use."""
        touched = [None] * view.bytes()
        others = [t for t in self.tensors.values() if t.memory == view.memory and self.begin(t) < self.begin(view)]
        for t in sorted(others, key=self.begin):
            for at in range(max(t.offset, view.offset), min(t.offset + t.bytes(), view.offset + view.bytes())):
                touched[at - view.offset] = t
        return touched

    def is_explained(self, view):
        """Whether a view looks as if it were one of something, or as if it were in place, or state."""
        touched = set(self.last_touch(view))
        if touched <= {None}:
            return True
        last = touched.pop()
        return not touched and (view.offset, view.bytes()) == (last.offset, last.bytes())

    def is_unclear(self):
        """Whether scratch memory looks like a view whose bytes were overwritten, or the other way round."""
        return any(self.begin(b) < self.begin(t) and self.fits(t, b)
                   for t in self.tensors.values() if (t.scratch or t.root) and not t.is_data and t.bytes()
                   for b in self.tensors.values() if not b.scratch and not b.root)

    def is_loose(self):
        """Whether scratch memory or the first of two outputs of a delegate can look like a view, which makes its live
        range longer."""
        return any(self.begin(b) < self.begin(t) and self.fits(t, b)
                   for t in self.tensors.values() if t.scratch or t.first_output
                   for b in self.tensors.values())

    def first_conflict(self):
        every = list(self.tensors.values())
        found = [(max(a.first, b.first), {self.name(a), self.name(b)})
                 for i, a in enumerate(every) for b in every[:i] if self.conflict(a, b)]
        step = min((at for at, _ in found), default=None)
        return None if step is None else (step, [pair for at, pair in found if at == step])

    def keeps_views(self):
        return all(t.offset == t.storage().offset for t in self.tensors.values() if t.bytes())

    def is_right(self):
        return self.keeps_views() and self.first_conflict() is None

    def looks_right(self):
        """Whether only values can be wrong that look like something else."""
        views = [t for t in self.tensors.values() if t.root and t.bytes()]
        roots = {t.storage() for t in views}
        every = list(self.tensors.values())
        return all(self.is_explained(t) or not t.is_data or t.is_vague for t in views) and \
            all(a.storage() in roots or b.storage() in roots or any(x.scratch and self.fits(x, y) for x, y in ((a, b), (b, a)))
                for i, a in enumerate(every) for b in every[:i] if self.conflict(a, b))

    @staticmethod
    def name(tensor):
        return f"value {tensor.storage().number}"

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
                6: ("table", details), 8: ("b", int(tensor.dynamic)),
                9: ("table", {1: "cache"}) if tensor.named else None}))
        names = [("table", {0: name.partition(".")[0], 1: name.partition(".")[2] or "out"}) for name in self.operators]
        calls = [("table", {0: ("B", kind), 1: table}) for kind, table, _ in self.calls]
        chain = ("table", {2: ("tables", calls)})
        values = [("table", {0: ("B", kind), 1: table}) for kind, table in self.values]
        plan = {0: "forward", 2: ("tables", values), 3: ("vector", "i", self.inputs), 4: ("vector", "i", self.outputs),
                5: ("tables", [chain]), 6: ("tables", names), 8: ("vector", "q", self.sizes)}
        plans = [("table", plan), *([("table", {**plan, 0: "other"})] if self.is_twice else [])]
        writer = Writer(bytes(4) + identifier + bytes(32 if header else 0))
        writer.align(16)
        root = writer.table({0: ("I", version), 1: ("tables", plans)})
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
    if not method.is_right():
        return
    expected = sum(live for live, _ in peaks)
    if method.is_loose() and expected <= told["live"] <= told["planned"]:
        return
    check(name, "live", told["live"], expected)
    for arena, (live, step) in zip(told["planned_arenas"], peaks):
        check(name, arena["name"], (arena["live"], arena["step"]), (live, step))


def check_verdict(tenure, name, method, path):
    """A plan that works is never called not valid, and one that does not work is never called valid unless its places
    look right."""
    status, out, err = run(tenure, "verify", path, "--json")
    if status == 2 and method.is_unclear() and "unknown whether this plan is valid: 'value" in err:
        return "unknown"
    if method.is_right():
        check(name, f"status of verify {out}{err}", status, 0)
        return "valid"
    if status == 0 and method.looks_right():
        return "looks right"
    check(name, f"status of verify, {method.first_conflict()} {err}", status, 1)
    told = json.loads(out)["conflict"]
    names = {method.name(method.tensors[int(word.split()[1])]) for word in told.split("'")[1::2]}
    expected = method.first_conflict()
    if method.keeps_views() and not method.is_loose() and (f"at step {expected[0]} " not in told or names not in expected[1]):
        fail(name, f"{told}; expected one of {expected}")
    return "not valid"


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
              if method.meet(a, b) and a.memory == b.memory and a.offset == b.offset and a.bytes() and b.bytes()]
    for a, b in joined:
        check(name, f"the place of {a.number} and {b.number}", after[a.number][1], after[b.number][1])
    for number, (memory, offset) in after.items():
        method.tensors[number].offset = offset
    if not method.is_right():
        fail(name, f"the new plan is not valid: {method.first_conflict()}")
    check_verdict(tenure, name + ", written", method, better)
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
    saved, places = (0, 0), {t: t.offset for t in method.tensors.values()}
    check(name, "the generator's plan", method.is_right(), True)
    saved = check_rewritten(tenure, name, method, path)
    for tensor, offset in places.items():
        tensor.offset = offset
    moved = rng.choice(list(method.tensors.values()))
    moved.offset = rng.randrange(0, max(1, method.sizes[moved.memory] - moved.bytes()))
    moved.offset -= moved.offset % 16
    path.write_bytes(method.write(header))
    return *saved, check_verdict(tenure, name + ", damaged", method, path)


class Small(Method):
    """A method given as places {number: (memory, offset, floats)} and instructions (operator, arguments), ("delegate",
    arguments), ("move", from, to) or ("loop", to)."""

    def __init__(self, places, calls, inputs, outputs, state=()):
        self.rng, self.memories, self.sizes = random.Random(0), 1, [0, 4096]
        self.inputs, self.outputs, self.tensors, self.calls = inputs, outputs, {}, []
        self.operators = sorted({call[0] for call in calls} - {"delegate", "move", "loop"})
        lists = {max(arguments) for _, *rest in calls for arguments in rest if isinstance(arguments, list)} - set(places)
        self.values = [(INT, ("table", {0: ("q", 1)})) for _ in range(max([*places, *lists, 40]) + 1)]
        for number, (memory, offset, floats) in places.items():
            it = self.tensors[number] = Tensor(self.rng, number, memory)
            it.kind, it.sizes, it.offset, it.state = 6, [floats], offset, number in state
        for name, *rest in calls:
            if name == "move":
                self.calls.append((3, ("table", {0: ("i", rest[0]), 1: ("i", rest[1])}), rest))
            elif name == "loop":
                self.calls.append((4, ("table", {0: ("i", 40), 1: ("i", rest[0])}), []))
            else:
                index = 0 if name == "delegate" else self.operators.index(name)
                made = ("table", {0: ("i", index), 1: ("vector", "i", rest[0])})
                self.calls.append((2 if name == "delegate" else 1, made, rest[0]))

    def bytes_list(self, number, items):
        self.values[number] = (TENSOR_LIST, ("table", {0: ("vector", "i", items)}))
        return self


def check_planted(tenure, scratch):
    """Small programs with one right answer."""
    path, better = scratch / "small.pte", scratch / "small.better.pte"

    def verdict(name, method, status, *words):
        path.write_bytes(method.write(True))
        told, out, err = run(tenure, "verify", path)
        check(name, f"status {out}{err}", told, status)
        for word in words:
            if word not in out + err:
                fail(name, f"no {word} in: {out}{err}")
        told, out, err = run(tenure, "plan", path, "-o", better, "--quiet", "--overwrite")
        check(name, f"status of plan {err}", told, 1 if status == 1 else 2 if words[:1] == ("lie inside",) else 0)
        return read_plan(better.read_bytes())[0] if told == 0 else None

    # 0 is the input, 1 is made of it, 2 is a view of 1 without an instruction, 3 is made in between
    def viewed(w, use, third=("aten::add.out", [0, 0, 3, 3])):
        return Small({0: (1, 1024, 16), 1: (1, 0, 16), 2: (1, 0, 16), 3: w, 4: (1, 2048, 4)},
                     [("aten::relu.out", [0, 1, 1]), third, use, ("aten::add.out", [0, 4, 4, 4])], [0], [4])

    read = ("aten::mul.out", [2, 4, 4])
    for name, use in (("a view", read), ("a view given to a delegate", ("delegate", [2, 0, 4]))):
        after = verdict(name, viewed((1, 512, 16), use), 0)
        check(name, "the place of the view", after[2], after[1])
        for w in ((1, 16, 4), (1, 0, 4), (1, 32, 64)):
            verdict(name + " overwritten", viewed(w, use), 1, "'value 3'", "at step 1")
    given = ("my::kernel.out", [0, 2, 4, 4])
    verdict("view or scratch memory", viewed((1, 16, 4), given), 2, "unknown whether this plan is valid", "'value 2'")
    method = viewed((1, 16, 4), given)
    method.tensors[2].kind, method.tensors[2].sizes = 0, [64]
    verdict("scratch memory", method, 0)
    # several outputs, of which one is not used
    several = Small({0: (1, 0, 16), 1: (1, 64, 16), 2: (1, 128, 4), 3: (1, 128, 4)},
                    [("aten::topk.values", [0, 40, 1, 2, 5]), ("aten::relu.out", [1, 3, 3])], [0], [3])
    verdict("several outputs", several.bytes_list(5, [1, 2]), 0)
    # a move: value 3 has the bytes of value 1
    for offset, status in ((64, 0), (0, 1)):
        moved = Small({0: (1, 1024, 16), 1: (1, 0, 16), 2: (1, 512, 16), 3: (1, 256, 16), 4: (1, offset, 8)},
                      [("aten::relu.out", [0, 1, 1]), ("move", 1, 3), ("aten::sum.out", [0, 4, 4]),
                       ("aten::mul.out", [3, 4, 2, 2])], [0], [2])
        verdict(f"a move, {offset}", moved, status, *(["'value 1'", "'value 4'"] if status else []))
    # a loop fills value 3; value 1 is dead before the loop, and value 2 is used in each round before value 3
    for name, at, status in (("before", 256, 0), ("in", 512, 1)):
        places = {0: (1, 1024, 16), 1: (1, 256, 16), 2: (1, 512, 4), 3: (1, at, 16), 4: (1, 128, 4), 5: (1, 64, 4)}
        loop = Small(places, [("aten::relu.out", [0, 1, 1]), ("aten::sum.out", [1, 4, 4]), ("aten::add.out", [0, 4, 2, 2]),
                              ("aten::exp.out", [2, 5, 5]), ("executorch_prim::et_copy_index.tensor", [3, 5, 40]),
                              ("loop", 2), ("aten::sum.out", [3, 4, 4])], [0], [4])
        verdict(f"bytes of a value {name} the loop", loop, status)
    inside = Small({0: (1, 0, 16), 1: (1, 64, 32), 2: (1, 64, 16)},
                   [("aten::relu.out", [0, 2, 2]), ("aten::_cat_nop.out", [2, 1, 1])], [0], [1])
    verdict("values inside of others", inside, 2, "lie inside")
    # state of two methods does not move, that of one method does
    for twice in (False, True):
        shared = Small({0: (1, 1024, 16), 1: (1, 64, 16), 2: (1, 256, 16)},
                       [("aten::add.out", [1, 0, 2, 2]), ("aten::copy_", [0, 2, 40, 0])], [1], [2], state=[0])
        shared.is_twice = twice
        check("state of two methods", "is at its old place", verdict("state", shared, 0)[0] == (1, 1024), twice)


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
    count, saved, changed, verdicts = case_count(words.count, 10), 0, 0, collections.Counter()
    with tempfile.TemporaryDirectory() as name:
        for seed in range(words.seed, words.seed + count):
            fewer, words_changed, verdict = one(words.tenure, seed, pathlib.Path(name))
            saved, changed = saved + fewer, changed + words_changed
            verdicts[verdict] += 1
        check_planted(words.tenure, pathlib.Path(name))
        check_hostile(words.tenure, pathlib.Path(name))
    if saved == 0 or changed == 0:
        fail("all", "no plan has become smaller, so rewriting was not tested")
    print(f"{count} programs as expected; {saved} bytes fewer in all; damaged ones: {dict(verdicts)}")


main()
