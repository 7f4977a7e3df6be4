#!/usr/bin/env python3
"""A recorded run on the memory of a device: play.py TENURE STANDIN SOURCE

On the host, on OpenCL's device and on the stand-in of CUDA's runtime: every pool, and the device by itself; memory that
is out as the device tells it, a device that fails, one that loses bytes.
"""
import json
import os
import subprocess
import sys
import tempfile

TENURE, STANDIN, SOURCE = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]), sys.argv[3]
CUDA = {"TENURE_CUDART": STANDIN, "STANDIN_DEVICES": "2", "STANDIN_MEMORY": "100000000"}
TRACES = SOURCE + "/examples/traces/"


def replay(*words, status=0, **settings):
    done = subprocess.run([TENURE, "replay", *words], capture_output=True, text=True, timeout=1200, env={**os.environ, **CUDA, **settings})
    assert done.returncode == status, (words, settings, done)
    return done


def counted(trace):
    """Of the rows themselves: blocks, streams, the most bytes that lived at once."""
    rows = [line.split(",") for line in open(trace)][1:]
    sizes, live, peak = {}, 0, 0
    for row in rows:
        if row[0] == "alloc":
            sizes[row[1]] = int(row[2])
        live += sizes[row[1]] * (1 if row[0] == "alloc" else -1)
        peak = max(peak, live)
    return sum(row[0] == "alloc" for row in rows), len({row[3] for row in rows if row[0] == "alloc"}), peak


def check_device(device):
    trace = TRACES + "two_streams.csv"
    blocks, streams, peak = counted(trace)
    done = subprocess.run([TENURE, "replay", trace, "--device", device, "--json"], capture_output=True, text=True, timeout=1200,
                          env={**os.environ, **CUDA})
    if device == "opencl" and done.returncode == 2 and "opencl" in done.stderr.lower():
        print("SKIP: opencl:", done.stderr.split("--device: ")[-1].strip())
        return
    assert done.returncode == 0, done
    answer = json.loads(done.stdout)
    assert answer["device"] == device and answer["played"]["taken"] == peak == answer["live_peak"], answer
    for pool in answer["pools"]:
        played = pool["played"]
        assert played["fits"] and (played["blocks"], played["streams"]) == (blocks, streams), (device, pool)
        assert played["taken"] >= max(peak, pool["reserved_peak"]) and 0 < played["request_s"] < 1, (device, pool)
    waits = {pool["name"]: pool["played"]["waits"] for pool in answer["pools"]}
    assert waits["best-fit"] > 0 == answer["played"]["waits"], waits  # its bytes go from stream to stream
    text = replay(trace, "--device", device).stdout
    assert f"played on {device}: {blocks} blocks on 2 streams, each written and read back" in text, text
    assert "\n  none " in text, text


def check_one_stream():
    answer = json.loads(replay(TRACES + "two_steps.csv", "--device", "host", "--pool", "planned", "--json").stdout)
    assert "played" not in answer and answer["pools"][0]["played"]["waits"] == 0, answer


def check_memory_is_out():
    trace = TRACES + "two_streams.csv"
    _, _, peak = counted(trace)
    text = replay(trace, "--device", "cuda", STANDIN_MEMORY=str(peak - 1), status=1).stdout
    assert "\n  none       does not fit: event " in text and "wanted of device cuda, but only" in text, text
    text = replay(trace, "--device", "cuda:1", "--pool", "iteration", STANDIN_FAIL="cudaMalloc:1:2", status=1).stdout
    assert "\n  iteration  does not fit: the CUDA device failed: a block of" in text and "cudaErrorMemoryAllocation" in text, text
    answer = json.loads(replay(trace, "--device", "host", "--capacity", "4MB", "--json", status=1).stdout)
    assert not answer["played"]["fits"] and "only" in answer["played"]["message"], answer
    assert not any(pool["fits"] or "played" in pool for pool in answer["pools"]), answer


def check_what_fails():
    trace = TRACES + "two_streams.csv"
    words = (trace, "--device", "cuda", "--pool", "best-fit")
    assert "the CUDA device failed: a copy" in replay(*words, STANDIN_FAIL="cudaMemcpyAsync:5:719", status=2).stderr
    assert "1 of 45 blocks did not hold what was written" in replay(*words, STANDIN_FAIL="copy:9:2", status=4).stderr
    assert "cannot be loaded" in replay(*words, TENURE_CUDART="nowhere.so", status=2).stderr
    assert "did you mean 'cuda'" in replay(trace, "--device", "cud", status=2).stderr
    assert "there is no CUDA device 2" in replay(trace, "--device", "cuda:2", status=2).stderr


def check_learned():
    """Eighty steps of twenty equal requests: all but the first steps are served by one plan."""
    steps, rows, number = 80, ["action,id,size"], 0
    for _ in range(steps):
        live = []
        for k in range(20):
            number += 1
            live.append(number)
            rows.append(f"alloc,b{number},{(k * 37 % 11 + 1) * 100000}")
            if k % 3 == 2:
                rows.append(f"free,b{live.pop(0)},0")
        rows += [f"free,b{block},0" for block in live]
    with tempfile.NamedTemporaryFile("w", suffix=".csv") as trace:
        trace.write("\n".join(rows) + "\n")
        trace.flush()
        learned = json.loads(replay(trace.name, "--pool", "iteration", "--json").stdout)["pools"][0]["learned"]
        assert learned["plans"] == 1 and learned["surprises"] == 0, learned
        assert number / 2 < learned["served"] < number and learned["served"] % 20 == 0, learned
        text = replay(trace.name, "--pool", "iteration").stdout
        part = 100 * learned["served"] / number
        assert f"\n  iteration served {part:.1f} % of requests from 1 plan, 0.0 % were surprises" in text, text


def check_snapshot():
    """A number is a device of a snapshot, a name one to play on; both may be told."""
    snapshot = SOURCE + "/examples/snapshots/out_of_memory.pickle"
    answer = json.loads(replay(snapshot, "--device", "0", "--device", "host", "--pool", "caching", "--json").stdout)
    assert answer["pools"][0]["played"]["fits"] and answer["device"] == "host", answer
    assert "device" not in json.loads(replay(snapshot, "--device", "0", "--json").stdout)


for name in "host", "opencl", "cuda":
    check_device(name)
check_one_stream()
check_memory_is_out()
check_what_fails()
check_learned()
check_snapshot()
