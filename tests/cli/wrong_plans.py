#!/usr/bin/env python3
"""A plan that is read rightly and is wrong ends `tenure verify` with status 1, whatever is wrong about it; a file that is no
plan ends it with status 2 and its name: wrong_plans.py TENURE SOURCE
"""
import copy
import json
import pathlib
import subprocess
import sys
import tempfile

tenure, source = sys.argv[1], pathlib.Path(sys.argv[2]).resolve()
MODEL, PROBLEM = source / "examples/models/two_branches.onnx", source / "examples/problems/nine_buffers.csv"
temporary = tempfile.TemporaryDirectory()
folder = pathlib.Path(temporary.name)
failed = count = 0


def run(*words):
    return subprocess.run([tenure, *map(str, words)], capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)


def made(name, *words):
    done = run("plan", *words, "-o", folder / name, "--quiet")
    if done.returncode != 0:
        sys.exit(f"FAILED: plan {words}: {done.stderr}")
    return json.loads((folder / name).read_text())


def wrong(what, status, text, source, plan, change):
    """`change` alters a copy of the plan; verify must end with `status`, and say `text`."""
    global failed, count
    count += 1
    document = copy.deepcopy(plan)
    change(document)
    (folder / "wrong.json").write_text(json.dumps(document))
    for words in ([], ["--json"]):
        done = run("verify", source, "--plan", folder / "wrong.json", *words)
        told = done.stdout if status < 2 else done.stderr
        if words and status == 1:
            answer = json.loads(told)
            told = answer["conflict"] if answer["valid"] is False else "valid"
        fits = done.returncode == status and text in told
        if status == 2 and "wrong.json" not in done.stderr:
            fits = False
        if not fits:
            print(f"FAILED: {what}: status {done.returncode}, not {status}: {done.stdout[:200]}{done.stderr[:200]}")
            failed = 1


def step(number, **members):
    def change(document):
        for key, value in members.items():
            if value is None:
                document["steps"][number].pop(key, None)
            else:
                document["steps"][number][key] = value
    return change


def place(index, **members):
    return lambda document: document["buffers"][index].update(members)


def swap(document):
    steps = document["steps"]
    steps[1], steps[5] = steps[5], steps[1]


streams = made("streams.json", MODEL, "--streams", 2)
waits = [i for i, s in enumerate(streams["steps"]) if "wait" in s]
signals = [i for i, s in enumerate(streams["steps"]) if "signal" in s]
assert waits and signals, "the plan has no waits"
for what, text, change in (
        ("a wait is left out", "wait for a signal of it", step(waits[0], wait=None)),
        ("a signal is left out", "which no instruction gives", step(signals[0], signal=None)),
        ("a wait for no signal", "waits for signal 99", step(waits[0], wait=99)),
        ("another stream", "wait for a signal of it", step(5, stream=None, wait=None)),
        ("another order", "A[5]", swap),
        ("an operator twice", "A[2]", lambda d: d["steps"].insert(3, d["steps"][2])),
        ("an operator less", "a2", lambda d: d["steps"].pop(2)),
        ("a buffer less", "'a5' is in no buffer", lambda d: d["buffers"].pop()),
        ("offsets", "share bytes", lambda d: [b.update(offset=0) for b in d["buffers"] + d["tensors"]]),
        ("an offset of a tensor", "contradicts itself", lambda d: d["tensors"][2].update(offset=8192)),
        ("a size", "needs 4,096", lambda d: d["tensors"][2].update(size=64)),
        ("the peak", "its peak is 1", lambda d: d["result"].update(peak=1)),
        ("the bound", "its lower bound is 1,000,000", lambda d: d["result"].update(lower_bound=1000000))):
    wrong(what, 1, text, MODEL, streams, change)
ordered = made("ordered.json", MODEL, "--objective", "waits", "--capacity", "24KiB")
for member in ("waits", "time"):
    wrong(member, 1, "states", MODEL, ordered, lambda d, m=member: d["result"].update({m: d["result"][m] + 1}))
paired = made("paired.json", MODEL, "--objective", "pairs", "--capacity", "12KiB", "--no-inplace")
assert paired["result"]["reuse_cost"] > 0, "no pair shares bytes"
wrong("fewer pairs", 1, "states", MODEL, paired, lambda d: d["result"].update(reuse_cost=d["result"]["reuse_cost"] - 1))
plan = made("plan.json", PROBLEM)
for what, text, change in (
        ("a buffer less", "no offset for 't2'", lambda d: d["buffers"].pop(2)),
        ("a size", "'t2' has 1 bytes", place(2, size=1)),
        ("an offset", "'t1' and 't2' share bytes", place(2, offset=1)),
        ("the peak", "its peak is 1", lambda d: d["result"].update(peak=1)),
        ("the bound", "its lower bound is 1,000,000", lambda d: d["result"].update(lower_bound=1000000))):
    wrong(f"{what} of a problem", 1, text, PROBLEM, plan, change)

# what is no plan: a number that is none, or an entry twice, with both places
for what, text, change in (
        ("an offset below 0", "buffers[2]", place(2, offset=-1)),
        ("a buffer twice", "buffers[9]: its id '2' is that of buffers[2]", lambda d: d["buffers"].append(d["buffers"][2])),
        ("an id twice", "buffers[7]: its id '3' is that of buffers[3]", place(7, id=3)),
        ("an id twice, as text", "buffers[7]: its id 'a' is that of buffers[3]",
         lambda d: (d["buffers"][3].update(id="a"), d["buffers"][7].update(id="a")))):
    wrong(what, 2, text, PROBLEM, plan, change)
wrong("fewer streams", 1, 'its member "streams" is 1, but its steps run on 2 streams', MODEL, streams, lambda d: d.pop("streams"))
wrong("streams of no step", 1, 'its member "streams" is 2, but its steps run on 1 stream', MODEL, streams,
      lambda d: [s.pop(k, None) for s in d["steps"] for k in ("stream", "wait", "signal")])
wrong("a tensor twice", 2, "tensors[9]: it is that of tensors[1]", MODEL, streams, lambda d: d["tensors"].append(d["tensors"][1]))
wrong("a step that is none", 2, "opcode", MODEL, streams, step(3, opcode="fly"))

# shared objects
objects = folder / "objects.csv"
run("plan", PROBLEM, "--form", "objects", "-o", objects, "--quiet")
lines = objects.read_text().splitlines()
same = [lines[0]] + [line.rsplit(",", 1)[0] + ",0" for line in lines[1:]]
for what, text, rows in (("an object for all", "share object", same), ("a buffer less", "no object for", lines[:2] + lines[3:])):
    objects.write_text("\n".join(rows) + "\n")
    done = run("verify", PROBLEM, "--form", "objects", "--plan", objects)
    count += 1
    if done.returncode != 1 or text not in done.stdout:
        print(f"FAILED: objects, {what}: status {done.returncode}: {done.stdout}{done.stderr}")
        failed = 1
print(f"{count} plans")
sys.exit(failed)
