#!/usr/bin/env python3
"""Budgets that are kept: every answer of `tenure fit` between the least and the plain program, run and measured.

    bench/budgets.py TENURE [--count 40] [--steps 2] [--passes OPTIONS] SPEC...

SPEC is one word for the shell: a model, options that `fit` and `run` or `train` both take, and for a training step its data,
made up: data=3x32x32:10 (samples, classes), data=3x64x64:2:64x64 (labels of that shape), data=text (bytes of a text).

    bench/budgets.py build/tenure 'unet64.onnx --dim H=64' 'resnet18.onnx --batch 2 data=3x224x224:1000'

With costs=model:v100-16 in the place of data= nothing is run: for graphs that nobody has kernels for, as traced steps of training.
Costs are measured once and given to every call. Then for COUNT budgets, evenly from the least that `fit --sweep` finds to the
plain program's bytes, each in calls of their own: fit's bytes = planned = measured peak of the run, with weights within the
budget; no byte touched that nobody holds (--poison); the run's predicted time is fit's, and time never falls as the budget
shrinks. One byte below the least: status 1, with who holds it. Exit status 1: something of this does not hold.
"""
import argparse
import json
import pathlib
import random
import shlex
import struct
import subprocess
import sys
import tempfile

SAMPLES = 16


def npy(path, descr, shape, data):
    head = "{'descr': '%s', 'fortran_order': False, 'shape': %s, }" % (descr, tuple(shape))
    head += " " * (117 - len(head)) + "\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + data)


def product(shape):
    count = 1
    for extent in shape:
        count *= extent
    return count


def make_data(what, folder):
    """What --data is given, of data=WHAT."""
    rng = random.Random(1)
    if what == "text":
        (folder / "book.txt").write_bytes(bytes(rng.randrange(32, 127) for _ in range(1 << 16)))
        return f"text:{folder}/book.txt"
    sample, classes, *label = what.split(":")
    sample = [int(extent) for extent in sample.split("x")]
    label = [int(extent) for extent in label[0].split("x")] if label else []
    npy(folder / "x.npy", "|u1", [SAMPLES] + sample, rng.randbytes(SAMPLES * product(sample)))
    labels = [rng.randrange(int(classes)) for _ in range(SAMPLES * product(label))]
    npy(folder / "y.npy", "<i8", [SAMPLES] + label, struct.pack("<%dq" % len(labels), *labels))
    return f"{folder}/x.npy,{folder}/y.npy"


class Model:
    def __init__(self, tenure, spec, folder, steps):
        words = shlex.split(spec)
        data = [word[5:] for word in words if word.startswith("data=")]
        model = [word[6:] for word in words if word.startswith("costs=")]
        words = [word for word in words if not word.startswith(("data=", "costs="))]
        self.name = pathlib.Path(words[0]).stem
        self.runs = not model
        costs = model[0] if model else str(folder / "costs.json")
        self.fit_words = [tenure, "fit", *words] + (["--train"] if data else [])
        self.run_words = [tenure, "train" if data else "run", *words, "--weights", "random:1"]
        if data:
            self.run_words += ["--data", make_data(data[0], folder), "--steps", str(steps)]
        self.costs = ["--costs", costs]
        saved = self.costs if model else ["--save-costs", costs]
        done = self.call([*self.fit_words, *saved, "--sweep", "2", "--json"], 0)
        answers = json.loads(done.stdout)["answers"]
        self.least, self.plain = answers[0]["bytes"], answers[0]["plain_bytes"]

    def call(self, words, status):
        done = subprocess.run(words, capture_output=True, text=True)
        if done.returncode != status:
            raise Violation(f"status {done.returncode}, not {status}: {shlex.join(words)}\n    {done.stderr.strip()}")
        return done

    def fit(self, budget, passes):
        words = [*self.fit_words, *self.costs, *passes, "--budget", str(budget), "--json"]
        return json.loads(self.call(words, 0).stdout)["answers"][0]

    def run(self, budget, passes):
        words = [*self.run_words, *self.costs, *passes, "--budget", str(budget), "--poison", "--json"]
        return json.loads(self.call(words, 0).stdout)

    def below(self, passes):
        """One byte less than the least."""
        words = [*self.fit_words, *self.costs, *passes, "--budget", str(self.least - 1)]
        told = self.call(words, 1).stderr
        if "least found" not in told or "holders of" not in told:
            raise Violation(f"below the least nobody is blamed: {told}")


class Violation(Exception):
    pass


def check(answer, ran):
    if ran["planned_peak"] != ran["measured_peak"]:
        raise Violation(f"planned {ran['planned_peak']}, measured {ran['measured_peak']} bytes")
    if ran["measured_peak"] != answer["arena"] or ran["weights"] != answer["fixed_bytes"]:
        raise Violation(f"fit says {answer['arena']} + {answer['fixed_bytes']}, the run took "
                        f"{ran['measured_peak']} + {ran['weights']}")
    if ran.get("poison") != "clean":
        raise Violation("the run does not say that it was clean")
    if "fitted" in ran and ran["fitted"]["time"] != answer["time"]:
        raise Violation(f"fit predicts {answer['time']}, the run {ran['fitted']['time']}")
    if "fitted" not in ran and answer["time"] != answer["plain_time"]:
        raise Violation("the run was not fitted")


def campaign(model, count, passes):
    """Rows of what was found, and what does not hold."""
    wrong, rows, before = [], [], None
    for i in range(count):
        budget = model.least + (model.plain - model.least) * i // (count - 1)
        try:
            answer = model.fit(budget, passes)
            rows.append((budget, answer))
            if answer["bytes"] > budget:
                raise Violation(f"{answer['bytes']} bytes of {budget}")
            if model.runs:
                check(answer, model.run(budget, passes))
            if before is not None and answer["time"] > before["time"]:
                raise Violation(f"{answer['time']} ps, {before['time']} in less memory "
                                f"({100 * (answer['time'] / before['time'] - 1):.3f} % more)")
        except Violation as error:
            wrong.append(f"{model.name}, budget {budget} ({i + 1} of {count}): {error}")
            print(f"    {wrong[-1]}", flush=True)
        if rows and (before is None or rows[-1][1]["time"] < before["time"]):
            before = rows[-1][1]
    try:
        model.below(passes)
    except Violation as error:
        wrong.append(f"{model.name}: {error}")
        print(f"    {wrong[-1]}", flush=True)
    return rows, wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("tenure")
    parser.add_argument("specs", nargs="+", metavar="SPEC")
    parser.add_argument("--count", type=int, default=40, help="budgets of a network")
    parser.add_argument("--steps", type=int, default=2, help="of training, at each budget")
    parser.add_argument("--passes", default="", help="options about the search: '--allow swap --link 1GB/s'")
    given = parser.parse_args()
    wrong = []
    print(f"{'network':24} {'least':>12} {'plain':>12} {'budgets':>8} {'overhead at least, half, end':>30} {'wrong':>6}",
          flush=True)
    for spec in given.specs:
        with tempfile.TemporaryDirectory() as folder:
            passes = shlex.split(given.passes)
            model = Model(given.tenure, spec, pathlib.Path(folder), given.steps)
            rows, found = campaign(model, given.count, passes)
            wrong += found
            overheads = [f"{answer['overhead']:.4f}" for _, answer in rows]
            some = " ".join([overheads[0], overheads[len(rows) // 2], overheads[-1]]) if rows else "-"
            print(f"{model.name:24} {model.least:12} {model.plain:12} {len(rows):8} {some:>30} {len(found):6}", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
