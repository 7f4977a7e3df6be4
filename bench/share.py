#!/usr/bin/env python3
"""Two ways to spend a bound on additional work: the pass `share` (--recompute-work), and the search of `fit` for the
smallest budget whose program keeps to the same bound, found by bisection.

    python3 bench/share.py TENURE MODEL BATCH [SHARE...]

For each bound: bytes of both as ratios to the plan without recomputing, the predicted time of the second, and the processor
time of the second as a ratio to that of the first. Everything is for the graph alone, at default rates, in one run.
"""
import json
import resource
import subprocess
import sys

ROUNDS = 12  # of the bisection


def ask(tenure, *words):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([tenure, *words, "--kernels", "none", "--json"], capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    took = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return done.returncode, json.loads(done.stdout) if done.stdout.startswith("{") else {}, took


def searched(tenure, step, static, least, share):
    """The smallest program found by `fit` within the bound, and the processor time of all its searches."""
    best, spent, low = None, 0, static
    for _ in range(ROUNDS):
        budget = (low + least) // 2
        status, said, took = ask(tenure, "fit", *step, "--allow", "order,recompute", "--budget", str(budget))
        spent += took
        if status == 0 and said["answers"][0]["overhead"] <= 1 + share:
            best = said["answers"][0]
            least = best["bytes"]
        else:
            low = budget
    return best, spent


def main():
    tenure, model, batch, *shares = sys.argv[1:]
    step = [model, "--train", "--batch", batch]
    _, plain, _ = ask(tenure, "plan", *step)
    whole = plain["peak"] + plain["static"]
    print("| bound | `share`: bytes | `fit`: bytes | `fit`: time | processor time, fit / share |\n|---|---:|---:|---:|---:|")
    for share in map(float, shares or ("0.1", "0.3")):
        _, told, took = ask(tenure, "plan", *step, "--recompute-work", str(share))
        best, spent = searched(tenure, step, plain["static"], whole, share)
        found = f"{best['bytes'] / whole:.3f} | {best['overhead']:.3f}" if best else "none | "
        print(f"| {share:.0%} | {(told['peak'] + told['static']) / whole:.3f} | {found} | {spent / took:.0f} |", flush=True)


main()
