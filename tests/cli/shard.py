#!/usr/bin/env python3
"""`tenure train --shard` as a user meets it: shard.py TENURE [MPIRUN]

Ranks that divide optimizer state, gradients or parameters give the losses of those that do not, to
the last digit, take what `tenure estimate` said, and less; their checkpoint is gone on from by any
number of ranks, whatever they divide, and whenever they were killed. Without MPIRUN ranks are threads.
"""
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

from least import budget_of
from ranks import LM, MPIRUN, SEED, TENURE, losses, mpirun, near, run, threads

SHARDS = ["optimizer", "gradients", "parameters"]
ADAM = [*LM, "--optimizer", "adam", "--bucket", "4KiB"]


def told(command):
    return json.loads(run([*command, "--json"]).stdout)


def divided():
    for count in 2, 4:
        plain = told([*ADAM, *threads(count), "--steps", "20", "--log", "plain.csv"])
        weights = plain["weights"]
        for shard in SHARDS:
            ahead = random.choice([[], ["--gather-ahead", "1KiB"]]) if shard == "parameters" else []
            got = told([*ADAM, *threads(count), "--steps", "20", "--log", "some.csv", "--poison", "--shard", shard, *ahead])
            if losses("plain.csv") != losses("some.csv") or got["test_loss"] != plain["test_loss"]:
                sys.exit(f"FAILED: {count} ranks, {shard}: other numbers")
            ranks = got["ranks"]
            if any(r["measured_peak"] != r["planned_peak"] for r in ranks) or got["poison"] != "clean":
                sys.exit(f"FAILED: {count} ranks, {shard}: {got}")
            if len({r["weights"] for r in ranks}) != 1 or (shard != "gradients" and got["weights"] >= weights):
                sys.exit(f"FAILED: {count} ranks, {shard}: {got['weights']} bytes stay, and were {weights}")
            weights = got["weights"]
            said = told([TENURE, "estimate", "lm.onnx", "--train", "--batch", "16", "--optimizer", "adam", "--kernels", "onednn",
                         "--bucket", "4KiB", "--parallel", f"data={count}", "--shard", shard, *ahead])
            if (said["arena"], said["static"]) != (got["planned_peak"], got["weights"]):
                sys.exit(f"FAILED: {count} ranks, {shard}: {said}, and it is {got}")


def kinds():
    """Other optimizers, 16 bits, micro-batches, a budget: as ranks that keep everything."""
    for options in [["--optimizer", "momentum", "--micro-batches", "2", "--order", "memory"],
                    ["--optimizer", "adamw", "--dtype", "bf16"], ["--optimizer", "sgd", "--fuse-update"]]:
        command = [*LM, *options, *threads(2), "--steps", "5", "--log"]
        run([*command, "plain.csv"])
        run([*command, "some.csv", "--shard", random.choice(SHARDS)])
        if losses("plain.csv") != losses("some.csv"):
            sys.exit(f"FAILED: {options}: other numbers")
    command = [*ADAM, *threads(2), "--steps", "3", "--shard", "gradients"]
    free = told([*command, "--log", "free.csv"])
    words = budget_of([*command, "--log", "bound.csv"], free["planned_peak"] + free["weights"], 97, [])
    if words is None:
        return
    budget, bound = int(words[1]), told([*command, "--log", "bound.csv", *words])
    if bound["planned_peak"] + bound["weights"] > budget or losses("free.csv") != losses("bound.csv"):
        sys.exit(f"FAILED: within a budget: {bound}")


