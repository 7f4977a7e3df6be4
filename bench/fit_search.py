#!/usr/bin/env python3
"""How long `tenure fit` searches, and how good what it finds is.

    bench/fit_search.py TENURE SPEC... [--ratios 0.7,0.5,0.35] [--costs model:v100-16] [-o FILE] [--beside FILE]

SPEC is one word for the shell: a model and options of `fit`, as 'resnet50.onnx --train --batch 4'. The budget is what is there all
the time (weights, state) and a part of the plain arena. Nothing is run: times follow from the two rates of a device. Told: processor
seconds of the whole call less those of a call whose budget is met as it is, so of the search and its layouts alone; the predicted
time, of the plain program's; the proved bound; the gap between both; how often the pass was asked. "no": proved that nothing fits,
"-": nothing was found. -o keeps the rows as JSON, --beside compares with rows that were kept.
"""
import argparse
import json
import math
import pathlib
import resource
import shlex
import subprocess
import sys


def call(words):
    """(answer or what is said, processor seconds of the call)"""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([*words, "--json"], capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    if done.returncode == 0:
        return json.loads(done.stdout)["answers"][0], seconds
    if done.returncode == 1:
        return "no" if "that is proved" in done.stderr else "-", seconds
    raise SystemExit(f"status {done.returncode}: {shlex.join(words)}\n{done.stderr}")


def rows(tenure, spec, given):
    words = [tenure, "fit", *shlex.split(spec), "--costs", given.costs]
    plain, reading = call([*words, "--budget", "1000000GB"])
    fixed, name = plain["fixed_bytes"], pathlib.Path(shlex.split(spec)[0]).stem
    for ratio in given.ratios:
        budget = fixed + int(ratio * (plain["plain_bytes"] - fixed))
        answer, seconds = call([*words, "--budget", str(budget)])
        found = not isinstance(answer, str)
        yield {"network": name, "ratio": ratio, "seconds": max(seconds - reading, 0),
               "overhead": answer["overhead"] if found else answer,
               "bound": answer["time_bound"] / answer["plain_time"] if found else None,
               "gap": answer["gap"] if found else None, "rounds": answer["rounds"] if found else None}


def tell(row, old):
    found = not isinstance(row["overhead"], str)
    words = [row["network"], f"{row['ratio']:g}", f"{row['seconds']:.2f}"]
    words += [f"{row['overhead']:.4f}", f"{row['bound']:.4f}", "-" if row["gap"] is None else f"{100 * row['gap']:.2f} %", str(row["rounds"])] if found else [
        row["overhead"], "", "", ""]
    if old is not None:
        words += [f"{old['seconds']:.2f}", old["overhead"] if isinstance(old["overhead"], str) else f"{old['overhead']:.4f}"]
    print("| " + " | ".join(words) + " |", flush=True)


def mean(pairs):
    return math.exp(sum(math.log(a / b) for a, b in pairs) / len(pairs)) if pairs else math.nan


def tell_both(found, before):
    """Ratios of times, where both have an answer; who found what the other did not."""
    pairs = [(row["overhead"], before[key]["overhead"]) for key, row in found.items() if key in before]
    both = [(new, old) for new, old in pairs if not isinstance(new, str) and not isinstance(old, str)]
    lost = sum(isinstance(new, str) and not isinstance(old, str) for new, old in pairs)
    won = sum(isinstance(old, str) and not isinstance(new, str) for new, old in pairs)
    seconds = [sum(row["seconds"] for key, row in rows_.items() if key in found and key in before) for rows_ in (found, before)]
    ratios = [new / old for new, old in both]
    print(f"\n{len(both)} answers of both: predicted time {mean(both):.5f} of what it was in the mean, at best {min(ratios):.4f}, at worst "
          f"{max(ratios):.4f}; {lost} found no more, {won} found now; {seconds[0]:.1f} s instead of {seconds[1]:.1f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("tenure")
    parser.add_argument("specs", nargs="+", metavar="SPEC")
    parser.add_argument("--ratios", default="0.7,0.5,0.35", type=lambda text: [float(part) for part in text.split(",")])
    parser.add_argument("--costs", default="model:v100-16")
    parser.add_argument("-o", "--output", type=pathlib.Path, help="the rows, as JSON")
    parser.add_argument("--beside", type=pathlib.Path, help="rows that were kept before")
    given = parser.parse_args()
    before = {(row["network"], row["ratio"]): row for row in json.loads(given.beside.read_text())} if given.beside else {}
    print("| network | part of the arena | s | time | bound | gap | rounds |" + (" s before | time before |" if before else ""))
    print("|---|---:|---:|---:|---:|---:|---:|" + ("---:|---:|" if before else ""))
    found = {}
    for spec in given.specs:
        for row in rows(given.tenure, spec, given):
            found[row["network"], row["ratio"]] = row
            tell(row, before.get((row["network"], row["ratio"])))
    if given.output:
        given.output.write_text(json.dumps(list(found.values()), indent=1) + "\n")
    if before:
        tell_both(found, before)
    return 0


if __name__ == "__main__":
    sys.exit(main())
