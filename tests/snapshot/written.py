#!/usr/bin/env python3
"""What we write as memory snapshots: read by CPython, by what PyTorch's viewers ask of a file, by
PyTorch's own code where it is installed, and by `tenure report`.

    written.py TENURE SOURCE
"""
import json
import os
import pickle
import pickletools
import subprocess
import sys
import tempfile

# Opcodes of torch/utils/viz/MemoryViz.js, which reads a snapshot in the browser.
VIEWER = set("PROTO APPEND APPENDS LIST TUPLE NEWFALSE NEWTRUE NONE BINGET BININT BININT1 BININT2 EMPTY_DICT "
             "EMPTY_LIST FRAME LONG1 LONG_BINGET MARK MEMOIZE BINPUT LONG_BINPUT SETITEMS SETITEM DICT "
             "SHORT_BINUNICODE BINUNICODE STOP EMPTY_TUPLE TUPLE1 TUPLE2 TUPLE3 BINFLOAT".split())


def run(*command, status=0):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != status:
        raise SystemExit("%s: status %d\n%s%s" % (command, done.returncode, done.stdout, done.stderr))
    return done.stdout


def walk(trace):
    """Live bytes at most, as the viewer adds them up; every event must fit to those before."""
    live, now, most, segments, last = {}, 0, 0, {}, 0
    for event in trace:
        assert set(event) >= {"action", "addr", "size", "stream", "time_us", "frames", "category"}
        assert event["time_us"] >= last
        last = event["time_us"]
        address, size, action = event["addr"], event["size"], event["action"]
        if action == "alloc":
            assert address not in live and any(a <= address and address + size <= a + s
                                               for a, s in segments.items()), event
            live[address] = size
            now += size
            most = max(most, now)
        elif action == "free_completed":
            assert live.pop(address) == size
            now -= size
        elif action == "segment_alloc":
            segments[address] = size
        elif action == "segment_free":
            assert segments.pop(address) >= size
        else:
            assert action == "free_requested" and live[address] == size
    return most, live, segments


def check(path):
    """The pickle, and who holds how much at most."""
    with open(path, "rb") as file:
        data = file.read()
    used = {op.name for op, _, _ in pickletools.genops(data)}
    assert used <= VIEWER, used - VIEWER
    assert data[0] == 0x80 and data[1] <= 4, "the viewer refuses protocol 5"
    snapshot = pickle.loads(data)
    (trace,) = snapshot["device_traces"]
    most, live, segments = walk(trace)
    assert {s["address"]: s["total_size"] for s in snapshot["segments"]} == segments
    for segment in snapshot["segments"]:
        at = segment["address"]
        for block in segment["blocks"]:
            assert block["address"] == at and block["address"] < 2**53
            at += block["size"]
            if block["state"] == "active_allocated":
                assert live.pop(block["address"]) == block["requested_size"] <= block["size"]
        assert at == segment["address"] + segment["total_size"]
        active = [b for b in segment["blocks"] if b["state"] == "active_allocated"]
        assert segment["active_size"] == sum(b["size"] for b in active)
        assert segment["requested_size"] == sum(b["requested_size"] for b in active)
    assert not live, live
    categories = [event["category"] for event in trace]
    assert "unknown" in categories or not categories, "a version of the viewer stops without it"
    return snapshot, most


def check_torch(snapshots):
    """PyTorch's own code over what we wrote; the versions of old take the segments alone."""
    try:
        import torch.cuda._memory_viz as viz
    except ImportError:
        print("PyTorch is not installed: its viewer's code was not asked")
        return
    for snapshot in snapshots:
        whole = snapshot if hasattr(viz, "trace_plot") else snapshot["segments"]
        for name in ("memory", "segments"):
            lines = getattr(viz, name)(whole, format_flamegraph=lambda text: text)
            told = sum(int(line.rsplit(" ", 1)[1]) for line in lines.splitlines())
            assert told == sum(s["total_size"] for s in snapshot["segments"]), name
        for name in ("segsum", "trace", "trace_plot"):
            if hasattr(viz, name):
                assert getattr(viz, name)(snapshot)
        if hasattr(viz, "stats"):
            assert viz.stats(whole)["segments"] == len(snapshot["segments"])
    print("PyTorch's _memory_viz took them all")


def report(tenure, path):
    (device,) = json.loads(run(tenure, "report", path, "--json", "--no-pools"))["devices"]
    for wrong in ("wrong_requests", "wrong_blocks", "wrong_segments", "wrong_device"):
        assert device[wrong] == 0, device["first_wrong"]
    return device


def main():
    tenure, source = sys.argv[1:3]
    model = os.path.join(source, "examples/models/mobilenet_v2.onnx")
    trace = os.path.join(source, "examples/traces/two_steps.csv")
    snapshots = []
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "s.pickle")

        def written(what, *command):
            run(tenure, *command, path)
            snapshot, most = check(path)
            snapshots.append(snapshot)
            told = report(tenure, path)
            assert told["requested_peak"] == most, (what, told["requested_peak"], most)
            return told

        weights = ["--weights", "random:1", "--trace"]
        planned = written("run", "run", model, *weights)
        pooled = written("run with a pool", "run", model, "--pool", "best-fit", *weights)
        assert planned["requested_peak"] == pooled["requested_peak"]
        written("run twice", "run", model, "--repeat", "2", *weights)
        peak = json.loads(run(tenure, "replay", trace, "--json"))["live_peak"]
        for pool in run(tenure, "list", "pools").splitlines():
            name = pool.split()[0]
            told = written("replay", "replay", trace, "--pool", name, "-o")
            assert told["requested_peak"] == peak, name
        again = json.loads(run(tenure, "replay", path, "--json"))
        assert again["live_peak"] == peak
    check_torch(snapshots)
    print("%d snapshots written and read" % len(snapshots))


if __name__ == "__main__":
    main()
