#!/usr/bin/env python3
"""Bytes by allocation site: sites.py TENURE [--seed N] [--count N] [--corpus FOLDER]

Writes random device memory profiles as JAX does (packed and single numbers, fields in any order) and node
statistics as ONNX Runtime does, by an encoder of its own. `tenure report` must print the sums that are made
here. Damaged files, profiles of time, and hostile numbers must be refused with status 2.
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


def run(tenure, *words):
    done = subprocess.run([tenure, *map(str, words)], capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def check(name, word, told, expected):
    if told != expected:
        sys.exit(f"{name}: {word} is {told}, expected {expected}")


# --- protobuf ------------------------------------------------------------------------------------

def varint(n):
    n &= (1 << 64) - 1
    out = b""
    while n > 127:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def number(field, value):
    return varint(field << 3) + varint(value)


def message(field, body):
    return varint(field << 3 | 2) + varint(len(body)) + body


class Profile:
    """Samples of (bytes, count, kind, device, frames); a frame is (file, line, function)."""

    def __init__(self, rng):
        files = [f"/app/{n}.py" for n in ("train", "model", "optim")] + \
            ["/lib/site-packages/jax/_src/array.py", "/lib/python3/jaxlib/client.py"]
        places = [(rng.choice(files), rng.randint(1, 99), f"f{rng.randint(0, 9)}") for _ in range(12)]
        self.samples = []
        for _ in range(rng.randint(1, 60)):
            is_buffer = rng.random() < 0.8
            frames = [rng.choice(places) for _ in range(rng.randint(0, 6))]
            self.samples.append((rng.randint(0, 1 << rng.choice([4, 20, 40])), rng.randint(1, 9),
                                 "buffer" if is_buffer else "executable",
                                 rng.choice(["cuda:0", "cuda:1"]) if is_buffer else None, frames))
        self.packed = rng.random() < 0.5
        self.shuffled = rng.random() < 0.3

    def encode(self, rng, types=(("allocations", "count"), ("space", "bytes"))):
        texts, functions, locations = [""], {}, {}

        def text(word):
            if word not in texts:
                texts.append(word)
            return texts.index(word)

        def numbers(field, values):
            if self.packed and values:
                return message(field, b"".join(map(varint, values)))
            return b"".join(number(field, value) for value in values)
        parts = [message(1, number(1, text(a)) + number(2, text(b))) for a, b in types]
        for size, count, kind, device, frames in self.samples:
            ids = []
            for frame in frames:
                functions.setdefault((frame[2], frame[0]), 7 * len(functions) + 3)
                ids.append(locations.setdefault(frame, len(locations) + 1000))
            labels = message(3, number(1, text("kind")) + number(2, text(kind)))
            labels += message(3, number(1, text("unknown")) + number(3, 12))
            if device:
                labels += message(3, number(1, text("device")) + number(2, text(device)))
            parts.append(message(2, numbers(1, ids) + numbers(2, [count, size]) + labels))
        for (function, file), made in functions.items():
            parts.append(message(5, number(1, made) + number(2, text(function)) + number(4, text(file))))
        for (file, line, function), made in locations.items():
            inner = number(1, functions[function, file]) + number(2, line)
            parts.append(message(4, number(1, made) + message(4, inner)))
        parts.append(number(9, 1700000000) + number(12, 0))
        strings = [message(6, word.encode()) for word in texts]
        if self.shuffled:  # the types and the texts keep their order among themselves
            rest = parts[len(types):]
            rng.shuffle(rest)
            return b"".join(strings + rest + parts[:len(types)])
        return b"".join(parts + strings)

    def site(self, frames):
        if not frames:
            return "no stack"
        own = [f for f in frames if "/jax/_src/" not in f[0] and "/jaxlib/" not in f[0]]
        file, line, function = (own or frames)[0]
        return f"{file.rsplit('/', 1)[1]}:{line} {function}"

    def sums(self, key):
        found = {}
        for size, count, kind, device, frames in self.samples:
            name = {"kinds": kind, "devices": device, "lines": self.site(frames)}[key]
            if name is not None:
                old = found.get(name, (0, 0))
                found[name] = (old[0] + size, old[1] + count)
        return found


def check_profile(tenure, seed, scratch):
    rng, name = random.Random(seed), f"profile {seed}"
    profile = Profile(rng)
    path = scratch / ("memory.prof" if profile.shuffled else rng.choice(["memory.prof", "memory", "memory.gz"]))
    whole = profile.encode(rng)
    path.write_bytes(gzip.compress(whole) if path.suffix == ".gz" or rng.random() < 0.5 else whole)
    status, out, err = run(tenure, "report", path, "--json", "--top", 1000000)
    check(name, "status " + err, status, 0)
    told = json.loads(out)
    check(name, "samples", told["samples"], len(profile.samples))
    check(name, "bytes", told["bytes"], sum(s[0] for s in profile.samples))
    check(name, "blocks", told["blocks"], sum(s[1] for s in profile.samples))
    for key in ("kinds", "devices", "lines"):
        check(name, key, {row["name"]: (row["bytes"], row["blocks"]) for row in told[key]}, profile.sums(key))
        check(name, f"order of {key}", [r["bytes"] for r in told[key]],
              sorted((r["bytes"] for r in told[key]), reverse=True))
    check(name, "line_count", told["line_count"], len(told["lines"]))
    for row in told["lines"]:
        stacks = [[f"{f.rsplit('/', 1)[1]}:{n} {g}" for f, n, g in frames]
                  for *_, frames in profile.samples if profile.site(frames) == row["name"]]
        if row["stack"] not in stacks:
            sys.exit(f"{name}: no sample of {row['name']} has the stack {row['stack']}")
    table = run(tenure, "report", path)[1]
    if "kind" not in table or "JAX" not in table:
        sys.exit(f"{name}: no table: {table}")
    # truncated: refused, or (between two fields) fewer samples
    path.write_bytes(whole[:rng.randrange(len(whole))])
    status = run(tenure, "report", path)[0]
    if status not in (0, 2):
        sys.exit(f"{name}, truncated: status {status}")


def hostile_profiles():
    """name: (bytes, words of the message)"""
    strings = b"".join(message(6, w) for w in (b"", b"space", b"bytes", b"kind", b"cpu", b"nanoseconds"))
    types = message(1, number(1, 1) + number(2, 2))
    times = message(1, number(1, 4) + number(2, 5))

    def sample(body):
        return types + message(2, body) + strings
    place = message(4, number(1, 5) + message(4, number(1, 9) + number(2, 1)))
    function = message(5, number(1, 9) + number(2, 1))
    return {
        "time": (times + strings, "cpu in nanoseconds"),
        "no types": (strings, "does not count device memory"),
        "text": (message(1, number(1, 99)) + strings, "text 99 does not exist"),
        "huge text": (message(1, number(1, (1 << 64) - 1)) + strings, "does not exist"),
        "location": (sample(number(1, 5) + number(2, 1)), "location 5 does not exist"),
        "function": (sample(number(1, 5) + number(2, 1)) + place, "function 9 does not exist"),
        "twice": (sample(number(1, 5) + number(2, 1)) + place + place + function, "given twice"),
        "function twice": (sample(b"") + function + function, "given twice"),
        "negative": (sample(number(2, -1)), "negative"),
        "no value": (sample(b""), "without its values"),
        "two values": (sample(number(2, 1) + number(2, 1)), "more values than types"),
        "many values": (sample(message(2, b"\1" * 1000)), "more values than types"),
        "sum": (types + 3 * message(2, number(2, (1 << 63) - 1)) + strings, "2^64"),
        "deep": (sample(message(1, varint(5) * 1025) + number(2, 1)) + place + function, "1024 frames"),
        "label": (sample(message(3, number(1, 3) + number(2, 77)) + number(2, 1)), "text 77 does not exist"),
        "cut number": (types + strings + b"\x12\x03\x10\xff\xff", "byte "),
        "long number": (types + strings + b"\x12\x0c\x10" + b"\xff" * 11, "byte "),
        "field 0": (types + b"\x02\x00", "no such field number"),
        "types": (types * 17 + strings, "16 values"),
    }


# --- ONNX Runtime --------------------------------------------------------------------------------

HEADING = "#name,input_sizes,initializers_sizes,total_dynamic_sizes,total_temp_allocations\n"


def check_nodes(tenure, seed, scratch):
    rng, name = random.Random(seed), f"nodes {seed}"
    nodes = [(rng.choice(["conv", "a,b", 'quo"te', "", "relu 7"]) + str(i), *(rng.randint(0, 1 << 40) for _ in range(4)))
             for i in range(rng.randint(1, 40))]
    path = scratch / "stats.csv"
    end = rng.choice(["\n", "\r\n"])
    lines = [",".join(map(str, node)) for node in nodes]
    path.write_bytes((rng.choice(["", HEADING]) + end.join(lines) + rng.choice(["", end])).encode())
    told = json.loads(run(tenure, "report", path, "--json", "--top", 1000)[1])
    check(name, "nodes", told["nodes"], len(nodes))
    check(name, "outputs", told["outputs"], sum(n[3] for n in nodes))
    check(name, "scratch", told["scratch"], sum(n[4] for n in nodes))
    check(name, "initializers", told["initializers"], sum(n[2] for n in nodes))
    check(name, "largest", told["largest"], max(n[3] + n[4] for n in nodes))
    check(name, "rows", sorted((r["name"], r["inputs"], r["initializers"], r["outputs"], r["scratch"])
                               for r in told["largest_nodes"]), sorted(nodes))


HOSTILE_NODES = {
    "empty": ("", "no node"), "heading": (HEADING, "no node"), "few": (HEADING + "a,1,2,3\n", ":2: "),
    "negative": ("a,1,2,3,-4\n", ":1: "), "huge": ("a,1,2,3,99999999999999999999\n", ":1: "),
    "word": ("a,1,2,3,x\n", ":1: "), "zero": ("a\0,1,2,3,4\n", "zero byte"), "nothing": ("a,1,2,,4\n", ":1: "),
}


def check_hostile(tenure, scratch):
    for name, (whole, words) in hostile_profiles().items():
        for packed in (False, True):
            path = scratch / "hostile.prof"
            path.write_bytes(gzip.compress(whole) if packed else whole)
            for command in ("report", "replay", "plan"):
                status, _, err = run(tenure, command, path)
                check(name, f"status of {command} {err}", status, 2)
                if command == "report" and (words not in err or "hostile.prof" not in err):
                    sys.exit(f"{name}: no '{words}' in: {err}")
    for name, (whole, words) in HOSTILE_NODES.items():
        path = scratch / "hostile.csv"
        path.write_bytes(whole.encode())
        status, _, err = run(tenure, "report", path)
        check(name, f"status {err}", status, 2)
        if words not in err or "hostile.csv" not in err:
            sys.exit(f"{name}: no '{words}' in: {err}")
    path = scratch / "picture.prof"
    path.write_bytes(Profile(random.Random(1)).encode(random.Random(1)))
    status, _, err = run(tenure, "report", path, "-o", scratch / "x.html")
    check("picture", "status " + err, status, 2)
    path = scratch / "bomb.prof"
    path.write_bytes(gzip.compress(b"\x0a\x80\x80\x80\x80\x01" + bytes(200 << 20), 9))
    check("bomb", "status", run(tenure, "report", path)[0], 2)


def write_corpus(folder):
    for kind in ("pprof", "node_stats"):
        (folder / kind).mkdir(exist_ok=True)
    for seed in range(6):
        rng = random.Random(seed)
        profile = Profile(rng)
        profile.samples = profile.samples[:12]
        (folder / "pprof" / f"random{seed}.prof").write_bytes(profile.encode(rng))
    for name, (whole, _) in hostile_profiles().items():
        (folder / "pprof" / f"{name.replace(' ', '_')}.prof").write_bytes(whole)
    for name, (whole, _) in HOSTILE_NODES.items():
        (folder / "node_stats" / f"{name}.csv").write_bytes(whole.encode())
    (folder / "node_stats" / "good.csv").write_text(HEADING + "conv,1,2,3,4\na,b,5,6,7,8\r\n\nrelu,0,0,0,0")


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
            check_profile(words.tenure, seed, scratch)
            check_nodes(words.tenure, seed, scratch)
        check_hostile(words.tenure, scratch)
    print(f"{count} profiles and lists of nodes: all as expected")


main()
