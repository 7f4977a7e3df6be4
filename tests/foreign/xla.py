#!/usr/bin/env python3
"""XLA dumps with known contents: xla.py TENURE [--seed N] [--count N] [--corpus FOLDER]

Writes random dumps of a module in both layouts of the files, with tuples, values in place, donated
parameters, constants and values without a live range. The rules of section "conflict" are applied
pair by pair here, and peaks are summed step by step. `tenure report`, `verify`, `plan` and `diff`
must agree. Damaged, truncated and hostile dumps must be refused with status 2 and a place.
"""
import argparse
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from count import case_count  # noqa: E402


def run(tenure, *words):
    done = subprocess.run([tenure, *map(str, words)], capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


# --- a module ------------------------------------------------------------------------------------

class Value:
    def __init__(self, name, size, start, end, operands=()):
        self.name, self.size, self.start, self.end = name, size, start, end
        self.operands = list(operands)
        self.allocation, self.offset = None, 0

    def key(self):
        return self.name if self.name.endswith("}") else self.name + "{}"


def touch(a, b):
    """One ends at the step in which the other begins, at one offset: a place that is shared on purpose."""
    return a.offset == b.offset and (a.end == b.start or b.end == a.start)


def conflicts(a, b):
    meets = a.offset < b.offset + b.size and b.offset < a.offset + a.size
    return meets and a.start <= b.end and b.start <= a.end and not touch(a, b)


class Module:
    def __init__(self, rng):
        self.alignment = rng.choice([64, 128, 256, 512])
        self.steps = rng.randint(4, 60)
        self.names, self.lines, self.temps, self.allocations = [], [], [], []
        self.without = []
        parameters = rng.randint(0, 4)
        numbers = {}
        for step in range(self.steps):
            kind = "parameter" if step < parameters else rng.choice(["fusion", "dot", "copy", "add"])
            number = numbers.get(kind, 0)
            numbers[kind] = number + 1
            name = kind if number == 0 else f"{kind}.{number}"
            self.names.append(name)
            self.add(rng, kind, name, step)
        self.donate(rng)
        for i in range(rng.randint(0, 3)):
            value = Value(f"reducer.{i}", 4, 0, self.steps)
            self.without.append(value)
            self.allocate([value], 4, "thread-local")
        if self.temps:
            self.place(rng)

    def add(self, rng, kind, name, step):
        size = rng.choice([4, 8, 100, 256, 1024, rng.randint(1, 5000)])
        operands = rng.sample(self.names[:-1], min(len(self.names) - 1, rng.randint(0, 3)))
        end = min(self.steps, step + rng.choice([0, 1, 2, 5, 20]))
        made = f"train.py:{10 + step}"
        self.lines.append((name, kind, operands, made, size))
        if kind == "parameter":
            value = Value(name, size, 0, self.steps)
            self.allocate([value], size, f"parameter {step}, shape |f32[{size}, 2]| at ShapeIndex {{}}")
        elif rng.random() < 0.15:
            self.temps.append(Value(name + "{}", 16, step, end, operands))
            for i in range(2):
                self.temps.append(Value(f"{name}{{{i}}}", size + i, step, min(self.steps, end + i), operands))
        else:
            self.temps.append(Value(name, size, step, end, operands))

    def allocate(self, values, size, flags):
        for value in values:
            value.allocation = len(self.allocations)
        self.allocations.append((size, flags, values))

    def donate(self, rng):
        """A parameter that ends, and an output at its place."""
        for number, (size, flags, values) in enumerate(list(self.allocations)):
            if not flags.startswith("parameter") or rng.random() < 0.5 or self.steps < 6:
                continue
            values[0].end = rng.randint(3, self.steps - 1)
            output = Value(f"updated.{number}", size, values[0].end, self.steps)
            output.allocation = number
            values.append(output)
            self.allocations[number] = (size, flags + ", maybe-live-out", values)

    def place(self, rng):
        placed = []
        for value in self.temps:
            value.offset = self.inside(rng, value, placed)
            if value.offset is None:
                value.offset = self.first_fit(value, placed)
            placed.append(value)
        size = max(v.offset + v.size for v in placed)
        self.allocate(placed, size + rng.choice([0, 0, 64]), "preallocated-temp")

    def inside(self, rng, value, placed):
        if rng.random() < 0.6:
            return None
        for other in placed:
            value.offset = other.offset
            if other.end == value.start and not any(conflicts(value, p) for p in placed):
                if not any(p.offset == value.offset and p.start <= value.end and value.start <= p.end
                           and not touch(p, value) for p in placed):
                    return other.offset
        return None

    def first_fit(self, value, placed):
        offset = 0
        while True:
            ends = [p.offset + p.size for p in placed if p.start <= value.end and value.start <= p.end and
                    p.offset < offset + value.size and offset < p.offset + p.size]
            if not ends:
                return offset
            offset = -(-min(ends) // self.alignment) * self.alignment

    # --- truth ---

    def first_conflict(self):
        """The least step of a conflict, and all pairs that conflict at it; None: there is none."""
        found = []
        for _, _, values in self.allocations:
            for i, a in enumerate(values):
                for b in values[:i]:
                    if a.size and b.size and conflicts(a, b):
                        found.append((max(a.start, b.start), {a.key(), b.key()}))
        if not found:
            return None
        step = min(at for at, _ in found)
        return step, [pair for at, pair in found if at == step]

    def groups(self, values):
        """Values that are linked by touching at one offset."""
        values = [v for v in values if v.size]
        group = list(range(len(values)))

        def root(i):
            while group[i] != i:
                i = group[i]
            return i
        for i, a in enumerate(values):
            for k in range(i):
                if touch(a, values[k]):
                    group[root(i)] = root(k)
        sets = {}
        for i, value in enumerate(values):
            sets.setdefault(root(i), []).append(value)
        return list(sets.values())

    def peak(self):
        """The most live bytes of the planned allocation, and the first step with them."""
        groups = [g for _, flags, values in self.allocations if flags == "preallocated-temp"
                  for g in self.groups(values)]
        best = (0, 0)
        for step in range(self.steps + 1):
            live = sum(max((v.size for v in group if v.start <= step <= v.end), default=0) for group in groups)
            if live > best[0]:
                best = (live, step)
        return best

    # --- files ---

    def assignment(self, rng):
        lines, number = ["BufferAssignment:"], 0
        for index, (size, flags, values) in enumerate(self.allocations):
            color = ", color 3" if rng.random() < 0.1 else ""
            lines.append(f"allocation {index}: size {size}{color}, {flags}:")
            for value in values:
                name = value.name + rng.choice(["", " (phi)", ""]) + rng.choice(["", " @0", " @3"])
                lines.append(f" value: <{number} {name}> (size={value.size},offset={value.offset}): "
                             f"(f32[2,2]{{1,0:T(8,128)}}, s32[])")
                number += 1
        return "\n".join(lines) + "\n"

    def ranges(self):
        lines = [f"HloLiveRange (max {self.steps}):", "  InstructionSequence:"]
        lines += [f"    {i}:{name}" for i, name in enumerate(self.names)]
        lines.append("  BufferLiveRange:")
        for _, _, values in self.allocations:
            lines += [f"    {v.key()}:{v.start}-{v.end}" for v in values if v not in self.without]
        lines.append("    elsewhere{}:0-1")
        lines += ["  Live ranges at 1 (peak):", "    any{}: 16 bytes (cumulative: 16 bytes)"]
        return "\n".join(lines) + "\n"

    def text(self):
        lines = ["HloModule jit_step.1, is_scheduled=true, x={ {1}: (28, {}, may-alias) }", "",
                 "ENTRY %main.1 () -> () {"]
        for name, op, operands, made, size in self.lines:
            reads = ", ".join("%" + o for o in operands)
            file, line = made.split(":")
            lines.append(f'  %{name} = (f32[{size}]{{0:T(128)}}, s32[]) {op}({reads}), kind=kLoop, metadata='
                         f'{{op_name="jit(step)/{op}" source_file="{file}" source_line={line}}}')
        return "\n".join(lines + ["}"]) + "\n"

    def write(self, rng, folder, split, text=True, number=7):
        stem = f"module_{number:04d}.jit_step.1.sm_9.0_gpu_after_optimizations"
        folder.mkdir(exist_ok=True)
        assignment = self.assignment(rng)
        if split:
            (folder / f"{stem}-live-range.txt").write_text(self.ranges())
        else:
            assignment += "\nTotal bytes used: 1 (1B)\n\nUsed values:\n<0 a>\n positions:\n  a\n\n\n" + self.ranges()
        (folder / f"{stem}-buffer-assignment.txt").write_text(assignment)
        if text:
            (folder / f"{stem}.txt").write_text(self.text())
        return folder / f"{stem}-buffer-assignment.txt"


# --- agreement -----------------------------------------------------------------------------------

def check(truth, word, told, expected):
    if told != expected:
        sys.exit(f"{truth}: {word} is {told}, expected {expected}")


def check_report(tenure, name, module, folder):
    status, out, err = run(tenure, "report", folder, "--json", "--top", 1000000)
    if status != 0:
        sys.exit(f"{name}: report ends with {status}: {err}")
    told = json.loads(out)
    live, step = module.peak()
    planned = sum(size for size, flags, _ in module.allocations if flags == "preallocated-temp")
    by_use = {"parameters": "parameter", "donated_parameters": "donated", "thread_local": "thread-local"}
    check(name, "planned", told["planned"], planned)
    check(name, "live", told["live"], live)
    check(name, "arenas", told["arenas"], len(module.allocations))
    check(name, "values", told["values"], sum(len(v) for _, _, v in module.allocations))
    check(name, "steps", told["steps"], module.steps)
    check(name, "without_life", told["without_life"], len(module.without))
    check(name, "lives_alone", told["lives_alone"], 1)
    for key, word in by_use.items():
        def is_use(flags):
            donated = flags.startswith("parameter") and flags.endswith("maybe-live-out")
            return donated if word == "donated" else flags.startswith(word) and not donated
        check(name, key, told["bytes"][key], sum(s for s, f, _ in module.allocations if is_use(f)))
    if module.first_conflict() is None:
        groups = sum(len(module.groups(v)) for _, _, v in module.allocations)
        values = sum(1 for _, _, group in module.allocations for v in group if v.size)
        check(name, "joined", told["joined"], values - groups)
        if not live <= told["lower_bound"] <= planned:
            sys.exit(f"{name}: the bound {told['lower_bound']} is not between {live} and {planned}")
        if told["tenure"] > planned:
            sys.exit(f"{name}: our plan takes {told['tenure']}, theirs {planned}")
    if live:
        check(name, "step", told["planned_arenas"][0]["step"], step)
        check(name, "sum of the holders", sum(h["bytes"] for h in told["holders"]), live)
        for holder in told["holders"]:
            base = holder["name"].split("{")[0]
            made = next(m for n, _, _, m, _ in module.lines if n == base)
            if not holder["source"].endswith(made):
                sys.exit(f"{name}: '{base}' comes from {made}, not {holder['source']}")


def check_verdict(tenure, name, module, folder):
    status, out, err = run(tenure, "verify", folder, "--json")
    expected = module.first_conflict()
    check(name, "status of verify", status, 0 if expected is None else 1)
    told = json.loads(out)
    check(name, "valid", told["valid"], expected is None)
    if expected is None:
        return
    step, pairs = expected
    if f"at step {step} " not in told["conflict"]:
        sys.exit(f"{name}: the first conflict is at step {step}, not: {told['conflict']}")
    named = set(told["conflict"].split("'")[1::2])
    if named not in pairs:
        sys.exit(f"{name}: {named} is none of the conflicts {pairs}")


def check_plan(tenure, name, folder, scratch):
    """Our plan of the dump is valid for it, by the plan file alone."""
    status, _, err = run(tenure, "plan", folder, "-o", scratch / "plan.json", "--quiet", "--overwrite")
    check(name, "status of plan " + err, status, 0)
    status, out, err = run(tenure, "verify", folder, "--plan", scratch / "plan.json", "--quiet")
    check(name, "status of verify --plan " + err, status, 0)


def one(tenure, seed, scratch):
    rng = random.Random(seed)
    module, name = Module(rng), f"seed {seed}"
    folder = scratch / f"dump{seed}"
    module.write(rng, folder, split=rng.random() < 0.5)
    check_report(tenure, name, module, folder)
    check_verdict(tenure, name, module, folder)
    if module.first_conflict() is None and module.temps:
        check_plan(tenure, name, folder, scratch)
    if len(module.temps) < 2:
        return
    moved = rng.choice(module.temps)
    size = module.allocations[moved.allocation][0]
    moved.offset = rng.randrange(0, size - moved.size + 1)
    moved.offset -= moved.offset % module.alignment
    module.write(rng, folder, split=True)
    check_verdict(tenure, name + ", damaged", module, folder)
    check_report(tenure, name + ", damaged", module, folder)


def check_diff(tenure, scratch):
    """A dump in which the compiler numbered its instructions anew shows no change."""
    rng = random.Random(5)
    module = Module(random.Random(5))
    module.write(rng, scratch / "old", split=True)
    texts = {path.name: path.read_text() for path in (scratch / "old").iterdir()}
    (scratch / "new").mkdir()
    for name, text in texts.items():
        for kind in ("fusion", "dot", "copy", "add"):
            for number in range(60, 0, -1):
                text = text.replace(f"{kind}.{number}", f"{kind}.{number + 100}")
        (scratch / "new" / name).write_text(text)
    status, out, err = run(tenure, "diff", scratch / "old", scratch / "new", "--json")
    check("diff", "status " + err, status, 0)
    told = json.loads(out)
    check("diff", "change", told["change"], 0)
    check("diff", "tensors", told["tensors"], [])


# --- damage --------------------------------------------------------------------------------------

HEAD = "BufferAssignment:\nallocation 0: size 64, preallocated-temp:\n"
VALUE = " value: <0 a @0> (size=64,offset=0): f32[16]{0}\n"
RANGES = "HloLiveRange (max 3):\n  InstructionSequence:\n    0:a\n  BufferLiveRange:\n    a{}:0-1\n"
HOSTILE = {  # name: (assignment, live ranges, words of the message)
    "no head": ("allocation 0: size 1:\n", "", "BufferAssignment"),
    "empty": ("", "", "BufferAssignment"),
    "beyond": (HEAD + VALUE.replace("offset=0", "offset=4"), RANGES, ":3: a value ends outside"),
    "negative": (HEAD + VALUE.replace("offset=0", "offset=-1"), RANGES, ":3: a value is not of the form"),
    "wrapped": (HEAD + VALUE.replace("size=64,offset=0", "size=9223372036854775807,offset=9223372036854775807"),
                RANGES, ":3: a value ends outside"),
    "huge": (HEAD + VALUE.replace("size=64", "size=99999999999999999999"), RANGES, ":3: "),
    "twice": (HEAD + VALUE + VALUE, RANGES, ":4: a value that is given twice"),
    "allocation twice": (HEAD + VALUE + HEAD.split("\n", 1)[1], RANGES, ":4: an allocation that is given twice"),
    "flag": (HEAD.replace("preallocated-temp", "preallocated-temp, sparkling") + VALUE, RANGES, "sparkling"),
    "line": (HEAD + "  block: 7\n", RANGES, "block: 7"),
    "value first": ("BufferAssignment:\n" + VALUE, RANGES, ":2: a value before"),
    "order": (HEAD + VALUE, RANGES.replace("0-1", "3-1"), ":5: a live range ends before"),
    "late": (HEAD + VALUE, RANGES.replace("0-1", "0-9"), ":5: a live range ends after"),
    "range twice": (HEAD + VALUE, RANGES + "    a{}:0-1\n", ":6: a live range that is given twice"),
    "numbers": (HEAD + VALUE, RANGES.replace("0:a", "1:a"), ":3: the instructions"),
    "section": (HEAD + VALUE, RANGES.replace("BufferLiveRange", "Sparkle"), "Sparkle"),
    "max": (HEAD + VALUE, RANGES.replace("max 3", "max 999999999999"), "10^8"),
    "cut": (HEAD + VALUE, RANGES.split("  BufferLive")[0], "cut off"),
    "zero": (HEAD + VALUE.replace("f32", "f\0"), RANGES, ":3: a zero byte"),
}


def check_hostile(tenure, scratch):
    for name, (assignment, ranges, words) in HOSTILE.items():
        folder = scratch / "hostile"
        folder.mkdir(exist_ok=True)
        for old in folder.iterdir():
            old.unlink()
        (folder / "module_0001.m.cpu_after_optimizations-buffer-assignment.txt").write_text(assignment)
        if ranges:
            (folder / "module_0001.m.cpu_after_optimizations-live-range.txt").write_text(ranges)
        for command in ("report", "verify", "plan"):
            status, _, err = run(tenure, command, folder)
            check(name, f"status of {command}", status, 2)
            if words not in err:
                sys.exit(f"{name}: no '{words}' in: {err}")


def check_folders(tenure, scratch):
    rng = random.Random(3)
    folder = scratch / "many"
    modules = {number: Module(random.Random(number)) for number in (3, 11, 20)}
    for number, module in modules.items():
        module.write(rng, folder, split=True, number=number)

    def size(module):
        return sum(s for s, flags, _ in module.allocations if flags == "preallocated-temp")
    told = json.loads(run(tenure, "report", folder, "--json")[1])
    check("many", "modules", told["modules"], 3)
    check("many", "planned", told["planned"], max(map(size, modules.values())))
    for number, module in modules.items():
        told = json.loads(run(tenure, "report", folder, "--json", "--module", number)[1])
        check("many", f"planned of {number}", told["planned"], size(module))
    check("many", "status by name", run(tenure, "verify", folder, "--module", "jit_step.1")[0], 0)
    check("many", "status of an unknown module", run(tenure, "verify", folder, "--module", "jit_s")[0], 2)
    # no live ranges: sums alone
    for path in folder.glob("*-live-range.txt"):
        path.unlink()
    told = json.loads(run(tenure, "report", folder, "--json", "--module", "3")[1])
    check("sums", "planned", told["planned"], size(modules[3]))
    check("sums", "valid", told["valid"], None)
    status, _, err = run(tenure, "verify", folder)
    check("sums", "status of verify", status, 2)
    if "xla_dump_buffer_assignment_analysis" not in err:
        sys.exit(f"sums: no advice in: {err}")
    # a link out of the folder is not followed, and a link to nothing is no endless loop
    outside = scratch / "outside.txt"
    outside.write_text(HEAD + VALUE)
    links = scratch / "links"
    links.mkdir()
    link = links / "module_0001.m.cpu_after_optimizations-buffer-assignment.txt"
    for target in (outside, link):
        if link.is_symlink():
            link.unlink()
        os.symlink(target, link)
        check("links", f"status for {target}", run(tenure, "report", links)[0], 2)
    check("empty folder", "status", run(tenure, "plan", scratch / "outside")[0], 2)


def check_truncated(tenure, scratch, count):
    rng = random.Random(9)
    path = Module(random.Random(9)).write(rng, scratch / "cut", split=False)
    whole = path.read_bytes()
    for _ in range(count):
        path.write_bytes(whole[:rng.randrange(len(whole))])
        status, _, err = run(tenure, "report", scratch / "cut", "--no-pools")
        if status not in (0, 2):
            sys.exit(f"truncated: status {status}: {err}")


def write_corpus(folder):
    """Seeds of fuzz/fuzz_xla.c: the files of a module, divided by form feeds."""
    rng, seed = random.Random(12), 0
    for number in range(8):
        seed = next(s for s in range(seed + 1, 1000) if Module(random.Random(s)).steps < 16)
        module = Module(random.Random(seed))
        parts = [module.assignment(rng), module.ranges(), module.text()]
        if number % 2:
            parts = [parts[0] + "\n\n" + parts[1], "", parts[2]]
        (folder / f"module{number}.txt").write_text("\f".join(parts))
    for name, (assignment, ranges, _) in HOSTILE.items():
        (folder / (name.replace(" ", "_") + ".txt")).write_text(assignment + "\f" + ranges)


def main():
    words = argparse.ArgumentParser()
    words.add_argument("tenure")
    words.add_argument("--seed", type=int, default=1)
    words.add_argument("--count", type=int, default=200)
    words.add_argument("--corpus", type=pathlib.Path)
    words = words.parse_args()
    if words.corpus:
        return write_corpus(words.corpus)
    count = case_count(words.count, 10)
    with tempfile.TemporaryDirectory() as name:
        scratch = pathlib.Path(name)
        for seed in range(words.seed, words.seed + count):
            one(words.tenure, seed, scratch)
        check_diff(words.tenure, scratch)
        check_hostile(words.tenure, scratch)
        check_folders(words.tenure, scratch)
        check_truncated(words.tenure, scratch, count // 4 + 5)
    print(f"{count} dumps, {len(HOSTILE)} hostile ones: all as expected")


main()
