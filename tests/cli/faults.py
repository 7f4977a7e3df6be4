#!/usr/bin/env python3
"""Ranks that are killed, stopped or cut off: faults.py TENURE MPIRUN [--moments 4] [--seed N]

Four ranks train, on this machine or on two (nodes.py), divided in one of several ways; at a random moment one of them is killed
(SIGKILL), stopped (SIGSTOP), or the link between the two machines goes down. All others have to end, with a reason;
the last checkpoint is whole, and the run that goes on from it has the bits of one to which nothing happened. Moments are spread
over the kinds in turn; by hand, more of them. One rank is stopped before it begins, too. Two machines need root and ip.
"""
import itertools
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import time

import nodes

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
from count import case_seed  # noqa: E402

TENURE, MPIRUN = os.path.abspath(sys.argv[1]), sys.argv[2]
ENDS_S = 600     # against hanging: for all others, whatever happens to a rank
BEGINS_S = 600   # against hanging: to see a first step
RANKS = 4
EVERY = 20       # steps between checkpoints
TRAIN = [TENURE, "train", "heads.onnx", "--data", "text:book.txt", "--batch", "8", "--micro-batches", "2", "--optimizer", "adam",
         "--weights", "random:1", "--lr", "0.003", "--checkpoint-every", str(EVERY)]
WAYS = [(["--parallel", "data=4"], []), (["--parallel", "data=2,tensor=2"], []), (["--parallel", "tensor=2,pipeline=2"], []),
        (["--parallel", "data=2,pipeline=2"], []), (["--parallel", "data=4"], ["--shard", "parameters"]),
        (["--parallel", "data=4"], ["--shard", "optimizer"])]
KINDS = ["killed", "stopped", "cut off", "killed"]


def option(name, otherwise):
    return int(sys.argv[sys.argv.index(name) + 1]) if name in sys.argv else otherwise


def ranks():
    return {rank: pid for pid, rank in nodes.processes().items() if rank is not None}


def fail(why, err):
    err.seek(0)
    sys.exit(f"FAILED: {why}\n{err.read()}")


def start(way, apart, err):
    words = [*TRAIN, *way[0], *way[1], "--steps", "10000000", "--checkpoint", "run.ck", "--log", "run.csv"]
    if apart:  # mpirun has to find out before ranks do: once it talks to the other machine it waits for minutes
        alive = ["--mca", "oob_tcp_keepalive_time", "3", "--mca", "oob_tcp_keepalive_intvl", "1", "--mca", "oob_tcp_keepalive_probes", "3"]
        words = nodes.command(MPIRUN, RANKS // 2, words, alive)
    else:
        words = [MPIRUN, "--oversubscribe", "-n", str(RANKS), *words]
    job = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=err, env={**os.environ, nodes.MARK: "1"})
    limit = time.monotonic() + BEGINS_S
    while not os.path.exists("run.csv"):
        if job.poll() is not None and "carries no messages by MPI" in pathlib.Path("run.err").read_text():
            print("SKIP: tenure-mpi.so is not built")
            sys.exit(77)
        if job.poll() is not None or time.monotonic() > limit:
            fail(f"{way} has not begun: {job.poll()}", err)
        time.sleep(0.02)
    return job


def ended(job, hit, err):
    """Seconds until nobody was left but a rank that is stopped, whom nobody could ask; and mpirun too."""
    begun = time.monotonic()
    while job.poll() is None or [pid for pid in ranks().values() if pid != hit]:
        if time.monotonic() - begun > ENDS_S:
            fail(f"after {ENDS_S} s: mpirun {job.poll()}, {nodes.processes()}", err)
        time.sleep(0.1)
    return time.monotonic() - begun


def resumed(way):
    """The step it stood at; gone on, it is the run to which nothing happened."""
    if not os.path.exists("run.ck"):
        return 0
    alone = [*TRAIN, *way[0], "--ranks-as-threads", "--json"]
    at = json.loads(run([*TRAIN, "--steps", "1", "--resume", "run.ck", "--json"]))["steps"]
    steps = ["--steps", str(int(at) + EVERY)]
    run([*alone, *steps, "--resume", "run.ck", "--checkpoint", "again.ck"])
    run([*alone, *steps, "--checkpoint", "never.ck"])
    if pathlib.Path("again.ck").read_bytes() != pathlib.Path("never.ck").read_bytes():
        sys.exit(f"FAILED: {way}: resumed at step {at}, the bits are others")
    return at


