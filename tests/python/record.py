#!/usr/bin/python3
"""python3 -m tenure.record: scripts of PyTorch that nobody changed, recorded and replayed.

    record.py TENURE SOURCE

Each script of examples/pytorch runs alone under PyTorch's profiler, which tells its peak, and again under the
recorder. What it prints must be the same, and the plain peak that `tenure simulate` finds in the log must be the
profiler's within 2 %. Every storage that the log names is released at most once, and before that it was made.
Exit status: 0 all of it holds, 1 not, 77 python3-torch is absent.
"""
import json
import os
import subprocess
import sys
import tempfile

try:
    import torch
except ImportError:
    print("SKIP: python3-torch is not installed")
    sys.exit(77)

PROFILED = """
import runpy, sys
sys.argv[:1] = []
from torch.profiler import ProfilerActivity, profile
with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
    runpy.run_path(sys.argv[0], run_name="__main__")
held = peak = 0
for event in profiler.profiler.kineto_results.events():
    if event.name() == "[memory]":
        held += event.nbytes()
        peak = max(peak, held)
print(peak)
"""


def check_log(path):
    """Names are made once, used while they are there, released once."""
    there, known = set(), set()
    for number, line in enumerate(open(path), 1):
        line = json.loads(line)
        for name in line.get("ARGS", []):
            assert name in there, "%s:%d: %s is not there" % (path, number, name)
        for name in line.get("RESULT", []):
            assert name not in known, "%s:%d: %s is made twice" % (path, number, name)
            known.add(name)
            there.add(name)
        if line["INSTRUCTION"] == "RELEASE":
            assert line["NAME"] in there, "%s:%d: %s is not there" % (path, number, line["NAME"])
            there.remove(line["NAME"])
    return len(known)


def main():
    tenure, source = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    at = dict(os.environ, PYTHONPATH=os.path.join(source, "bindings/python"), OMP_NUM_THREADS="1", PYTHONDONTWRITEBYTECODE="1")

    def ask(*words):
        return subprocess.run(words, env=at, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              universal_newlines=True)

    bad = 0
    record = [sys.executable, "-m", "tenure.record"]
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "run.log")
        for name in ("cnn", "transformer", "loop"):
            script = os.path.join(source, "examples/pytorch", name + ".py")
            alone = ask(sys.executable, "-c", PROFILED, script)
            *printed, peak = alone.stdout.splitlines()
            recorded = ask(*record, "-o", log, script)
            values = check_log(log)
            told = ask(tenure, "simulate", log, "--budget", "1.0", "--policy", "dtr", "--json")
            found = json.loads(told.stdout)["plain_peak"]
            apart = abs(found - int(peak)) / int(peak)
            good = recorded.returncode == 0 and recorded.stdout.splitlines() == printed and printed and apart <= 0.02
            bad += not good
            print("%-12s %5d values, plain peak %9d, profiler %9d, %.3f %% apart%s"
                  % (name, values, found, int(peak), 100 * apart, "" if good else ": FAILED"))
        short = ask(*record, "-o", log, "--ops", "50", os.path.join(source, "examples/pytorch/cnn.py"))
        if short.returncode != 0 or "50 operators" not in short.stderr or check_log(log) > 100:
            print("FAILED: --ops 50\n" + short.stderr)
            bad += 1
        for words, status in ((["none.py"], 2), (["-o", "/dev/null/x", script], 1)):
            refused = ask(*record, *words)
            if refused.returncode != status or "Traceback" in refused.stderr:
                print("FAILED: %s: status %d\n%s" % (words, refused.returncode, refused.stderr))
                bad += 1
    sys.exit(1 if bad else 0)


main()
