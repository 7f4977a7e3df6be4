#!/usr/bin/env python3
"""Orders of XLA programs: xla_order.py TENURE [--seed N] [--count N] [--corpus FOLDER]

Writes dumps of small random programs with tuples, bitcasts, values in place, control dependencies and loops.
All orders are tried here, step by step. The least peak must be the one that `tenure report` finds and proves.
The source line of each holder must be the one of the stack frame that the module text refers to.
"""
import argparse
import itertools
import json
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


def check(name, word, told, expected):
    if told != expected:
        sys.exit(f"{name}: {word} is {told}, expected {expected}")


class Program:
    """Instructions in order. A buffer is a list of (maker, size) that follow each other in place."""

    def __init__(self, rng, count):
        self.rng, self.count = rng, count
        self.lines, self.reads, self.after = [], [set() for _ in range(count)], [set() for _ in range(count)]
        self.buffers = []          # of [makers], all of one size
        self.sizes = []
        self.names = {}            # value -> (instruction, index, buffer)
        self.frames = [rng.randint(1, 4) for _ in range(count)]
        handles = []               # (text name, values that it stands for)
        self.values = []           # (key, maker, buffer)
        for step in range(count):
            picked = rng.sample(handles, min(len(handles), rng.randint(0, 2)))
            name, kind = f"op.{step}", rng.choice(["fusion", "fusion", "dot", "bitcast", "pair", "tuple"])
            if not picked and kind in ("bitcast", "tuple"):
                kind = "fusion"
            values = [v for _, stood in picked for v in stood]
            for value in values:
                self.reads[step].add(value)
            more = ""
            for _, stood in picked:
                for v in stood:
                    self.after[step].add(self.values[v][1])
            if handles and rng.random() < 0.15:
                other = rng.randrange(step)
                self.after[step].add(other)
                more = f", control-predecessors={{%op.{other}}}"
            if kind == "bitcast":
                handles.append((name, sorted(set(values))))
                picked = picked[:]
            elif kind == "tuple":
                handles.append((name, sorted(set(values)) + [self.value(name + "{}", step, 8)]))
            elif kind == "pair":
                made = [self.value(f"{name}{{{i}}}", step, rng.randint(1, 40) * 8) for i in range(2)]
                handles += [(f"get.{step}.{i}", [made[i]]) for i in range(2)]
                self.lines.append((step, name, "(f32[4], f32[8])", "fusion", picked, more))
                for i in range(2):
                    self.lines.append((None, f"get.{step}.{i}", "f32[4]", "get-tuple-element", [(name, [])], f", index={i}"))
                continue
            else:
                made = self.in_place(step, values) if rng.random() < 0.5 else None
                if made is None:
                    made = self.value(name + "{}", step, rng.randint(1, 40) * 8)
                handles.append((name, [made]))
            self.lines.append((step, name, "f32[4,2]", kind, picked, more))

    def value(self, key, step, size):
        self.buffers.append([len(self.values)])
        self.sizes.append(size)
        self.values.append((key, step, len(self.buffers) - 1))
        return len(self.values) - 1

    def in_place(self, step, values):
        """The result takes the place of an operand, which nothing reads later."""
        for v in values:
            buffer = self.buffers[self.values[v][2]]
            if buffer[-1] == v and len(set(values)) == 1:
                self.taken = v
                buffer.append(len(self.values))
                self.values.append((f"op.{step}{{}}", step, self.values[v][2]))
                return len(self.values) - 1
        return None

    def is_sound(self):
        """No value is read after its buffer was overwritten."""
        for buffer in self.buffers:
            for before, after in zip(buffer, buffer[1:]):
                if any(before in reads for reads in self.reads[self.values[after][1] + 1:]):
                    return False
        return True

    def touches(self, buffer):
        return {self.values[v][1] for v in buffer} | {s for s in range(self.count) for v in buffer if v in self.reads[s]}

    def peak(self, order):
        """None: this order is not allowed."""
        at = {step: i for i, step in enumerate(order)}
        if any(at[b] > at[s] for s in range(self.count) for b in self.after[s]):
            return None
        for buffer in self.buffers:
            for before, after in zip(buffer, buffer[1:]):
                maker = self.values[after][1]
                if any(at[s] > at[maker] for s in self.touches([before])):
                    return None
        live = [0] * self.count
        for buffer, size in zip(self.buffers, self.sizes):
            steps = [at[s] for s in self.touches(buffer)]
            for i in range(min(steps), max(steps) + 1):
                live[i] += size
        return max(live)

    def write(self, folder):
        """Steps of the dump: bitcasts and get-tuple-elements count, too."""
        number = {name: i for i, (_, name, *_) in enumerate(self.lines)}
        of_step = {step: number[name] for step, name, *_ in self.lines if step is not None}
        ends = {}
        for v, (key, maker, _) in enumerate(self.values):
            ends[v] = max([of_step[maker]] + [of_step[s] for s in range(self.count) if v in self.reads[s]])
        placed, top = [], 0
        for buffer, size in zip(self.buffers, self.sizes):
            low = min(of_step[self.values[v][1]] for v in buffer)
            high = max(ends[v] for v in buffer)
            offset = 0
            for other, taken, a, b in sorted(placed):
                if a <= high and low <= b and other < offset + size and offset < other + taken:
                    offset = other + taken
            placed.append((offset, size, low, high))
            top = max(top, offset + size)
        lines = ["BufferAssignment:", f"allocation 0: size {top}, preallocated-temp:"]
        for i, (key, _, buffer) in enumerate(self.values):
            name = key[:-2] if key.endswith("{}") and self.rng.random() < 0.5 else key
            lines.append(f" value: <{i} {name} @0> (size={self.sizes[buffer]},offset={placed[buffer][0]}): f32[2]")
        ranges = [f"HloLiveRange (max {len(self.lines)}):", "  InstructionSequence:"]
        ranges += [f"    {i}:{line[1]}" for i, line in enumerate(self.lines)]
        ranges += ["  BufferLiveRange:"]
        for v, (key, maker, _) in enumerate(self.values):
            end = ends[v]
            buffer = self.buffers[self.values[v][2]]
            if v != buffer[-1]:
                end = of_step[self.values[buffer[buffer.index(v) + 1]][1]]
            ranges.append(f"    {key}:{of_step[maker]}-{end}")
        text = ["HloModule jit_small, is_scheduled=true", "", "FileNames", '1 "app/train.py"',
                '2 "/lib/site-packages/jax/_src/numpy.py"', "", "FunctionNames", '1 "main"', '2 "add"', "",
                "FileLocations"]
        text += [f"{i} {{file_name_id={2 if i > 4 else 1} function_name_id=1 line={100 + i} end_line=200 column=2}}"
                 for i in range(1, 9)]
        text += ["", "StackFrames"]
        text += [f"{i} {{file_location_id={i} parent_frame_id={i - 4 if i > 4 else i}}}" for i in range(1, 9)]
        text += ["", "", "ENTRY %main () -> f32[] {"]
        for i, (step, name, shape, kind, picked, more) in enumerate(self.lines):
            kind = "fusion" if kind in ("fusion", "pair") else kind
            operands = ", ".join(f"/*index={k}*/{self.rng.choice(['', 'f32[4]{0} '])}%{o[0]}" for k, o in enumerate(picked))
            frame = self.frames[step if step is not None else 0] + self.rng.choice([0, 4])
            root = "ROOT " if i == len(self.lines) - 1 else ""
            text.append(f'  {root}%{name} = {shape}{{1,0:T(8,128)}} {kind}({operands}){more}, metadata={{op_name="jit(f)/x" '
                        f'stack_frame_id={frame}}}')
        stem = "module_0001.jit_small.cpu_after_optimizations"
        folder.mkdir()
        (folder / f"{stem}-buffer-assignment.txt").write_text("\n".join(lines) + "\n")
        (folder / f"{stem}-live-range.txt").write_text("\n".join(ranges) + "\n")
        (folder / f"{stem}.txt").write_text("\n".join(text + ["}", ""]))


