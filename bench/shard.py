#!/usr/bin/env python3
"""What ranks take that divide state, gradients or parameters, beside ZeRO's formulas.

    python3 bench/shard.py BUILD MODEL.onnx DATA [--ranks 2,4,8] [TRAIN-OPTION ...]

Trains two steps with Adam for each number of ranks (threads) and each --shard, and prints a table of MiB a rank: what
stays (parameters and Adam's two numbers), the arena's measured peak, which holds gradients and all else, and their sum;
beside them the formulas of Rajbhandari et al. (2020) for numbers of 4 bytes, which leave out activations, buckets and
what is gathered. Fails where a measured peak is not the planned one, or a loss differs from that of whole ranks.
"""
import json
import subprocess
import sys

FORMULAS = {"none": lambda p, n: (12 * p, 4 * p), "optimizer": lambda p, n: (4 * p + 8 * p / n, 4 * p),
            "gradients": lambda p, n: (4 * p + 8 * p / n, 4 * p / n), "parameters": lambda p, n: (12 * p / n, 4 * p / n)}


def run(command):
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def main():
    build, model, data, options = sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:]
    numbers = [2, 4, 8]
    if options[:1] == ["--ranks"]:
        numbers, options = [int(n) for n in options[1].split(",")], options[2:]
    tenure = f"{build}/tenure"
    count = run([tenure, "estimate", model, "--train", "--json"])["parameters"]
    print("| ranks | `--shard` | stays | formula | arena | formula, gradients | both | formula |\n|---|---|---|---|---|---|---|---|")
    for ranks in numbers:
        loss = None
        for shard, formula in FORMULAS.items():
            got = run([tenure, "train", model, "--data", data, "--steps", "2", "--optimizer", "adam", "--parallel",
                       f"data={ranks}", "--ranks-as-threads", "--shard", shard, "--json", *options])
            loss = loss or got["loss"]
            if got["loss"] != loss or any(r["measured_peak"] != r["planned_peak"] for r in got["ranks"]):
                sys.exit(f"{ranks} ranks, {shard}: {got}")
            stays, arena = (max(r[what] for r in got["ranks"]) for what in ("weights", "measured_peak"))
            static, gradients = formula(count, ranks)
            row = [stays, static, arena, gradients, stays + arena, static + gradients]
            print(f"| {ranks} | {shard} | " + " | ".join(f"{b / 2 ** 20:.1f}" for b in row) + " |", flush=True)


main()