def resumed():
    command = [*ADAM, "--batch", "12"]
    run([*command, *threads(3), "--steps", "20", "--log", "whole.csv"])
    for shard in SHARDS:
        begun = [*command, *threads(3), "--shard", shard, "--steps", "9", "--checkpoint", "part.ck", "--log", "part.csv"]
        for count, other in [(3, shard), (3, "none"), (random.choice([2, 4, 6]), random.choice(SHARDS)), (1, "none")]:
            run(begun)
            run([*command, *(threads(count) if count > 1 else []), *(["--shard", other] if count > 1 else []), "--steps",
                 "20", "--resume", "part.ck", "--checkpoint", "part.ck", "--log", "part.csv"])
            if count == 3 and losses("whole.csv") != losses("part.csv"):
                sys.exit(f"FAILED: {shard}, gone on with {other}: other numbers")
            near(losses("whole.csv"), losses("part.csv"), 1e-5, f"{shard} of 3, gone on by {count} ({other})")
            left = sorted(path.name for path in pathlib.Path(".").glob("part.ck*"))
            if len(left) != 1 + (count if count > 1 and other != "none" else 0):
                sys.exit(f"FAILED: files that nobody needs: {left}")


def other_weights():
    """Weights that go before the file's do so for what ranks divide, too."""
    run([*ADAM, "--steps", "3", "--checkpoint", "other.ck"])
    begin = [TENURE, "train", "lm.onnx", "--data", "text:book.txt", "--batch", "16", "--weights", "other.ck", "--steps", "2",
             *threads(2), "--log"]
    run([*begin, "begun.csv"])
    for shard in SHARDS:
        run([*begin, "shared.csv", "--shard", shard])
        if losses("begun.csv") != losses("shared.csv"):
            sys.exit(f"FAILED: --shard {shard} begins with other weights: {losses('begun.csv')}, {losses('shared.csv')}")