def one(tenure, seed, scratch, count):
    name = f"seed {seed}"
    program = next(p for p in (Program(random.Random(f"{seed}.{i}"), count) for i in range(1000))
                   if p.is_sound() and p.values)
    folder = scratch / f"dump{seed}"
    program.write(folder)
    peaks = [p for p in (program.peak(order) for order in itertools.permutations(range(count))) if p is not None]
    status, out, err = run(tenure, "report", folder, "--json", "--top", 100)
    check(name, "status " + err, status, 0)
    told = json.loads(out)
    check(name, "validity", (told["valid"], told["conflict"]), (True, None))
    check(name, "live", told["live"], program.peak(range(count)))
    check(name, "missing", told["other_order_missing"], None)
    check(name, "other_order", told["other_order"], min(peaks))
    check(name, "other_order_bound", told["other_order_bound"], min(peaks))
    for holder in told["holders"]:
        step = int(holder["name"].split("{")[0].split(".")[1])
        check(name, "source of " + holder["name"], holder["source"], f"jit(f)/x, app/train.py:{100 + program.frames[step]}")
    status, _, err = run(tenure, "plan", folder, "-o", scratch / "plan.json", "--overwrite")
    check(name, "status of plan " + err, status, 0)
    words = "no order with the same values in place needs less"
    if words not in err:
        sys.exit(f"{name}: no '{words}' in: {err}")
    return min(peaks) < told["live"]


