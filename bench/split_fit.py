#!/usr/bin/env python3
"""What operators in parts add to `tenure fit`: never worse at any budget, and budgets below the least without.

    bench/split_fit.py TENURE MODEL... [--count 40] [--calls 4] [--costs model:a100-40]

Nothing is run: times follow from the two rates of a device. For each model two curves, without and with --allow split: at each of
COUNT budgets of the first the second must hold an answer that takes no longer, and no curve may rise. CALLS of these budgets and the
least of both are asked for by calls of their own, too, where the answer in parts is searched for anew. A model may be followed by
options in quotes: 'unet64.onnx --dim H=64'. Exit status 1: something of this does not hold.
"""
import argparse
import json
import pathlib
import shlex
import subprocess
import sys

ALLOW = ["--allow", "order,recompute,split"]


def answers(words):
    done = subprocess.run([*words, "--json"], capture_output=True, text=True)
    if done.returncode not in (0, 1):
        raise SystemExit(f"status {done.returncode}: {shlex.join(words)}\n{done.stderr}")
    return json.loads(done.stdout)["answers"] if done.returncode == 0 else None


def rises(curve):
    return any(b["time"] > a["time"] for a, b in zip(curve, curve[1:]))


def compare(before, after):
    """What is wrong with the answers of the second at the budgets of the first, and how many are faster."""
    by_budget = {answer["budget"]: answer for answer in after}
    wrong, faster = [], 0
    for answer in before:
        other = by_budget.get(answer["budget"])
        if other is None or other["bytes"] > answer["budget"] or other["time"] > answer["time"]:
            wrong.append(f"at {answer['budget']}: {answer['time']} ps without, {other and other['time']} with")
        elif other["time"] < answer["time"]:
            faster += 1
    return wrong, faster


def calls(fit, before, count):
    wrong = []
    for i in range(count):
        answer = before[i * (len(before) - 1) // max(count - 1, 1)]
        words = [*fit, "--budget", str(answer["budget"])]
        one, other = answers(words), answers([*words, *ALLOW])
        if other is None or other[0]["bytes"] > answer["budget"] or (one and other[0]["time"] > one[0]["time"]):
            wrong.append(f"asked for {answer['budget']}: {other and other[0]['time']} with, {one and one[0]['time']} without")
    return wrong


def row(tenure, spec, given):
    words = shlex.split(spec)
    fit = [tenure, "fit", *words, "--costs", given.costs]
    sweep = ["--sweep", str(given.count)]
    before, after = answers([*fit, *sweep]), answers([*fit, *sweep, *ALLOW])
    wrong, faster = compare(before, after)
    wrong += ["the curve rises"] * rises(after)
    least = after[0]["bytes"]
    if answers([*fit, "--budget", str(least), *ALLOW]) is None:
        wrong.append(f"{least} bytes of the curve are refused by a call of its own")
    wrong += calls(fit, before, given.calls)
    print(f"| {pathlib.Path(words[0]).stem} | {before[0]['plain_bytes']:,} | {before[0]['bytes']:,} | {least:,} "
          f"| {before[0]['bytes'] / least:.2f} | {after[0]['overhead']:.3f} | {faster} of {len(before)} | {len(wrong)} |", flush=True)
    for line in wrong:
        print(f"    {line}", flush=True)
    return len(wrong)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("tenure")
    parser.add_argument("models", nargs="+", metavar="MODEL")
    parser.add_argument("--count", type=int, default=40, help="budgets of a network")
    parser.add_argument("--calls", type=int, default=4, help="of them by calls of their own")
    parser.add_argument("--costs", default="model:a100-40")
    given = parser.parse_args()
    print("| network | plain, bytes | least without | least with parts | lower by | its overhead | faster in parts | wrong |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    return 1 if sum(row(given.tenure, spec, given) for spec in given.models) else 0


if __name__ == "__main__":
    sys.exit(main())
