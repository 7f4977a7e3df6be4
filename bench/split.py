#!/usr/bin/env python3
"""Operators in parts: peak, work and time of networks for shares of extra work, measured in runs.

split.py TENURE MODEL... [--shares 0.1,0.25,0.5] [--repeat N] [-- OPTIONS OF RUN]

Each model runs whole and in parts, on contents that are made up, on poisoned memory once (what was freed reads as NaN) and
on clean memory for its time. A row is told only if measured = planned peak and outputs are the same to the bit, or it says
how many are not.
"""
import argparse
import json
import os
import subprocess
import sys


def run(tenure, model, options, more):
    command = [tenure, "run", model, "--weights", "random:1", "--json", *options, *more]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        return None, done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "failed"
    return json.loads(done.stdout), None


def row(tenure, model, share, repeat, more, whole):
    options = ["--split", "--extra-work", str(share)]
    clean, why = run(tenure, model, [*options, "--poison"], more)
    if clean is None:
        return f"| {share:.0%} | refused: {why} |"
    timed, why = run(tenure, model, [*options, "--repeat", str(repeat)], more)
    if clean["measured_peak"] != clean["planned_peak"]:
        sys.exit(f"{model} at {share}: measured {clean['measured_peak']}, planned {clean['planned_peak']}")
    split = clean.get("split", {"extra_operations": 0, "more_bytes_moved": 0, "regions": 0})
    same = sum(a["xxh3"] == b["xxh3"] for a, b in zip(whole["outputs"], clean["outputs"]))
    bits = "equal" if same == len(whole["outputs"]) else f"{same} of {len(whole['outputs'])} outputs equal"
    return (
        f"| {share:.0%} | {clean['measured_peak']:,} | {whole['measured_peak'] / clean['measured_peak']:.2f} "
        f"| {split['regions']} | {100 * split['extra_operations']:+.1f} % | {split['more_bytes_moved'] / 2**20:.1f} "
        f"| {1e3 * timed['seconds']:.1f} | {timed['seconds'] / whole['seconds']:.2f} | {bits} |"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tenure")
    parser.add_argument("models", nargs="+")
    parser.add_argument("--shares", default="0.1,0.25,0.5")
    parser.add_argument("--repeat", type=int, default=5)
    arguments, more = parser.parse_known_args()
    more = [word for word in more if word != "--"]
    for model in arguments.models:
        whole, why = run(arguments.tenure, model, ["--repeat", str(arguments.repeat)], more)
        print(f"\n{os.path.basename(model)} {' '.join(more)}\n")
        if whole is None:
            print(why)
            continue
        print("| extra work | peak, bytes | lower by | regions | operations | MiB more moved | ms | times whole | bits |")
        print("|---:|---:|---:|---:|---:|---:|---:|---:|---|")
        print(f"| whole | {whole['measured_peak']:,} | | | | | {1e3 * whole['seconds']:.1f} | | |")
        for share in arguments.shares.split(","):
            print(row(arguments.tenure, model, float(share), arguments.repeat, more, whole), flush=True)


if __name__ == "__main__":
    main()