LOOP = """HloModule jit_loop, is_scheduled=true

%body (p: f32[4]) -> f32[4] {
  %p = f32[4] parameter(0)
  %big = f32[64] fusion(%p)
  ROOT %out = f32[4] fusion(%big)
}

ENTRY %main () -> f32[] {
  %a = f32[4] parameter(0)
  %b = f32[40] fusion(%a)
  %loop = f32[4] while(%a), condition=%c, body=%body
  ROOT %end = f32[4] fusion(%loop, %b)
}
"""


def check_loop(tenure, scratch):
    """The steps of a loop's body stay together: b can move behind the loop."""
    folder = scratch / "loop"
    folder.mkdir()
    stem = "module_0001.jit_loop.cpu_after_optimizations"
    steps = ["a", "b", "p", "big", "out", "loop", "end"]
    ranges = {"a{}": (0, 2), "b{}": (1, 6), "big{}": (3, 4), "out{}": (4, 5), "loop{}": (5, 6)}
    sizes = {"a{}": 16, "b{}": 160, "big{}": 256, "out{}": 16, "loop{}": 16}
    places = {"a{}": 0, "b{}": 64, "big{}": 256, "out{}": 0, "loop{}": 0}
    lines = ["BufferAssignment:", "allocation 0: size 512, preallocated-temp:"]
    lines += [f" value: <{i} {k} @0> (size={sizes[k]},offset={places[k]}): f32[2]" for i, k in enumerate(ranges)]
    (folder / f"{stem}-buffer-assignment.txt").write_text("\n".join(lines) + "\n")
    lines = [f"HloLiveRange (max {len(steps)}):", "  InstructionSequence:"]
    lines += [f"    {i}:{s}" for i, s in enumerate(steps)] + ["  BufferLiveRange:"]
    lines += [f"    {k}:{a}-{b}" for k, (a, b) in ranges.items()]
    (folder / f"{stem}-live-range.txt").write_text("\n".join(lines) + "\n")
    (folder / f"{stem}.txt").write_text(LOOP)
    told = json.loads(run(tenure, "report", folder, "--json")[1])
    check("loop", "live", told["live"], 160 + 256 + 16)
    # in the loop: big and out; a is an operand of the loop, and the loop's result is at the place of out
    if not 256 <= told["other_order"] <= 256 + 48:
        sys.exit(f"loop: another order needs {told['other_order']}")
    (folder / f"{stem}.txt").write_text(LOOP.replace("%big", "%other"))
    told = json.loads(run(tenure, "report", folder, "--json")[1])
    check("loop", "missing", told["other_order_missing"], "the text of the module does not contain all instructions")
    check("loop", "other_order", told["other_order"], None)
    (folder / f"{stem}.txt").unlink()
    told = json.loads(run(tenure, "report", folder, "--json")[1])
    check("loop", "missing", told["other_order_missing"], "the dump has no text of the module")


def write_corpus(folder):
    """Seeds of fuzz/fuzz_xla.c."""
    with tempfile.TemporaryDirectory() as name:
        for seed in range(6):
            program = next(p for p in (Program(random.Random(f"{seed}.{i}"), 5) for i in range(1000))
                           if p.is_sound() and p.values)
            program.write(pathlib.Path(name) / str(seed))
            files = sorted((pathlib.Path(name) / str(seed)).iterdir())  # assignment, live ranges, text
            (folder / f"order{seed}.txt").write_text("\f".join(f.read_text() for f in files))


def main():
    words = argparse.ArgumentParser()
    words.add_argument("tenure")
    words.add_argument("--seed", type=int, default=1)
    words.add_argument("--count", type=int, default=150)
    words.add_argument("--corpus", type=pathlib.Path)
    words = words.parse_args()
    if words.corpus:
        return write_corpus(words.corpus)
    count, lower = case_count(words.count, 10), 0
    with tempfile.TemporaryDirectory() as name:
        scratch = pathlib.Path(name)
        for seed in range(words.seed, words.seed + count):
            lower += one(words.tenure, seed, scratch, 3 + seed % 5)
        check_loop(words.tenure, scratch)
    print(f"{count} programs, {lower} of them with a better order: all as expected")


main()
