#!/usr/bin/env python3
"""What a budget costs on the graphs of the DTR simulator's traces, beside its seven heuristics.

    bench/dtr.py TENURE LOGS BASELINE [--ratios 0.2,0.3,...] [--models unet,lstm] [--allow recompute]

LOGS is simrd/logs.zip of the repository uwsampl/dtr-prototype, unpacked. BASELINE is a text with the simulator's tables:
for each model a heading "### NAME", the budgets as "budget bytes = ... 0.1:BYTES, ..." and a row "| HEURISTIC | ..." of
overheads for the ratios 0.1 to 1.0. A log becomes a problem (bench/dtr_problem.py), each budget one `tenure fit`.
Overheads are times of the plain run's: ours / the best of seven / what is proved that nothing can be below. "-": nothing
fits (found, or for ours proved: "no"). Exit status 1: somewhere ours is the worse one.
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile

HEURISTICS = {"DTR", "DTREqClass", "DTRLocal", "MSPS", "LRU", "LargestStorage", "RandomStorage"}
FILES = {"U-Net": "unet-", "ResNet-32": "resnet32-", "Transformer": "transformer-", "DenseNet-121": "tv_densenet121-",
         "InceptionV4": "inceptionv4-", "TreeLSTM": "treelstm-", "Unrolled GAN": "unroll_gan-", "LSTM": "lstm-"}


def baseline(path):
    """Name: (bytes by ratio, least overhead by ratio)."""
    found = {}
    for part in re.split(r"^### ", path.read_text(), flags=re.M)[1:]:
        name = re.sub(r" \(.*", "", part.splitlines()[0])
        budgets = re.search(r"budget bytes = .*?: (.*)", part) or re.search(r"budget bytes = [^:]*?((?:0\.1|[\d.]+:).*)", part)
        if name not in FILES or budgets is None:
            continue
        sizes = {float(ratio): int(size) for ratio, size in re.findall(r"([\d.]+):(\d+)", part.split("\n\n")[1])}
        best = {}
        for row in re.findall(r"^\| (\w+) \|(.*)\|$", part.split("metadata accesses")[0], flags=re.M):
            if row[0] not in HEURISTICS:
                continue
            for ratio, text in zip(sorted(sizes), row[1].split("|")):
                value = float(text) if re.fullmatch(r"\s*[\d.]+\s*", text) else float("inf")
                best[ratio] = min(best.get(ratio, float("inf")), value)
        found[name] = sizes, best
    return found


def fit(tenure, problem, budget, allow):
    command = [tenure, "fit", "--problem", problem, "--budget", str(budget), "--allow", allow, "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode == 1:
        return None, "proved" in done.stderr, 0.0
    if done.returncode != 0:
        sys.exit(done.stderr)
    answer = json.loads(done.stdout)["answers"][0]
    return answer["overhead"], answer["time_bound"] / answer["plain_time"], answer["seconds"]


def words(ours, best, bound):
    beside = "-" if best == float("inf") else f"{best:.4f}"
    return f"{'no' if bound else '-'} / {beside}" if ours is None else f"{ours:.4f} / {beside} / {bound:.4f}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tenure")
    parser.add_argument("logs", type=pathlib.Path)
    parser.add_argument("baseline", type=pathlib.Path)
    parser.add_argument("--ratios", default="0.2,0.3,0.4,0.5,0.6,0.7,0.8,0.9")
    parser.add_argument("--models", default="")
    parser.add_argument("--allow", default="order,recompute")
    asked = parser.parse_args()
    ratios = [float(text) for text in asked.ratios.split(",")]
    converter = pathlib.Path(__file__).with_name("dtr_problem.py")
    worse, sums = 0, {ratio: [] for ratio in ratios}
    print("| model | " + " | ".join(f"{ratio}" for ratio in ratios) + " | slowest s |")
    print("|---|" + "---|" * len(ratios) + "---:|")
    for name, (sizes, best) in baseline(asked.baseline).items():
        if asked.models and not any(part.lower() in name.lower() for part in asked.models.split(",")):
            continue
        log = next(asked.logs.glob(FILES[name] + "*.log"))
        with tempfile.NamedTemporaryFile("w", suffix=".json") as problem:
            subprocess.run([sys.executable, converter, log], stdout=problem, check=True)
            cells, slowest = [], 0.0
            for ratio in ratios:
                ours, bound, seconds = fit(asked.tenure, problem.name, sizes[ratio], asked.allow)
                slowest = max(slowest, seconds)
                worse += best[ratio] < (float("inf") if ours is None else ours) - 5e-5
                sums[ratio].append((ours, best[ratio], bound))
                cells.append(words(ours, best[ratio], bound))
        print(f"| {name} | " + " | ".join(cells) + f" | {slowest:.2f} |", flush=True)
    means = []
    for ratio in ratios: # over the models where somebody of the seven has an answer
        rows = [row for row in sums[ratio] if row[0] is not None and row[1] != float("inf")]
        means.append(" / ".join(f"{sum(row[i] for row in rows) / max(1, len(rows)):.4f}" for i in range(3)))
    print("| mean, where both fit | " + " | ".join(means) + " | |")
    print(f"{worse} of {sum(len(rows) for rows in sums.values())} worse than the best of seven")
    return worse > 0


sys.exit(main())
