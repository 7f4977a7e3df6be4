#!/usr/bin/env python3
"""`tenure train --parallel` as a user meets it: ranks.py TENURE [MPIRUN]

Without MPIRUN ranks are threads: they train as one process does with the same batch, within their
planned peaks, also when they have parts of the model, are resumed by another number of ranks or kept to a
budget, and write the checkpoints that one process writes. With it they
are processes, more of them than there are processors: the same bits as threads; ranks that differ,
cannot begin, are killed or stopped end all of them, with one reason, in a bounded time.
"""
import csv
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from least import budget_of

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
from count import case_count, case_seed  # noqa: E402

TENURE, MPIRUN = os.path.abspath(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else None
HERE = pathlib.Path(__file__).resolve().parent
SEED = case_seed()
LM = [TENURE, "train", "lm.onnx", "--data", "text:book.txt", "--batch", "16", "--weights", "random:1", "--lr", "0.01"]
HEADS = [TENURE, "train", "heads.onnx", "--data", "text:book.txt", "--batch", "8", "--weights", "random:1", "--lr", "0.003"]
SPLITS = ["tensor=2", "tensor=4", "data=2,tensor=2"]
STAGES = ["pipeline=2", "pipeline=4", "pipeline=2,interleave=2", "data=2,pipeline=2", "tensor=2,pipeline=2",
          "data=2,tensor=2,pipeline=2"]
KINDS = [["--optimizer", "adam"], ["--optimizer", "sgd", "--fuse-update"],
         ["--optimizer", "momentum", "--micro-batches", "2", "--order", "memory"],
         ["--optimizer", "adamw", "--dtype", "bf16"], ["--optimizer", "sgd", "--loss-scale", "dynamic"]]
CUT_KINDS = [["--optimizer", "adam"], ["--optimizer", "momentum", "--lr", "0.02", "--micro-batches", "2", "--order", "memory"],
             ["--optimizer", "sgd", "--lr", "0.1", "--fuse-update"]]
SHARDS = ["optimizer", "gradients", "parameters"]
ENDS_S = 600  # against hanging


def some_of(ways):
    return random.sample(ways, case_count(len(ways), 1))


def run(command, wanted=0, limit=1200):
    done = subprocess.run(command, capture_output=True, text=True, timeout=limit)
    if done.returncode != wanted:
        sys.exit(f"FAILED ({done.returncode}, not {wanted}): {' '.join(command)}\n{done.stdout}{done.stderr}")
    return done


def threads(count):
    return split(f"data={count}")


def split(words):
    return ["--parallel", words, "--ranks-as-threads"]


def losses(path):
    return [float(row["loss"]) for row in csv.DictReader(open(path))]


def apart(a, b):
    return max(abs(x - y) / abs(x) for x, y in zip(a, b))


def near(a, b, share, what):
    far = apart(a, b)
    if len(a) != len(b) or far > share:
        sys.exit(f"FAILED: {what}: {far:.2e} apart")
    return far


def as_one(kind):
    """Losses of 20 steps depend on all parameters of the steps before."""
    run([*LM, *kind, "--steps", "20", "--log", "one.csv"])
    for count in 2, 4:
        done = run([*LM, *kind, *threads(count), "--steps", "20", "--log", "some.csv", "--poison", "--json",
                    "--bucket", random.choice(["1KiB", "16KiB", "4MiB"])])
        # 16 bits: a part of the batch is rounded by itself
        near(losses("one.csv"), losses("some.csv"), 3e-3 if "bf16" in kind else 1e-5, f"{count} ranks, {kind}")
        told = json.loads(done.stdout)
        ranks = told["ranks"]
        if len(ranks) != count or any(r["measured_peak"] != r["planned_peak"] for r in ranks):
            sys.exit(f"FAILED: {kind}: {ranks}")
        if told["poison"] != "clean" or any(r["messages"] == 0 or r["sent_bytes"] == 0 for r in ranks):
            sys.exit(f"FAILED: {kind}: {told}")


def options_are_the_commands():
    """What options have made is released once, and not by each rank."""
    run([TENURE, "train", "lm.onnx", "--data", "text:book.txt", "--weights", "random:1", "--steps", "2", "--dim", "n=8",
         *threads(4)])


def resumed():
    adam = [*LM, "--optimizer", "adam"]
    run([*adam, *threads(4), "--steps", "20", "--checkpoint", "whole.ck", "--log", "whole.csv"])
    run([*adam, *threads(4), "--steps", "20", "--checkpoint", "again.ck", "--log", "again.csv"])
    if pathlib.Path("whole.ck").read_bytes() != pathlib.Path("again.ck").read_bytes():
        sys.exit("FAILED: the same run gives other bits")
    for count in 4, 2, 1:
        run([*adam, *threads(4), "--steps", "9", "--checkpoint", "part.ck", "--log", "part.csv"])
        run([*adam, *threads(count), "--steps", "20", "--checkpoint", "part.ck", "--resume", "part.ck", "--log",
             "part.csv"])
        if count == 4 and pathlib.Path("whole.ck").read_bytes() != pathlib.Path("part.ck").read_bytes():
            sys.exit("FAILED: resumed, the bits are others")
        near(losses("whole.csv")[9:], losses("part.csv")[9:], 1e-5, f"resumed by {count}")


def within_a_budget():
    """Each rank in less than it takes of its own accord: the same losses, all alike, as estimated."""
    swap = ["--allow", "swap", "--link", "4GB/s"]
    met = 0
    kinds = some_of([("lm.onnx", "data=2", [(97, [])]), ("heads.onnx", "tensor=2", [(85, []), (75, swap)]),
                     ("heads.onnx", "tensor=2 --sequence-parallel", [(90, []), (80, swap)]), ("heads.onnx", "data=2,tensor=2", [(90, swap)])])
    for model, words, ways in kinds:
        options = [model, "--batch", "8", "--optimizer", "adam", "--parallel", *words.split()]
        command = [TENURE, "train", *options, "--ranks-as-threads", "--data", "text:book.txt", "--weights", "random:1", "--steps", "3", "--json"]
        free = json.loads(run([*command, "--log", "free.csv"]).stdout)["ranks"]
        for share, allowed in ways:
            budget = budget_of(command, max(r["measured_peak"] + r["weights"] for r in free), share, allowed)
            if budget is None:
                continue
            met += 1
            told = json.loads(run([*command, *budget, "--log", "bound.csv"]).stdout)
            found = json.loads(run([TENURE, "estimate", *options, *budget, "--train", "--kernels", "onednn", "--json"]).stdout)
            if any(r["measured_peak"] != r["planned_peak"] or r["planned_peak"] != found["arena"] or r["planned_peak"] + r["weights"] > int(budget[1])
                   for r in told["ranks"]) or told.get("fitted") is None or (found["host_bytes"] > 0) != (allowed != []):
                sys.exit(f"FAILED: {words} within {budget}: {told}, {found}")
            if losses("free.csv") != losses("bound.csv"):
                sys.exit(f"FAILED: {words} within {budget}: other numbers")
    if met < 4 and len(kinds) == 4:
        sys.exit(f"FAILED: only {met} budgets were below what is used without one")


def cut_as_one(kind):
    """Of each layer a part: losses of 20 steps, and what the test tells, as of one process."""
    one = json.loads(run([*HEADS, *kind, "--steps", "20", "--log", "one.csv", "--json"]).stdout)
    for words in some_of(SPLITS):
        told = json.loads(run([*HEADS, *kind, *split(words), "--steps", "20", "--log", "some.csv", "--poison", "--json",
                               *random.choice([[], ["--bucket", "16KiB"], ["--check", "naive"]])]).stdout)
        far = near(losses("one.csv"), losses("some.csv"), 1e-5, f"{words}, {kind}")
        print(f"{words}, {' '.join(kind)}: {far:.1e} apart")
        between = json.loads(run([*HEADS, *kind, *split(words), "--sequence-parallel", "--steps", "20", "--log", "between.csv",
                                  "--poison", "--json"]).stdout)
        near(losses("one.csv"), losses("between.csv"), 1e-5, f"{words}, sequences, {kind}")
        if any(b["measured_peak"] != b["planned_peak"] or b["measured_peak"] >= r["measured_peak"]
               for b, r in zip(between["ranks"], told["ranks"])) or between["poison"] != "clean":
            sys.exit(f"FAILED: {words}, sequences, {kind}: {between}, {told}")
        if any(r["measured_peak"] != r["planned_peak"] for r in told["ranks"]) or told["poison"] != "clean":
            sys.exit(f"FAILED: {words}, {kind}: {told}")
        if abs(told["test_loss"] - one["test_loss"]) > 1e-4 or told["weights"] >= one["weights"]:
            sys.exit(f"FAILED: {words}, {kind}: {told}, {one}")


def as_estimated():
    """What ranks plan and measure is told before any of them runs."""
    for model, words in random.sample([(m, w) for m in ("lm.onnx", "heads.onnx") for w in [*SPLITS, "data=4"]], 3):
        options = [model, "--batch", random.choice(["8", "16"]), "--optimizer", random.choice(["adam", "sgd", "momentum"])]
        options += ["--sequence-parallel"] if model == "heads.onnx" and "tensor" in words and random.random() < 0.5 else []
        told = json.loads(run([TENURE, "train", *options, "--data", "text:book.txt", "--weights", "random:1", "--steps", "1",
                               *split(words), "--json"]).stdout)
        found = json.loads(run([TENURE, "estimate", *options, "--train", "--kernels", "onednn", "--parallel", words, "--json"])
                           .stdout)
        if found["static"] != told["weights"] or any(r["planned_peak"] != found["arena"] or
                                                     r["measured_peak"] != found["arena"] for r in told["ranks"]):
            sys.exit(f"FAILED: {options}, {words}: {found}, {told}")


def cut_and_shared_out():
    """Ranks with the same part of a model divide what they keep of it: the same bits, in less memory."""
    for what in some_of(SHARDS):
        options = [*HEADS, "--optimizer", "adam", "--steps", "8", *split("data=2,tensor=2"), "--json", "--bucket",
                   random.choice(["1KiB", "16KiB", "4MiB"]), *random.choice([[], ["--sequence-parallel"]])]
        whole = json.loads(run([*options, "--checkpoint", "all.ck", "--log", "all.csv"]).stdout)
        told = json.loads(run([*options, "--checkpoint", "part.ck", "--log", "part.csv", "--shard", what,
                               *random.choice([["--poison"], ["--check", "naive"]])]).stdout)
        found = json.loads(run([TENURE, "estimate", "heads.onnx", "--train", "--batch", "8", "--optimizer", "adam", "--kernels",
                                "onednn", "--json", "--shard", what, *options[options.index("--parallel"):][:2],
                                *options[options.index("--bucket"):]]).stdout)
        for one, other in ("all.ck", "part.ck"), ("all.csv", "part.csv"):
            if pathlib.Path(one).read_bytes() != pathlib.Path(other).read_bytes():
                sys.exit(f"FAILED: {options}, {what}: {one} and {other} differ")
        if told["weights"] >= whole["weights"] or told["test_loss"] != whole["test_loss"] or \
                any(r["measured_peak"] != found["arena"] or r["weights"] != found["static"] for r in told["ranks"]):
            sys.exit(f"FAILED: {options}, {what}: {told}, {whole}, {found}")


def cut_and_resumed():
    """A checkpoint is the whole, whoever writes it: so any other division goes on from it."""
    both = [*split("data=2,tensor=2"), "--shard", random.choice(SHARDS)]
    ways = [[], threads(2), both, *(split(words) for words in SPLITS)]
    run([*HEADS, "--optimizer", "adam", "--steps", "12", "--checkpoint", "whole.ck", "--log", "whole.csv"])
    for first in some_of(ways):
        then, part = random.choice([way for way in ways if way != first]), [*HEADS, "--optimizer", "adam"]
        run([*part, *first, "--steps", "5", "--checkpoint", "part.ck", "--log", "part.csv"])
        shutil.copy("part.ck", "same.ck")
        run([*part, *then, "--steps", "12", "--checkpoint", "part.ck", "--resume", "part.ck", "--log", "part.csv"])
        near(losses("whole.csv")[5:], losses("part.csv")[5:], 1e-5, f"{first}, resumed by {then}")
        if os.path.getsize("part.ck") != os.path.getsize("whole.ck"):
            sys.exit(f"FAILED: {first}, {then}: another file than one process writes")
        run([*part, *first, "--steps", "12", "--checkpoint", "same.ck", "--resume", "same.ck"])
        run([*part, *first, "--steps", "12", "--checkpoint", "at_once.ck"])
        if pathlib.Path("same.ck").read_bytes() != pathlib.Path("at_once.ck").read_bytes():
            sys.exit(f"FAILED: {first}: resumed, the bits are others")


def pictures(begin, words, options):
    """A step of all ranks in one picture: what the plans say is there, and ranks meet in their calls."""
    done = run([*begin, *HEADS, *options, "--steps", "4", "--parallel", words, *([] if MPIRUN else ["--ranks-as-threads"]),
                "-o", "ranks.json", "--json"])
    told, drawn = json.loads(done.stdout), json.loads(pathlib.Path("ranks.json").read_text())
    for rank, of in zip(drawn["ranks"], told["ranks"]):
        if rank["planned_peak"] != of["planned_peak"] or any(f"{name} " not in rank["label"] for name in
                                                             (w.split("=")[0] for w in words.split(","))):
            sys.exit(f"FAILED: {words}: rank {rank['rank']}, {rank['label']}, {rank['planned_peak']}: {of}")
        kinds = [sorted(zip(rank[kind]["name"], rank[kind]["type"], rank[kind]["bytes"], rank[kind]["live"]))
                 for kind in ("predicted", "measured")]
        if rank["measured"]["run"] != 2:  # the third of four
            sys.exit(f"FAILED: {words}: rank {rank['rank']}: run {rank['measured']['run']} is drawn")
        if kinds[0] != kinds[1] or max(rank["measured"]["live"]) > of["planned_peak"]:
            sys.exit(f"FAILED: {words}: {kinds}")
    talk, calls = drawn["lanes"].index("talk"), []
    for rank in drawn["ranks"]:
        run_of = rank["measured"]
        calls.append([(start, start + run_of["duration_ns"][i]) for i, start in enumerate(run_of["start_ns"])
                      if run_of["lane"][i] == talk])
    staged = "pipeline" in words
    if words.count(",") == 0 and not staged:  # one group: nobody has an answer before all have come
        for k, met in enumerate(zip(*calls)):
            if max(first for first, _ in met) > min(last for _, last in met):
                sys.exit(f"FAILED: {words}: call {k}: {met}")
    if (len({len(of) for of in calls}) != 1 and not staged) or len(calls) != len(told["ranks"]) or not calls[0]:
        sys.exit(f"FAILED: {words}: {calls}")


def picture_mistakes():
    for words, options in [("does not end in .html, .svg, .json", ["-o", "ranks.png"]), ("cannot be combined", ["-o", "a.svg", "--poison"]),
                           ("needs several tensor ranks", ["--sequence-parallel"])]:
        done = run([*HEADS, "--steps", "2", *threads(2), *options], 2)
        if words not in done.stderr:
            sys.exit(f"FAILED: {options}: {done.stderr}")
    done = run([*HEADS, "--steps", "2", *threads(2), "-o", "nowhere/ranks.svg"], 2)
    if "nowhere/ranks.svg" not in done.stderr or len([w for w in done.stderr.splitlines() if w.startswith("tenure")]) != 1:
        sys.exit(f"FAILED: {done.stderr}")
    run([*HEADS, "--steps", "1", "-o", "alone.svg"])
    run([*HEADS, "--steps", "2", *split("data=2,tensor=2"), "-o", "ranks.html", "--trace", "first.trace.json"])
    for file, word in ("alone.svg", "measured"), ("ranks.html", "tenure-ranks"), ("first.trace.json", "traceEvents"):
        if word not in pathlib.Path(file).read_text():
            sys.exit(f"FAILED: {file}")


def staged_as_one(kind):
    """Of the layers some each, for micro-batches in turn: losses of 20 steps, bit for bit where nothing else is divided."""
    kind = [*kind, "--micro-batches", "4", "--steps", "20"]
    one = json.loads(run([*HEADS, *kind, "--log", "one.csv", "--json"]).stdout)
    run([*HEADS, *kind, "--log", "plain.csv", "--no-rewrite"])
    for words in some_of(STAGES):
        told = json.loads(run([*HEADS, *kind, *split(words), "--log", "some.csv", "--poison", "--json", "--schedule",
                               random.choice(["1f1b", "gpipe"]), *random.choice([[], ["--check", "naive"]])]).stdout)
        alone = words.startswith("pipeline")
        # a pipeline does what one process does, but puts no operators together across stages: which kernels then run, and
        # in which order they add, differs by processor
        other = "plain.csv" if alone and apart(losses("plain.csv"), losses("some.csv")) < apart(losses("one.csv"), losses("some.csv")) else "one.csv"
        far = near(losses(other), losses("some.csv"), 1e-6 if alone else 1e-5, f"{words}, {kind}")
        print(f"{words}, {' '.join(kind)}: {far:.1e} apart")
        if any(r["measured_peak"] != r["planned_peak"] for r in told["ranks"]) or told["poison"] != "clean":
            sys.exit(f"FAILED: {words}, {kind}: {told}")
        if abs(told["test_loss"] - one["test_loss"]) > 1e-4 or told["weights"] >= one["weights"]:
            sys.exit(f"FAILED: {words}, {kind}: {told}, {one}")


def staged_otherwise():
    """Wherever it is cut, also through what is put together on one process; many pieces by turns, which
    once waited for each other for ever."""
    cnn = [TENURE, "train", "cnn.onnx", "--data", "x.npy,y.npy", "--batch", "6"]
    heads = [*HEADS, "--lr", "0.01"]
    for begin, rounds, some in [(cnn, 2, ["pipeline=2", "pipeline=3"]), (heads, 2, ["pipeline=7"]),
                                (heads, 6, ["pipeline=6", "pipeline=2,interleave=3", "pipeline=2,interleave=4"])]:
        begin = [*begin, "--micro-batches", str(rounds), "--steps", "4"]
        run([*begin, "--log", "one.csv"])
        for words in some:
            done = run([*begin, *split(words), "--poison", "--log", "some.csv"], limit=1200)
            near(losses("one.csv"), losses("some.csv"), 1e-5, f"{begin[2]}, {words}")
            if "nothing is rewritten across stages" not in done.stdout:
                sys.exit(f"FAILED: {words}: {done.stdout}")


def staged_and_updated_at_once():
    """What all stages read of a parameter is sent before it is updated, which may be in the next pass."""
    begin = [word if word != "heads.onnx" else "placed.onnx" for word in HEADS]
    begin += ["--optimizer", "momentum", "--fuse-update", "--micro-batches", "1", "--steps", "6"]
    run([*begin, "--log", "one.csv"])
    for words in "tensor=2,pipeline=2", "tensor=2,pipeline=4":
        done = run([*begin, *split(words), "--sequence-parallel", "--poison", "--log", "some.csv", "--json"])
        near(losses("one.csv"), losses("some.csv"), 1e-5, f"{words}, {begin}")
        if any(r["measured_peak"] != r["planned_peak"] for r in json.loads(done.stdout)["ranks"]):
            sys.exit(f"FAILED: {words}, {begin}: {done.stdout}")


def staged_as_estimated():
    """Of every stage."""
    words, options = random.choice(STAGES), ["heads.onnx", "--batch", "8", "--micro-batches", "4", "--schedule", random.choice(["1f1b", "gpipe"])]
    told = json.loads(run([TENURE, "train", *options, "--data", "text:book.txt", "--weights", "random:1", "--steps", "1", *split(words),
                           "--json"]).stdout)
    found = json.loads(run([TENURE, "estimate", *options, "--train", "--kernels", "onednn", "--parallel", words, "--json"]).stdout)
    each = 2 ** (words.count("data") + words.count("tensor"))
    if [s for s in found["stages"] for _ in range(each)] != [{"arena": r["measured_peak"], "static": r["weights"]} for r in told["ranks"]]:
        sys.exit(f"FAILED: {options}, {words}: {found['stages']}, {told['ranks']}")


def staged_in_parts():
    """What both ranks of a stage have alike goes to the other stage in parts: half of the bytes, the same bits."""
    options = [word if word != "heads.onnx" else "deep.onnx" for word in HEADS]
    options += ["--micro-batches", "4", "--steps", "3", *split("tensor=2,pipeline=2"), "--json"]
    parts = json.loads(run([*options, "--checkpoint", "parts.ck"]).stdout)["ranks"]
    whole = json.loads(run([*options, "--checkpoint", "whole.ck", "--whole-sends"]).stdout)["ranks"]
    if pathlib.Path("parts.ck").read_bytes() != pathlib.Path("whole.ck").read_bytes():
        sys.exit("FAILED: sent in parts, other bits")
    for one, all_of_it in zip(parts, whole):
        if not 0 < 2 * one["direct_bytes"] == all_of_it["direct_bytes"] or one["measured_peak"] != all_of_it["measured_peak"]:
            sys.exit(f"FAILED: sent in parts: {one}, {all_of_it}")


def staged_and_shared():
    """What those with other samples keep of their stage is divided: the same bits, less that stays, as estimated."""
    for words in some_of(["data=2,pipeline=2", "data=2,tensor=2,pipeline=2"]):
        options = ["heads.onnx", "--batch", "8", "--micro-batches", "2", "--optimizer", "adam", *random.choice([[], ["--fuse-update"]])]
        def trained(file, *more):
            return json.loads(run([TENURE, "train", *options, "--data", "text:book.txt", "--weights", "random:1", "--steps", "3", *split(words),
                                   "--checkpoint", file, "--json", *more]).stdout)["ranks"]
        stays = trained("plain.ck")[0]["weights"]
        for what in some_of(SHARDS):
            told = trained("shared.ck", "--shard", what, "--poison")
            found = json.loads(run([TENURE, "estimate", *options, "--train", "--kernels", "onednn", "--parallel", words, "--shard", what,
                                    "--json"]).stdout)["stages"]
            if [found[r * 2 // len(told)] for r in range(len(told))] != [{"arena": r["measured_peak"], "static": r["weights"]} for r in told]:
                sys.exit(f"FAILED: {words}, {what}: {found}, {told}")
            if pathlib.Path("plain.ck").read_bytes() != pathlib.Path("shared.ck").read_bytes() or told[0]["weights"] > 0.75 * stays:
                sys.exit(f"FAILED: {words}, {what}: {told}")


def staged_within_a_budget():
    """Each rank in less than it takes of its own accord: the same bits, as estimated; or a reason."""
    swapped = 0
    every = [("pipeline=2", []), ("pipeline=2,interleave=2", ["--schedule", "gpipe"]), ("tensor=2,pipeline=2", ["--sequence-parallel"]),
             ("data=2,pipeline=2", ["--shard", "parameters"]), ("data=2,tensor=2,pipeline=2", ["--shard", "optimizer"])]
    some = some_of(every)
    for words, more in some:
        options = ["heads.onnx", "--batch", "8", "--micro-batches", "4", "--optimizer", "adam", *more]
        command = [TENURE, "train", *options, "--data", "text:book.txt", "--weights", "random:1", "--steps", "3", *split(words), "--json"]
        free = json.loads(run([*command, "--checkpoint", "free.ck"]).stdout)["ranks"]
        all_of_it = max(r["measured_peak"] + r["weights"] for r in free)
        for share, allowed in (88, []), (80, ["--allow", "swap", "--link", "4GB/s"]):
            budget = budget_of(command, all_of_it, share, allowed)
            if budget is None:
                continue
            told = json.loads(run([*command, *budget, "--checkpoint", "bound.ck", "--poison"]).stdout)["ranks"]
            if any(r["measured_peak"] != r["planned_peak"] or r["measured_peak"] + r["weights"] > int(budget[1]) for r in told):
                sys.exit(f"FAILED: {words} within {budget}: {told}")
            if pathlib.Path("free.ck").read_bytes() != pathlib.Path("bound.ck").read_bytes():
                sys.exit(f"FAILED: {words} within {budget}: other bits")
            found = json.loads(run([TENURE, "estimate", *options, *budget, "--train", "--kernels", "onednn", "--parallel", words, "--json"]).stdout)
            swapped += found.get("host_bytes", 0)
            found = found["stages"]
            if [found[r * 2 // len(told)] for r in range(len(told))] != [{"arena": r["measured_peak"], "static": r["weights"]} for r in told]:
                sys.exit(f"FAILED: {words} within {budget}: {found}, {told}")
        done = run([*command, "--budget", "20KiB"], 1)
        if "the least found takes" not in done.stderr:
            sys.exit(f"FAILED: {words} within 20 KiB: {done.stderr}")
    if swapped == 0 and len(some) == len(every):
        sys.exit("FAILED: no stage has swapped")


def staged_and_resumed():
    part = [*HEADS, "--optimizer", "adam", "--micro-batches", "4"]
    ways = [[], threads(2), *(split(words) for words in STAGES), split("tensor=2"),
            [*split("data=2,pipeline=2"), "--shard", random.choice(SHARDS)]]
    run([*part, "--steps", "12", "--log", "whole.csv"])
    for first in random.sample(ways, case_count(4, 1)):
        then = random.choice([way for way in ways if way != first])
        run([*part, *first, "--steps", "5", "--checkpoint", "part.ck", "--log", "part.csv"])
        run([*part, *then, "--steps", "12", "--checkpoint", "part.ck", "--resume", "part.ck", "--log", "part.csv"])
        near(losses("whole.csv"), losses("part.csv"), 1e-5, f"{first}, resumed by {then}")


def pictures_of_stages():
    """What every rank did is drawn, within what it planned."""
    told = json.loads(run([*HEADS, "--micro-batches", "4", "--steps", "2", *split("pipeline=4"), "-o", "ranks.json", "--json"]).stdout)
    drawn = json.loads(pathlib.Path("ranks.json").read_text())["ranks"]
    for rank, of in zip(drawn, told["ranks"]):
        run_of = rank["measured"]
        share = rank["measured"]["idle_seconds"] / (rank["measured"]["idle_seconds"] + rank["measured"]["compute_seconds"])
        if abs(of["idle"]["measured"] - share) > 1e-4 or not 0 < of["idle"]["predicted"] < 1:
            sys.exit(f"FAILED: {rank['label']}: idle for {share}: {of}")
        if rank["planned_peak"] != of["planned_peak"] or max(run_of["live"]) > of["planned_peak"] or not run_of["name"]:
            sys.exit(f"FAILED: {rank['label']}: {of}")


def cannot_be_staged(begin):
    for words, options in [("operators can be divided into", ["--parallel", "pipeline=60"]),
                           ("do not divide among 2 stages", ["--parallel", "pipeline=2,interleave=2", "--micro-batches", "3"]),
                           ("looks at all gradients", ["--parallel", "pipeline=2", "--loss-scale", "dynamic"]),
                           ("16 bits", ["--parallel", "pipeline=2", "--dtype", "bf16"]),
                           ("recomputing", ["--parallel", "pipeline=2", "--recompute-cheap"])]:
        count = 60 if "60" in options[1] else 2
        if MPIRUN and count > 2:
            continue
        done = run([*begin(count), *HEADS, "--steps", "2", *options, *([] if MPIRUN else ["--ranks-as-threads"])], 2)
        lines = [line for line in done.stderr.splitlines() if line.startswith("tenure: ")]
        if len(lines) != 1 or words not in lines[0]:
            sys.exit(f"FAILED: {words}: {done.stderr}")


def cannot_be_cut(begin):
    for words, count, options in [("3 ranks do not divide", 3, []), ("looks at all gradients", 2, ["--loss-scale", "dynamic"]),
                                  ("nothing.ck: cannot open", 2, ["--resume", "nothing.ck"])]:
        done = run([*begin(count), *HEADS, "--steps", "2", *options, "--parallel", f"tensor={count}",
                    *([] if MPIRUN else ["--ranks-as-threads"])], 2)
        lines = [line for line in done.stderr.splitlines() if line.startswith("tenure: ")]
        if len(lines) != 1 or words not in lines[0]:
            sys.exit(f"FAILED: {words}: {done.stderr}")


def mistakes(begin):
    """One rank tells; all end alike."""
    for words, count, options in [
            ("cannot be divided equally among 3 ranks", 3, []),
            ("cannot open", 2, ["--data", "text:nothing.txt"]),
            ("cannot open", 2, ["--resume", "nothing.ck"]),
            ("no plan of this order, without changes, fits in 1.0 KiB", 2, ["--budget", "1KiB", "--pass", "none"])]:
        done = run([*begin(count), *LM, "--steps", "2", *options, "--parallel", f"data={count}",
                    *([] if MPIRUN else ["--ranks-as-threads"])], 1 if "--budget" in options else 2)
        lines = [line for line in done.stderr.splitlines() if line.startswith("tenure: ")]
        if sum(words in line for line in lines) != 1 or "rank 0" not in lines[-1]:
            sys.exit(f"FAILED: {words}: {done.stderr}")
    done = run([*begin(4), *HEADS, "--steps", "2", "--resume", "nothing.ck", "--parallel", "data=2,tensor=2",
                *([] if MPIRUN else ["--ranks-as-threads"])], 2, ENDS_S)
    if "rank 0, nothing.ck: cannot open" not in done.stderr:
        sys.exit(f"FAILED: {done.stderr}")


def ends_alike(commands, words):
    """Each (number of ranks, command) ends with status 2, told by one line of one of them."""
    kept = ["sh", "-c", '"$@"; echo $? >status.$OMPI_COMM_WORLD_RANK', "sh"]  # mpirun itself ends all when one fails
    together = [MPIRUN, "--oversubscribe"]
    for count, command in commands:
        together += ["-n", str(count), *kept, *command, ":"]
    done = run(together[:-1], 0, ENDS_S)
    lines = [line for line in done.stderr.splitlines() if line.startswith("tenure")]
    codes = [pathlib.Path(f"status.{rank}").read_text().strip() for rank in range(sum(count for count, _ in commands))]
    if len(lines) != 1 or words not in lines[0] or any(code != "2" for code in codes):
        sys.exit(f"FAILED: {words}: {codes}, {done.stderr}")


def misused():
    """What is wrong with the command itself: all of them would say it."""
    plain = [*HEADS, "--steps", "2"]
    for words, options in [("3 ranks, and mpirun has started 4", ["--parallel", "data=3"]),
                           ("cannot be divided equally among 4 ranks", ["--parallel", "data=4", "--batch", "9"]),
                           ("more than the model's", ["--parallel", "pipeline=4,interleave=16", "--micro-batches", "4"]),
                           ("rank 0: --link: '0' is not a speed", ["--parallel", "data=4", "--link", "0", "--budget", "1MiB"]),
                           ("rank 0: --link: 0B/s is out of range", ["--parallel", "data=4", "--link", "0B/s", "--budget", "1MiB"]),
                           ("rank 0: --parallel: 'data=0'", ["--parallel", "data=0"]),
                           ("rank 0: there is no option --parallell", ["--parallell", "data=4"]),
                           ("rank 0: --ranks-as-threads needs a single process", ["--parallel", "data=4", "--ranks-as-threads"])]:
        ends_alike([(4, [*plain, *options])], words)
    ends_alike([(4, [TENURE, "train", "none.onnx", *HEADS[3:]])], "rank 0, none.onnx: cannot open")
    ends_alike([(2, plain), (1, [*plain, "--bucket", "0"]), (1, plain)], "rank 2: --bucket")


def alone():
    for words, options in [("mpirun -n 4", ["--parallel", "data=4"]), ("or serial, or safe", ["--parallel", "layers=2"]), ("there twice", ["--parallel", "data=2,data=2"]),
                           ("--bucket", [*threads(2), "--bucket", "0"]), ("--parallel", ["--parallel", "data=0"]),
                           ("needs pipeline stages", split("interleave=2")),
                           ("--schedule needs", [*threads(2), "--schedule", "gpipe"]),
                           ("not one of 1f1b, gpipe", [*split("pipeline=2"), "--schedule", "2f2b"]),
                           ("--whole-sends needs", [*split("pipeline=2"), "--whole-sends"])]:
        done = run([*LM, "--steps", "2", *options], 2)
        if words not in done.stderr:
            sys.exit(f"FAILED: {options}: {done.stderr}")


# --- processes


def mpirun(count):
    # what Open MPI leaves to the system at the end is not ours; ranks that are threads are looked at whole
    os.environ["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"
    return [MPIRUN, "--oversubscribe", "-n", str(count)]


def same_bits():
    for count in 2, 3, 4:
        options = [*LM, "--batch", "12", "--optimizer", "adam", "--steps", "20", "--checkpoint"]
        run([*options, "threads.ck", *threads(count)])
        run([*mpirun(count), *options, "mpi.ck", "--bucket", "8KiB"])
        if pathlib.Path("threads.ck").read_bytes() != pathlib.Path("mpi.ck").read_bytes():
            sys.exit(f"FAILED: {count} processes give other bits than threads")


def cut_same_bits():
    for count, words, more in [(2, "tensor=2", ["--sequence-parallel"]), (4, "data=2,pipeline=2", []), (8, "data=2,tensor=2,pipeline=2", []),
                               (8, "data=2,tensor=2,pipeline=2", ["--shard", "optimizer", "--budget", "256KiB"]),
                               (2, "tensor=2", ["--budget", "400KiB", "--allow", "swap", "--link", "4GB/s"]),
                               (4, "data=2,tensor=2", ["--shard", random.choice(SHARDS)])]:
        options = [*HEADS, "--optimizer", "adam", "--steps", "20", "--micro-batches", "2", "--parallel", words, *more]
        run([*options, "--ranks-as-threads", "--checkpoint", "threads.ck"])
        run([*mpirun(count), *options, "--checkpoint", "mpi.ck", "--log", "mpi.csv"])
        if pathlib.Path("threads.ck").read_bytes() != pathlib.Path("mpi.ck").read_bytes():
            sys.exit(f"FAILED: processes of {words} give other bits than threads")
        run([*HEADS, "--optimizer", "adam", "--steps", "20", "--micro-batches", "2", "--log", "one.csv"])
        near(losses("one.csv"), losses("mpi.csv"), 1e-5, f"processes of {words}")


def differ():
    plain = [*LM, "--steps", "4"]
    for words, status, options in [
            ("rank 1 has another seed than rank 0", 1, ["--seed", "9"]),
            ("rank 1 has another model than rank 0", 1, ["--optimizer", "momentum"]),
            ("rank 1 has another number of steps than the first", 1, ["--steps", "5"]),
            ("rank 1 has another learning rate than the first", 1, ["--lr", "0.5"]),
            ("rank 1, nothing.txt: cannot open", 2, ["--data", "text:nothing.txt"])]:
        begun = time.monotonic()
        done = run([*mpirun(1), *plain, ":", "-n", "1", *plain, *options], status)
        lines = [line for line in done.stderr.splitlines() if line.startswith("tenure: ")]
        if len(lines) != 1 or words not in lines[0]:
            sys.exit(f"FAILED: {words}: {done.stderr}")
        if time.monotonic() - begun > ENDS_S:
            sys.exit(f"FAILED: {words}: {time.monotonic() - begun:.0f} s")
    # one alone cannot set up its run, while the others wait for what the first has
    pathlib.Path("short.txt").write_text("abc")
    heads, some = [*HEADS, "--steps", "4", "--parallel", "data=2,tensor=2"], ["--data", "text:short.txt"]
    done = run([*mpirun(1), *heads, ":", "-n", "1", *heads, *some, ":", "-n", "2", *heads], 2, ENDS_S)
    lines = [line for line in done.stderr.splitlines() if line.startswith("tenure: ")]
    if len(lines) != 1 or "rank 1" not in lines[0] or "short.txt" not in lines[0]:
        sys.exit(f"FAILED: {done.stderr}")
    done = run([*mpirun(2), *plain, "--parallel", "data=4"], 2)
    if "4 ranks, and mpirun has started 2" not in done.stderr:
        sys.exit(f"FAILED: {done.stderr}")


def children(pid):
    """Of mpirun: the ranks, by their number."""
    found = {}
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and int(entry.joinpath("stat").read_text().rsplit(")", 1)[1].split()[1]) == pid:
                words = dict(w.split(b"=", 1) for w in entry.joinpath("environ").read_bytes().split(b"\0") if b"=" in w)
                found[int(words[b"OMPI_COMM_WORLD_RANK"])] = int(entry.name)
        except (OSError, KeyError, ValueError):
            pass
    return found


def hit(number, rank, words):
    """A signal at a random moment: all end, and the last checkpoint is whole."""
    for file in pathlib.Path(".").glob("hit.ck*"):
        file.unlink()
    with open("hit.err", "w+") as err:
        job = subprocess.Popen([*mpirun(3), *LM, "--batch", "12", "--optimizer", "adam", "--steps", "1000000",
                                "--checkpoint", "hit.ck", "--checkpoint-every", "20"], stdout=subprocess.DEVNULL,
                               stderr=err)
        limit = time.monotonic() + ENDS_S
        while not os.path.exists("hit.ck") and time.monotonic() < limit:
            time.sleep(0.05)
        time.sleep(random.random())
        ranks = children(job.pid)
        os.kill(ranks[rank], number)
        begun = time.monotonic()
        try:
            status = job.wait(ENDS_S)
        except subprocess.TimeoutExpired:
            job.kill()
            sys.exit(f"FAILED: {number} of rank {rank}: others go on after {ENDS_S} s")
        seconds = time.monotonic() - begun
        err.seek(0)
        told = err.read()
    left = [pid for pid in ranks.values() if os.path.exists(f"/proc/{pid}")]
    limit = time.monotonic() + ENDS_S  # a killed process may yet have to be waited for
    while left and time.monotonic() < limit:
        time.sleep(0.1)
        left = [pid for pid in left if os.path.exists(f"/proc/{pid}")]
    if status == 0 or words not in told or left:
        sys.exit(f"FAILED: {number} of rank {rank}: status {status}, left {left}, {told}")
    at = int(json.loads(run([*LM, "--batch", "12", "--optimizer", "adam", "--steps", "1", "--resume", "hit.ck",
                             "--json"]).stdout)["steps"])
    print(f"signal {number} to rank {rank}: ended after {seconds:.1f} s, checkpoint of step {at}")


def main():
    random.seed(SEED)
    print(f"seed {SEED}")
    os.environ.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMP_NUM_THREADS="1")
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, HERE / "train_models.py", folder], check=True)
        os.chdir(folder)
        if MPIRUN is None:
            for kind in some_of(KINDS):
                as_one(kind)
            options_are_the_commands()
            resumed()
            within_a_budget()
            for kind in some_of(CUT_KINDS):
                cut_as_one(kind)
            as_estimated()
            cut_and_shared_out()
            cut_and_resumed()
            for words, options in some_of([("tensor=2", ["--sequence-parallel"]), ("data=2,tensor=2", []), ("data=4", []),
                                           ("data=2,pipeline=2", ["--micro-batches", "4"])]):
                pictures([], words, options)
            picture_mistakes()
            for kind in some_of([*CUT_KINDS[:1], ["--optimizer", "sgd", "--lr", "0.01", "--fuse-update"]]):
                staged_as_one(kind)
            staged_otherwise()
            staged_and_updated_at_once()
            staged_as_estimated()
            staged_in_parts()
            staged_and_shared()
            staged_within_a_budget()
            staged_and_resumed()
            pictures_of_stages()
            cannot_be_staged(lambda count: [])
            mistakes(lambda count: [])
            cannot_be_cut(lambda count: [])
            alone()
            return
        if run([*mpirun(1), TENURE, "train", "none.onnx", "--data", "x.npy,y.npy", "--parallel", "data=1"], 2) \
                .stderr.find("carries no messages by MPI") >= 0:
            print("SKIP: tenure-mpi.so is not built")
            sys.exit(77)
        same_bits()
        cut_same_bits()
        pictures(mpirun(4), "data=4", [])
        pictures(mpirun(2), "tensor=2", ["--sequence-parallel"])
        differ()
        misused()
        mistakes(mpirun)
        cannot_be_cut(mpirun)
        cannot_be_staged(mpirun)
        hit(signal.SIGKILL, random.randrange(3), "signal 9")
        silent = random.randrange(3)
        hit(signal.SIGSTOP, silent, f"rank {silent} gives no sign of life")


if __name__ == "__main__":
    main()
