#!/usr/bin/env python3
"""Traces of PyTorch's profiler with known contents: kineto.py TENURE [--seed N] [--count N] [--corpus FOLDER]

Writes random traces with nested operators on several threads, blocks of several devices, and blocks that were
allocated before the trace began. The live bytes at each event, the peak and the innermost operator of each
block are computed here. `tenure report` and `replay` must agree. Damaged traces must be refused with status 2.
"""
import argparse
import gzip
import json
import pathlib
import random
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from count import case_count  # noqa: E402

BASE = 1700000000000000  # microseconds
OLDER = "(allocated before the profile began)"


def run(tenure, *words):
    done = subprocess.run([tenure, *map(str, words)], capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def check(name, word, told, expected):
    if told != expected:
        sys.exit(f"{name}: {word} is {told}, expected {expected}")


class Trace:
    """Times are in tenths of a microsecond: `at` of an event, [start, end] of an operator."""

    def __init__(self, rng):
        self.rng = rng
        self.devices = rng.choice([[(1, 0)], [(0, -1)], [(1, 0), (1, 1), (0, -1)], [(0, -1), (12, 0)]])
        self.threads = [7, "stream 7"][:rng.randint(1, 2)]
        self.totals = rng.random() < 0.7
        self.operators, self.memory = [], []
        for thread in self.threads:
            self.nest(thread, 0, 4000, 0)
        live = {}
        self.idle = {device: rng.choice([0, 5000]) for device in self.devices}  # older, never freed
        older = {device: [(10 ** 6 + i * 4096, rng.randint(1, 4000)) for i in range(rng.randint(0, 3))]
                 for device in self.devices}
        allocated = {device: self.idle[device] + sum(size for _, size in older[device]) for device in self.devices}
        for number in range(rng.randint(1, 60)):
            device, at = rng.choice(self.devices), rng.randint(0, 400) * 10 + rng.choice([0, 5])
            self.memory.append([at, number, device, rng.choice(self.threads)])
        self.memory.sort(key=lambda row: row[:2])
        for row in self.memory:
            device = row[2]
            blocks = [key for key in live if key[0] == device]
            if older[device] and rng.random() < 0.3:
                address, size = older[device].pop()
                row += [address, -size]
            elif blocks and rng.random() < 0.45:
                key = rng.choice(blocks)
                row += [key[1], -live.pop(key)]
            else:
                free = [n for n in range(100) if (device, n * 4096) not in live]
                address, size = rng.choice(free[:10]) * 4096, rng.randint(1, 4000)
                live[device, address] = size
                row += [address, size]
            allocated[device] += row[5]
            row.append(allocated[device])
        for device in self.devices:
            self.idle[device] += sum(size for _, size in older[device])

    def nest(self, thread, start, end, depth):
        at = start
        while depth < 5 and end - at > 30:
            first = at + self.rng.randint(1, 20)
            last = min(end - 1, first + self.rng.randint(5, 1500))
            if last <= first:
                return
            kind = self.rng.choice(["cpu_op", "cpu_op", "user_annotation", "python_function"])
            name = {"cpu_op": f"aten::op{self.rng.randint(0, 5)}", "user_annotation": f"part {depth}",
                    "python_function": f"app/model{depth}.py({first + 1}): run"}[kind]
            self.operators.append((thread, first, last, kind, name))
            self.nest(thread, first, last, depth + 1)
            at = last + self.rng.randint(1, 200)

    def line(self, at, thread):
        """As the report names it: the innermost Python function, else the innermost operator."""
        cover = sorted((o for o in self.operators if o[0] == thread and o[1] <= at <= o[2]),
                       key=lambda o: (o[1], -o[2]))
        for _, _, _, kind, name in reversed(cover):
            if kind == "python_function":
                place, function = name.rsplit("): ", 1)
                return "{}:{} {}".format(*place.rsplit("(", 1), function)
        return cover[-1][4] if cover else "(no stack)"

    def encode(self, form):
        def time(n):
            return f"{BASE + n // 10}.{n % 10}"
        rows = []
        for thread, first, last, kind, name in self.operators:
            rows.append(f'{{"ph": "X", "cat": "{kind}", "name": {json.dumps(name)}, "pid": 4, "tid": {json.dumps(thread)}, '
                        f'"ts": {time(first)}, "dur": {(last - first) / 10}, "args": {{"External id": [1, {{}}]}}}}')
        for at, number, (kind, ordinal), thread, address, size, total in self.memory:
            more = f', "Total Allocated": {total if kind else 0}' if self.totals else ""
            rows.append(f'{{"ph": "i", "s": "t", "name": "[memory]", "pid": 4, "tid": {json.dumps(thread)}, "ts": {time(at)}, '
                        f'"args": {{"Addr": {address}, "Bytes": {size}, "Device Type": {kind}, "Device Id": {ordinal}, '
                        f'"Ev Idx": {number}{more}}}}}')
        rows.append('{"ph": "X", "cat": "kernel", "name": "not of the CPU", "pid": 0, "tid": 7, "ts": 1, "dur": 9e14}')
        rows.append('{"ph": "M", "name": "process_name", "args": {"name": "a \\" { [ b"}}')
        self.rng.shuffle(rows)
        text = "[" + self.rng.choice([",", " ,\n "]).join(rows) + "]"
        return text if form == "list" else f'{{"schemaVersion": 1, "deep": [[{{"a": null}}]], "traceEvents": {text}, "more": -1.5e3}}'

    def order(self):
        return sorted(self.devices, key=lambda d: (d[0] == 0, d))


def name_of(device):
    return {0: "cpu", 1: f"cuda:{device[1]}", 12: f"xpu:{device[1]}"}[device[0]]


def truth(trace, device):
    """Peak, bytes and blocks at the end by line, older blocks."""
    rows = [row for row in trace.memory if row[2] == device]
    known, older = {}, 0
    for at, _, _, thread, address, size, _ in rows:
        if size < 0:
            older += 0 if address in known else -size
            known.pop(address, None)
        else:
            known[address] = (size, trace.line(at, thread))
    idle = trace.idle[device] if trace.totals and device[0] != 0 else 0
    live = older + idle
    peak = live if idle or not rows else older
    for row in rows:
        live += row[5]
        peak = max(peak, live)
    lines = {}
    for size, line in known.values():
        bytes_, blocks = lines.get(line, (0, 0))
        lines[line] = (bytes_ + size, blocks + 1)
    if idle:
        lines[OLDER] = (idle, 1)
    return peak, lines, older, len(rows) + (idle > 0)


def one(tenure, seed, scratch):
    rng, name = random.Random(seed), f"seed {seed}"
    trace = Trace(rng)
    path = scratch / rng.choice(["trace.json", "trace.json.gz"])
    text = rng.choice(["", "\n", "\n  "]).encode() + trace.encode(rng.choice(["list", "object"])).encode()  # Kineto begins with a line feed
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    status, out, err = run(tenure, "report", path, "--json", "--top", 1000, "--no-pools")
    check(name, "status " + err, status, 0)
    devices = json.loads(out)["devices"]
    used = [d for d in trace.order() if any(row[2] == d for row in trace.memory)]
    check(name, "devices", [d["device_name"] for d in devices], [name_of(d) for d in used])
    peaks = []
    for told, device in zip(devices, used):
        peak, lines, older, events = truth(trace, device)
        peaks.append(peak)
        check(name, "peak", told["requested_peak"], peak)
        check(name, "bytes before", told["before_bytes"], older)
        check(name, "events", told["events"], events)
        check(name, "requested", told["requested"], sum(size for size, _ in lines.values()))
        check(name, "disagreements", told["wrong_requests"] + told["wrong_blocks"] + told["wrong_segments"], 0)
        now = next(m for m in told["moments"] if m["name"] == "now")
        check(name, "lines", {r["name"]: (r["bytes"], r["blocks"]) for r in now["line"]}, lines)
    status, out, err = run(tenure, "replay", path, "--json", "--pool", "best-fit")
    check(name, "status of replay " + err, status, 0)
    check(name, "peak of replay", json.loads(out)["live_peak"], max(peaks))
    # truncated
    path = scratch / "cut.json"
    path.write_bytes(text[:rng.randrange(1, len(text))])
    for command in ("report", "replay"):
        check(name, f"status of {command}, truncated", run(tenure, command, path)[0], 2)


def event(**changes):
    made = {"ph": '"i"', "name": '"[memory]"', "ts": "1", "Bytes": "8", "Addr": "4096", "Device Type": "1",
            "Device Id": "0"}
    made.update({key.replace("_", " "): value for key, value in changes.items()})
    outer = [f'"{key}": {made[key]}' for key in ("ph", "name", "ts")]
    inner = [f'"{key}": {value}' for key, value in made.items() if key not in ("ph", "name", "ts") and value]
    return "{" + ", ".join(outer) + ', "args": {' + ", ".join(inner) + "}}"


HOSTILE = {  # name: (text, words of the message)
    "no events": ('{"a": 1}', "no traceEvents"),
    "empty": ('{"traceEvents": []}', "profile_memory=True"),
    "no memory": ('[{"ph": "X", "name": "a", "ts": 1, "dur": 2}]', "profile_memory=True"),
    "twice": ('{"traceEvents": [], "traceEvents": []}', "given twice"),
    "deep": ('{"a": ' + "[" * 100 + "]" * 100 + "}", "64 values"),
    "bracket": ('{"a": [}]}', "closes nothing"),
    "control": ('{"a": "\n"}', "control character"),
    "comma": ("[1 2]", "no ','"),
    "colon": ('{"a" 1}', "no ':'"),
    "name": ("{1: 2}", "without a name"),
    "infinite": ("[" + event(ts="1e999") + "]", "a time"),
    "late": ("[" + event(ts="8e15") + "]", "a time"),
    "word": ("[" + event(ts="soon") + "]", "a time"),
    "fraction": ("[" + event(Bytes="1.5") + "]", "Bytes is no whole number"),
    "huge": ("[" + event(Bytes="9" * 30) + "]", "Bytes is no whole number"),
    "least": ("[" + event(Bytes="-9223372036854775808") + "]", "out of range"),
    "address": ("[" + event(Addr="18446744073709551616") + "]", "Addr is no whole number"),
    "negative address": ("[" + event(Addr="-1") + "]", "Addr is no whole number"),
    "no bytes": ("[" + event(Bytes="") + "]", "without ts, Bytes or Addr"),
    "device": ("[" + event(Device_Id="99999999") + "]", "no device has"),
    "devices": ("[" + ",".join(event(Device_Id=str(n)) for n in range(1025)) + "]", "1024 devices"),
    "duration": ('[{"ph": "X", "name": "a", "ts": 1, "dur": -2},' + event() + "]", "negative duration"),
    "sum": ("[" + ",".join(event(Bytes="9223372036854775807", Addr=str(n)) for n in range(3)) + "]", "2^62"),
    "plain": ('[{"name": "aten::mm", "ph": "X", "ts": 1, "dur": 1, "tid": 1, "pid": "CPU functions", "args": {}}]', "without Kineto"),
    "line feed": ('\n{"traceEvents": []}', "no memory events"),
    "long": ('[{"ph": "X", "name": "' + "a" * (1 << 20) + '"}]', "1 MiB"),
}


def check_hostile(tenure, scratch):
    path = scratch / "hostile.json"
    for name, (text, words) in HOSTILE.items():
        path.write_text(text)
        for command in ("report", "replay"):
            status, _, err = run(tenure, command, path)
            check(name, f"status of {command} {err}", status, 2)
            if words not in err or "hostile.json" not in err:
                sys.exit(f"{name}: no '{words}' in: {err}")
    # values of extreme times and addresses are not refused
    path.write_text("[" + event(ts="-3999999999999999.9", Addr="18446744073709551615") + "," +
                    event(ts="3.9e15", Bytes="-8", Addr='"18446744073709551615"') + ",]")
    status, out, err = run(tenure, "report", path, "--json")
    check("extreme", "status " + err, status, 0)
    check("extreme", "requested", json.loads(out)["devices"][0]["requested"], 0)
    path.write_text("#name,input_sizes,initializers_sizes,total_dynamic_sizes,total_temp_allocations\na,1,2,3,4\n")
    status, _, err = run(tenure, "replay", path)
    check("node statistics", "status " + err, status, 2)


def write_corpus(folder):
    folder = folder / "kineto"
    folder.mkdir(exist_ok=True)
    for seed in range(8):
        trace = Trace(random.Random(seed))
        del trace.operators[12:], trace.memory[12:]
        (folder / f"random{seed}.json").write_text(trace.encode("list" if seed % 2 else "object"))
    for name, (text, _) in HOSTILE.items():
        if len(text) < 2000:
            (folder / f"{name.replace(' ', '_')}.json").write_text(text)


def main():
    words = argparse.ArgumentParser()
    words.add_argument("tenure")
    words.add_argument("--seed", type=int, default=1)
    words.add_argument("--count", type=int, default=150)
    words.add_argument("--corpus", type=pathlib.Path)
    words = words.parse_args()
    if words.corpus:
        return write_corpus(words.corpus)
    count = case_count(words.count, 10)
    with tempfile.TemporaryDirectory() as name:
        scratch = pathlib.Path(name)
        for seed in range(words.seed, words.seed + count):
            one(words.tenure, seed, scratch)
        check_hostile(words.tenure, scratch)
    print(f"{count} traces, {len(HOSTILE)} hostile ones: all as expected")


main()