def run(words):
    done = subprocess.run(words, capture_output=True, text=True, timeout=1200, check=False)
    if done.returncode != 0:
        sys.exit(f"FAILED ({done.returncode}): {' '.join(words)}\n{done.stdout}{done.stderr}")
    return done.stdout


def hit(kind, way, apart):
    for file in itertools.chain(pathlib.Path(".").glob("run.*"), pathlib.Path(".").glob("*.ck*")):
        file.unlink()
    rank = random.randrange(RANKS)
    with open("run.err", "w+", encoding="utf-8") as err:
        job = start(way, apart, err)
        time.sleep(random.uniform(0, 4))
        there = ranks()
        if sorted(there) != list(range(RANKS)) or job.poll() is not None:
            fail(f"{way}: ranks {there}, {job.poll()}", err)
        if kind == "cut off":
            nodes.link("down")
        else:
            os.kill(there[rank], signal.SIGKILL if kind == "killed" else signal.SIGSTOP)
        seconds = ended(job, there[rank] if kind == "stopped" else None, err)
        err.seek(0)
        told = err.read()
    nodes.clean()
    if kind == "cut off":
        nodes.link("up")
    wanted = {"killed": "signal 9", "stopped": f"rank {rank} gives no sign of life", "cut off": "lost communication|no sign of life"}[kind]
    if job.returncode == 0 or not re.search(wanted, told):
        sys.exit(f"FAILED: {kind}, {way}: status {job.returncode}: {told}")
    whom = "machines" if kind == "cut off" else f"rank {rank}" + (" of two machines" if apart else "")
    reason = next((line for line in told.splitlines() if re.search(wanted, line)))
    print(f"{whom} {kind}, {' '.join(way[0][1:] + way[1])}: ended after {seconds:.1f} s, resumed at step {resumed(way)}: {reason}", flush=True)


def never_begins(rank):
    """Stopped before it is there: the others wait in MPI_Init, where messages cannot tell them anything."""
    stops = ["sh", "-c", f'[ $OMPI_COMM_WORLD_RANK != {rank} ] || kill -STOP $$; exec "$@"', "sh"]
    begun = time.monotonic()
    job = subprocess.run([MPIRUN, "--oversubscribe", "-n", str(RANKS), *stops, *TRAIN, "--steps", "1"], capture_output=True, text=True,
                         timeout=1200, env={**os.environ, nodes.MARK: "1"}, check=False)
    seconds, lines = time.monotonic() - begun, [line for line in job.stderr.splitlines() if line.startswith("tenure: ")]
    if seconds > ENDS_S or job.returncode != 3 or len(lines) != 1 or "not all ranks have begun" not in lines[0] or ranks():
        sys.exit(f"FAILED: rank {rank} never begins: after {seconds:.0f} s, status {job.returncode}: {job.stderr}, {ranks()}")
    print(f"rank {rank} stopped before it begins: ended after {seconds:.0f} s: {lines[0]}", flush=True)


def main():
    seed = option("--seed", case_seed())
    moments = option("--moments", len(KINDS))
    print(f"seed {seed}", flush=True)
    random.seed(seed)
    with tempfile.TemporaryDirectory() as folder:
        nodes.settle(folder)
        try:
            lacks = nodes.begin()
            never_begins(random.randrange(RANKS))
            for moment in range(moments):
                kind, apart = KINDS[moment % len(KINDS)], lacks is None and random.random() < 0.5
                if kind != "cut off" or lacks is None:
                    hit(kind, random.choice(WAYS), apart or kind == "cut off")
        finally:
            nodes.clean()
            nodes.end()
            os.chdir("/")
    if lacks is not None:
        print(f"SKIP: {lacks}: links were not cut")
        sys.exit(77)


main()
