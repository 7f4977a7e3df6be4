#!/usr/bin/python3
"""Runs models with --trace and judges the files with nothing but what the runs say elsewhere.

Usage: trace.py TENURE MODEL... Steps of a stream do not overlap; each run has every step once, in order; the
curve peaks where the plan does and ends at nothing; the blocks add up, row by row, to their counter; and the
allocations, replayed, need at the peak what the counter says.
"""
import collections
import json
import pathlib
import subprocess
import sys
import tempfile

RUNS = 2


def tenure(*words):
    done = subprocess.run([sys.argv[1], *map(str, words)], capture_output=True, text=True)
    assert done.returncode == 0, (words, done.returncode, done.stderr)
    return json.loads(done.stdout)


def check_steps(rows):
    """Returns the number of steps of a run."""
    ends = collections.defaultdict(float)
    steps = [row for row in rows if row["ph"] == "X"]
    for row in steps:
        assert row["dur"] >= 0 and row["ts"] >= ends[row["tid"]] - 1e-6, row
        ends[row["tid"]] = row["ts"] + row["dur"]
        assert row["name"] and row["cat"], row
    count = len(steps) // RUNS
    order = [(run, step) for run in range(RUNS) for step in range(count)]
    assert [(row["args"]["run"], row["args"]["step"]) for row in steps] == order
    return count


def check_curve(rows, count, answer):
    curve = [sum(row["args"].values()) for row in rows if row["ph"] == "C" and row["name"] == "live bytes"]
    assert len(curve) == RUNS * (count + 1)
    first = curve[: count + 1]
    assert first == curve[count + 1 :] and first[-1] == 0
    holders = answer["holders"]
    assert max(first) == sum(row["allocated"] for row in holders)
    # the plans of these models are as small as can be: no more than rounding lies between
    assert 0 <= answer["planned_peak"] - max(first) <= 64 * len(holders), (answer["planned_peak"], max(first))


def check_blocks(rows):
    """Returns the most bytes in use at once."""
    live, most = collections.Counter(), 0
    for row, counter in zip(rows, rows[1:]):
        if row["ph"] != "i":
            continue
        assert row["cat"] in ("alloc", "free") and row["args"]["bytes"] > 0, row
        live[row["args"]["kind"]] += row["args"]["bytes"] if row["cat"] == "alloc" else -row["args"]["bytes"]
        assert counter["ph"] == "C" and counter["name"] == "block bytes", counter
        assert +live == +collections.Counter(counter["args"]), (live, counter)
        most = max(most, sum(live.values()))
    return most


with tempfile.TemporaryDirectory() as folder:
    for model in sys.argv[2:]:
        path = pathlib.Path(folder, "run.trace.json")
        table = pathlib.Path(folder, "run.trace.csv")
        words = ("run", model, "--weights", "random:1", "--repeat", RUNS, "--json", "--holders=1000000")
        answer = tenure(*words, "--trace", path)
        trace = json.loads(path.read_text())
        rows = trace["traceEvents"]
        assert trace["otherData"]["dropped"] == 0
        count = check_steps(rows)
        check_curve(rows, count, answer)
        most = check_blocks(rows)
        tenure(*words, "--trace", table)
        replayed = tenure("replay", table, "--json")
        assert replayed["live_peak"] == most, (replayed["live_peak"], most)
        assert all(pool["fits"] for pool in replayed["pools"])
        print(f"{pathlib.Path(model).name}: {count} steps, {most} bytes in blocks at once")