def killed(begin):
    """At a random moment, of which every other one is in the middle of writing."""
    command = [*begin(2), *LM, "--optimizer", "adam", "--shard", random.choice(SHARDS), "--parallel", "data=2",
               *([] if MPIRUN else ["--ranks-as-threads"])]
    run([*command, "--steps", "60", "--log", "whole.csv"])
    steps = []
    for _ in range(4):
        for file in pathlib.Path(".").glob("hit.*"):
            file.unlink()
        job = subprocess.Popen([*command, "--steps", "1000000", "--checkpoint", "hit.ck", "--checkpoint-every", "1", "--log",
                                "hit.csv"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        limit = time.monotonic() + 600
        while not os.path.exists("hit.ck") and time.monotonic() < limit:
            time.sleep(0.002)
        time.sleep(random.random() / 10)
        job.send_signal(signal.SIGKILL)
        job.wait()
        done = len(losses("hit.csv"))
        at = told([*command, "--steps", "1", "--resume", "hit.ck"])["steps"]
        if not done - 1 <= at <= done:
            sys.exit(f"FAILED: killed after {done} steps, the checkpoint is of {at}")
        run([*command, "--steps", str(at + 2), "--resume", "hit.ck", "--checkpoint", "hit.ck", "--log", "hit.csv"])
        if losses("hit.csv")[:60] != losses("whole.csv")[:at + 2]:
            sys.exit(f"FAILED: gone on from step {at}: other numbers")
        left = sorted(path.name for path in pathlib.Path(".").glob("hit.ck*"))
        if len(left) != 3:
            sys.exit(f"FAILED: files that nobody needs: {left}")
        steps.append(at)
    print(f"killed, and gone on from steps {steps}")


def damaged():
    """A part that is missing, cut short, or of another checkpoint is told by its name."""
    run([*ADAM, *threads(2), "--shard", "gradients", "--steps", "2", "--checkpoint", "bad.ck"])
    part = next(pathlib.Path(".").glob("bad.ck.*.1-of-2"))
    bytes_ = part.read_bytes()
    for what in None, bytes_[:-5], bytes_[:200] + bytes([bytes_[200] ^ 1]) + bytes_[201:], b"":
        part.unlink()
        if what is not None:
            part.write_bytes(what)
        done = run([*ADAM, "--steps", "3", "--resume", "bad.ck"], 2)
        if part.name not in done.stderr:
            sys.exit(f"FAILED: a damaged part: {done.stderr}")
        part.write_bytes(bytes_)


def repeated():
    """Equal runs write equal parts; only the number of the generation, and so the hash of the main file, differ."""
    command = [*ADAM, *threads(2), "--shard", "parameters", "--steps", "3", "--checkpoint"]
    for folder in "one", "two":
        os.mkdir(folder)
        run([*command, f"{folder}/run.ck"])
    names = ["run.ck", "run.ck.1.0-of-2", "run.ck.1.1-of-2"]
    first = [pathlib.Path("one", name).read_bytes() for name in names]
    if first != [pathlib.Path("two", name).read_bytes() for name in names]:
        sys.exit("FAILED: two equal runs write different checkpoints")
    run([*command, "one/run.ck"])
    again = [pathlib.Path("one", name.replace(".ck.1.", ".ck.2.")).read_bytes() for name in names]
    if again[1:] != first[1:] or again[0] == first[0]:
        sys.exit("FAILED: a run over its own checkpoint writes other parts")


def refused():
    two = threads(2)
    for words, options in [
            ("needs several data-parallel ranks", ["--shard", "optimizer"]), ("'state' is not one of", [*two, "--shard", "state"]),
            ("needs --shard parameters", [*two, "--shard", "gradients", "--gather-ahead", "1KiB"]),
            ("cannot be combined with --budget: without pipeline stages", [*two, "--shard", "parameters", "--budget", "1GiB"]),
            ("a loss scale that adapts", [*two, "--shard", "optimizer", "--loss-scale", "dynamic"]),
            ("needs several data-parallel ranks", ["--parallel", "tensor=2", "--ranks-as-threads", "--shard", "optimizer"])]:
        done = run([*LM, "--steps", "2", *options], 2)
        if words not in done.stderr:
            sys.exit(f"FAILED: {options}: {done.stderr}")
    for words, options in [
            ("--bucket needs several data-parallel ranks", ["--train", "--bucket", "1KiB"]),
            ("needs --shard parameters", ["--train", "--parallel", "data=2", "--gather-ahead", "1KiB"]),
            ("cannot be combined with --budget: without pipeline stages", ["--train", "--parallel", "data=2", "--shard", "parameters", "--budget", "1MiB"]),
            ("needs several data-parallel ranks", ["--train", "--parallel", "tensor=2", "--shard", "gradients"])]:
        done = run([TENURE, "estimate", "lm.onnx", "--batch", "16", *options], 2)
        if words not in done.stderr:
            sys.exit(f"FAILED: estimate {options}: {done.stderr}")


def same_bits():
    options = [*ADAM, "--batch", "12", "--steps", "20"]
    for shard in SHARDS:
        run([*options, *threads(3), "--log", "threads.csv"])
        run([*mpirun(3), *options, "--shard", shard, "--log", "mpi.csv", "--checkpoint", "mpi.ck", "--gather-ahead", "1KiB"]
            if shard == "parameters" else [*mpirun(3), *options, "--shard", shard, "--log", "mpi.csv", "--checkpoint", "mpi.ck"])
        if losses("threads.csv") != losses("mpi.csv"):
            sys.exit(f"FAILED: {shard}: processes give other bits than threads")
    run([*options, "--steps", "21", "--resume", "mpi.ck"])


def main():
    random.seed(SEED)
    print(f"seed {SEED}")
    os.environ.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMP_NUM_THREADS="1")
    here = pathlib.Path(__file__).resolve().parent
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, here / "train_models.py", folder], check=True)
        os.chdir(folder)
        if MPIRUN is not None:
            if "carries no messages by MPI" in run([*mpirun(1), *LM, "--steps", "1", "--parallel", "data=1"]).stderr:
                print("SKIP: tenure-mpi.so is not built")
                sys.exit(77)
            same_bits()
            return
        divided()
        kinds()
        resumed()
        other_weights()
        killed(lambda count: [])
        damaged()
        repeated()
        refused()


if __name__ == "__main__":
    main()
