#!/usr/bin/env python3
"""Two machines with a slow link between them: two_nodes.py TENURE MPIRUN [--rate 50mbit] [--steps 5] [--rounds 1]

Each is a network namespace (nodes.py) with two ranks, and the link a pair of virtual ones behind token buckets. A model that is cut over
the ranks of a machine, with a stage on each: what both ranks of a stage have alike crosses the link in parts, half of the bytes of
whole sends, as ranks count them and as the link does, and the bits are the same. Seconds are told, not judged. By hand, longer
and at other rates; also with two pieces for each stage, and, a stage of one rank on each machine, for how much of a step ranks stand
still with one, two and four pieces, predicted and measured. Needs root, ip, tc.
"""
import csv
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

import nodes

TENURE, MPIRUN = os.path.abspath(sys.argv[1]), sys.argv[2]


def option(name, otherwise):
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else otherwise


def skip(why):
    print(f"SKIP: {why}")
    sys.exit(77)


def run(*words, check=True):
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if check and done.returncode != 0:
        sys.exit(f"FAILED ({done.returncode}): {' '.join(words)}\n{done.stdout}{done.stderr}")
    return done


def train(options, mark, each=2):
    """On both, so many ranks each; what was told, and how much has crossed."""
    before = nodes.crossed()
    words = [TENURE, "train", "deep.onnx", "--data", "text:book.txt", "--batch", "64", "--weights", "random:1", "--lr", "0.003",
             "--micro-batches", "8", "--checkpoint", f"{mark}.ck", "--log", f"{mark}.csv", "--json", *options]
    done = subprocess.run(nodes.command(MPIRUN, each, words), capture_output=True, text=True, timeout=1200, check=False)
    if done.returncode != 0:
        if "carries no messages by MPI" in done.stderr:
            skip("tenure-mpi.so is not built")
        sys.exit(f"FAILED ({done.returncode}): {options}\n{done.stdout}{done.stderr}")
    return json.loads(done.stdout), nodes.crossed() - before


def losses(path):
    with open(path, encoding="ascii") as file:
        return [float(row["loss"]) for row in csv.DictReader(file)]


def compare(steps, rounds, pieces):
    words = ["--steps", str(steps), "--parallel", f"tensor=2,pipeline=2,interleave={pieces}"]
    ways, seconds, told = {"parts": [], "whole": ["--whole-sends"]}, {"parts": [], "whole": []}, {}
    for _ in range(rounds):
        for mark, more in ways.items():
            told[mark] = train([*words, *more], mark)
            seconds[mark].append(told[mark][0]["seconds"] / steps)
    (parts, less), (whole, more) = told["parts"], told["whole"]
    sent = [sum(r["direct_bytes"] for r in one["ranks"]) for one in (parts, whole)]
    print(f"{pieces} piece(s) a stage: {sent[0] / steps / 2 ** 20:.2f} MiB a step between stages in parts, {sent[1] / steps / 2 ** 20:.2f} whole; "
          f"over the link {less / 2 ** 20:.2f} and {more / 2 ** 20:.2f} MiB in all; "
          f"{statistics.median(seconds['parts']):.3f} and {statistics.median(seconds['whole']):.3f} s a step")
    # of one piece the cut lies between layers; of several also within one, where ranks have different things to send
    if sent[0] == 0 or (sent[1] != 2 * sent[0] if pieces == 1 else sent[1] <= sent[0]):
        sys.exit(f"FAILED: {sent}")
    if abs((more - less) - (sent[1] - sent[0])) > 0.1 * (sent[1] - sent[0]):  # heads of packets, and who is alive
        sys.exit(f"FAILED: {more} - {less} over the link, {sent}")
    if pathlib.Path("parts.ck").read_bytes() != pathlib.Path("whole.ck").read_bytes():
        sys.exit("FAILED: other bits in parts")
    run(TENURE, "train", "deep.onnx", "--data", "text:book.txt", "--batch", "64", "--weights", "random:1", "--lr", "0.003",
        "--micro-batches", "8", "--steps", str(steps), "--log", "one.csv")
    far = max(abs(x - y) / abs(x) for x, y in zip(losses("one.csv"), losses("parts.csv")))
    if far > 1e-5:
        sys.exit(f"FAILED: {far:.1e} from one process")


def stand_still(steps, rounds, pieces, schedule):
    """The share of a step in which ranks compute nothing, of the median round."""
    found = []
    for _ in range(rounds):
        told, _ = train(["--steps", str(steps), "--parallel", f"pipeline=2,interleave={pieces}", "--schedule", schedule, "-o", "ranks.json"],
                        "idle", 1)
        found.append((told["seconds"] / steps, *(statistics.mean(r["idle"][kind] for r in told["ranks"]) for kind in ("predicted", "measured"))))
    seconds, predicted, measured = (statistics.median(one) for one in zip(*found))
    print(f"{schedule}, {pieces} piece(s) a stage, one rank each: {100 * predicted:.1f} % predicted, {100 * measured:.1f} % measured, "
          f"{seconds:.3f} s a step", flush=True)


def main():
    with tempfile.TemporaryDirectory() as folder:
        nodes.settle(folder)
        try:
            why = nodes.begin(option("--rate", "50mbit"))
            if why is not None:
                skip(why)
            compare(int(option("--steps", "5")), int(option("--rounds", "1")), 1)
            if "--rounds" in sys.argv:
                compare(int(option("--steps", "5")), int(option("--rounds", "1")), 2)
                for pieces in 1, 2, 4:
                    stand_still(int(option("--steps", "5")), int(option("--rounds", "1")), pieces, "1f1b")
        finally:
            nodes.end()


main()
