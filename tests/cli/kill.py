#!/usr/bin/env python3
"""Killed while it trains, and resumed: the same final bits? kill.py [--example] PROGRAM [KILLS [SEED]]

PROGRAM is tenure, or examples/training/resume, which listens to no signal and goes on by itself.

Runs of several optimizers, with dropout, sums over micro-batches and frequent checkpoints, are
killed at random moments (SIGKILL, some of them as soon as a checkpoint is being written; now and
then SIGINT, SIGTERM or SIGUSR2, which must leave a checkpoint of that moment) and resumed until they are
through. The last checkpoint, which holds every parameter,
all state and the step, must be that of a run that nobody killed, byte for byte.
"""
import glob
import os
import random
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
from count import case_count, case_seed  # noqa: E402

EXAMPLE = sys.argv[1] == "--example"
WORDS = sys.argv[2 if EXAMPLE else 1:]
PROGRAM, KILLS, SEED = os.path.abspath(WORDS[0]), case_count(int(WORDS[1]) if len(WORDS) > 1 else 10, 3), \
    int(WORDS[2]) if len(WORDS) > 2 else case_seed()
PICTURES = ["cnn.onnx", "--data", "x.npy,y.npy", "--batch", "8", "--lr", "1e-3"]
RUNS = [
    PICTURES + ["--steps", "800", "--checkpoint-every", "37", "--micro-batches", "2"],
    PICTURES + ["--steps", "700", "--checkpoint-every", "50", "--optimizer", "momentum"],
    PICTURES + ["--steps", "1500", "--checkpoint-every", "600", "--optimizer", "adamw",
                "--weight-decay", "0.01", "--fuse-update"],
    ["lm.onnx", "--data", "text:book.txt", "--batch", "4", "--steps", "300", "--checkpoint-every",
     "16", "--optimizer", "adam", "--micro-batches", "3"],
]


if EXAMPLE:
    RUNS = [["clothes.npy,y.npy", "1500"], ["clothes.npy,y.npy:clothes.npy,y.npy", "1130"]]


def command(run, checkpoint):
    if EXAMPLE:
        return [PROGRAM, checkpoint, *run]
    resume = ["--resume", checkpoint] if os.path.exists(checkpoint) else []
    return [PROGRAM, "train", *run, "--checkpoint", checkpoint, *resume]


def write_pictures():
    """clothes.npy: 28 x 28, as many as y.npy has labels."""
    rng = random.Random(1)
    head = b"{'descr': '|u1', 'fortran_order': False, 'shape': (96, 28, 28), }"
    head += b" " * (117 - len(head)) + b"\n"
    with open("clothes.npy", "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head + rng.randbytes(96 * 784))


def start(run, checkpoint):
    return subprocess.Popen(command(run, checkpoint), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def finish(process):
    message = process.communicate()[1].decode()
    if process.returncode != 0:
        sys.exit(f"seed {SEED}: status {process.returncode}: {message}")


def content(path):
    with open(path, "rb") as file:
        return file.read()


def reference(number, run):
    began = time.monotonic()
    finish(start(run, f"whole{number}.ck"))
    return content(f"whole{number}.ck"), time.monotonic() - began


def kill(process, seconds, how, checkpoint, in_write):
    """Whether it was still running; what it was doing is left to chance, or it was writing."""
    time.sleep(seconds)
    while in_write and process.poll() is None and not glob.glob(checkpoint + ".*.part"):
        time.sleep(0.0005)
    if process.poll() is not None:
        return False
    process.send_signal(how)
    process.communicate()
    if how != signal.SIGKILL and process.returncode not in (0, 128 + how, -how):
        sys.exit(f"seed {SEED}: status {process.returncode} after signal {how}")
    if process.returncode == 128 + how and not os.path.exists(checkpoint):
        sys.exit(f"seed {SEED}: signal {how} left no checkpoint")
    return process.returncode != 0


def main():
    rng = random.Random(SEED)
    whole = [reference(number, run) for number, run in enumerate(RUNS)]
    killed = writing = turns = 0
    while killed < KILLS:
        number = turns % len(RUNS)
        turns += 1
        for _ in range(rng.randrange(1, 4)):
            how = rng.choice([signal.SIGKILL] * 6 + [signal.SIGINT, signal.SIGTERM, signal.SIGUSR2])
            killed += kill(start(RUNS[number], "run.ck"), rng.random() * whole[number][1], how,
                           "run.ck", how == signal.SIGKILL and rng.random() < 0.3)
        parts = glob.glob("run.ck.*.part")
        writing += len(parts)
        finish(start(RUNS[number], "run.ck"))
        if content("run.ck") != whole[number][0]:
            sys.exit(f"seed {SEED}: {RUNS[number]} ends with other bits after {killed} kills")
        for path in ["run.ck", *glob.glob("run.ck.*.part")]:  # a run that saves sweeps those of killed ones
            os.remove(path)
        if sys.stderr.isatty():
            print(f"{killed} of {KILLS}, {writing} in a write", file=sys.stderr, flush=True)
    print(f"seed {SEED}: {killed} kills in {turns} runs, {writing} of them in the middle of a "
          "checkpoint; every run ended with the same bits")


with tempfile.TemporaryDirectory() as folder:
    here = os.path.dirname(os.path.abspath(__file__))
    subprocess.run([sys.executable, os.path.join(here, "train_models.py"), folder], check=True)
    os.chdir(folder)
    write_pictures()
    main()
    os.chdir("/")
