#!/usr/bin/env python3
"""The same bits within a budget: training plain, then computed again, swapped, encoded, and killed and resumed.

    bench/same_bits.py TENURE [--steps 20] [--share 0.7] [--link 1GB/s] SPEC...

SPEC is one word for the shell, as of bench/budgets.py: a model, options of `train`, and made up data=3x32x32:10. The budget is all
static memory and SHARE of the plain arena. Losses of all steps (--log) and the checkpoint behind the last, which holds all
parameters and the optimizer's state, are compared byte by byte with those of the plain run. Last, a run with everything
allowed is killed (SIGKILL) once it has written a checkpoint, and resumed. A technique that finds no program within the budget
is tried at more: the table says at how much. Exit status 1: something differs, or a technique did nothing at any share.
"""
import argparse
import json
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from budgets import make_data  # noqa: E402

WAYS = {"recompute": "recompute", "swap": "swap", "compress": "compress", "all": "recompute,swap,compress"}


class Network:
    def __init__(self, tenure, spec, folder, given):
        words = shlex.split(spec)
        data = [word[5:] for word in words if word.startswith("data=")]
        words = [word for word in words if not word.startswith("data=")]
        self.name, self.folder, self.given = pathlib.Path(words[0]).stem, folder, given
        self.words = [tenure, "train", *words, "--weights", "random:1", "--data", make_data(data[0], folder),
                      "--steps", str(given.steps), "--json"]
        self.fit = [tenure, "fit", *words, "--train", "--budget", "1TiB", "--json", "--save-costs", self.path("costs")]

    def path(self, name):
        return str(self.folder / name)

    def outputs(self, name):
        return ["--checkpoint", self.path(name + ".ck"), "--log", self.path(name + ".csv")]

    def budget(self, way, share):
        budget = self.static + int(self.arena * share)
        link = ["--link", self.given.link] if "swap" in WAYS[way] else []
        return ["--budget", str(budget), "--allow", WAYS[way], "--costs", self.path("costs"), *link]

    def plain(self):
        answer = json.loads(self.run(self.fit, (0,)).stdout)["answers"][0]
        self.static, self.arena = answer["fixed_bytes"], answer["arena"]
        self.run([*self.words, *self.outputs("plain")], (0,))

    def run(self, words, statuses):
        done = subprocess.run(words, capture_output=True, text=True)
        if done.returncode not in statuses:
            sys.exit(f"status {done.returncode}: {shlex.join(words)}\n{done.stderr}")
        return done

    def differs(self, name):
        """Of ends of file that is not the plain run's; empty: none."""
        return [end for end in (".csv", ".ck")
                if pathlib.Path(self.path(name + end)).read_bytes() != pathlib.Path(self.path("plain" + end)).read_bytes()]

    def within(self, way):
        """(share, what the run told) of the least share from the given one up that something is found for, or None."""
        share = self.given.share
        while share < 0.995:
            done = self.run([*self.words, *self.outputs(way), *self.budget(way, share)], (0, 1))
            if done.returncode == 0:
                return share, json.loads(done.stdout)
            share = 1 - (1 - share) / 2
        return None

    def kill(self, share):
        """Whether it was killed behind a checkpoint and before its end; then it is resumed."""
        every = ["--checkpoint-every", str(max(1, self.given.steps // 4))]
        words = [*self.words, *self.outputs("killed"), *self.budget("all", share), *every]
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        checkpoint = pathlib.Path(self.path("killed.ck"))
        while process.poll() is None and not checkpoint.exists():
            time.sleep(0.001)
        process.kill()
        killed = process.wait() != 0
        if killed:
            self.run([*words, "--resume", str(checkpoint)], (0,))
        return killed


def row(network):
    network.plain()
    cells, wrong, last = [], [], None
    for way in WAYS:
        found = network.within(way)
        if found is None:
            cells.append("-")
            wrong += ["nothing at any share"] if way == "all" else []
            continue
        share, told = found
        differs = network.differs(way)
        if "fitted" not in told:
            wrong.append(f"{way}: was not fitted")
        wrong += [f"{way}: {end} differs" for end in differs]
        cells.append(f"{share:.3f} {told['fitted']['time'] / told['fitted']['plain_time'] - 1:+.1%}{' DIFFERS' if differs else ''}")
        last = share
    killed = last is not None and network.kill(last)
    differs = network.differs("killed") if killed else []
    wrong += [f"killed: {end} differs" for end in differs]
    cells.append("the same" if killed and not differs else "DIFFERS" if killed else "ended first")
    print(f"{network.name:20}" + "".join(f" {cell:>22}" for cell in cells), flush=True)
    for what in wrong:
        print(f"    {what}", flush=True)
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("tenure")
    parser.add_argument("specs", nargs="+", metavar="SPEC")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--share", type=float, default=0.7, help="of the plain arena")
    parser.add_argument("--link", default="1GB/s")
    given = parser.parse_args()
    wrong = []
    print(f"{'share, predicted time':20}" + "".join(f" {way:>22}" for way in [*WAYS, "killed, resumed"]), flush=True)
    for spec in given.specs:
        with tempfile.TemporaryDirectory() as folder:
            wrong += row(Network(given.tenure, spec, pathlib.Path(folder), given))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
