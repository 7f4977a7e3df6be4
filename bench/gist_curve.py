"""Loss curves of a training whose tensors wait for the backward pass encoded, beside the exact one.

    gist_curve.py TENURE MODEL FOLDER SVG [STEPS [SEEDS]]

MODEL learns Fashion-MNIST (the package dataset-fashion-mnist) from weights that are made up: once as it is, and once for
each form with the least budget that `tenure fit` finds for it. Logs and answers are kept in FOLDER; what is there is not run
again. A table is printed; SVG shows the loss, and how far it is from the exact one, as means over 20 steps. With SEEDS above 1
as many trainings of each form, of other weights and another order, and what they reach as mean, least and most: that, too, in a table.
"""
import os
import re
import subprocess
import sys

FORMS = [("exact", None), ("lossless", "bits,csr"), ("float16", "bits,csr,float16"), ("float10", "bits,csr,float10"),
         ("float8", "bits,csr,float8")]
COLOURS = ["#000000", "#5b8c5a", "#3b6fb5", "#c98b1c", "#b5443b"]
STEP = ["--batch", "64", "--optimizer", "momentum", "--fuse-update"]
MEAN = 20


def least(words):
    """Bytes: what the step takes at least, and a fiftieth, as costs are measured anew. What cannot be is told with it."""
    answer = subprocess.run([*words, "--budget", "1KiB"], capture_output=True, text=True).stderr
    return int(int(re.search(r"least found takes .*?\((\d[\d,]*) bytes\)", answer)[1].replace(",", "")) * 1.02)


def train(tenure, model, folder, name, codecs, steps, seed):
    kept = name if seed == 1 else f"{name}_{seed}"
    log, told = os.path.join(folder, kept + ".csv"), os.path.join(folder, kept + ".txt")
    if not os.path.exists(told):
        words = [tenure, "train", model, "--data", "fashion-mnist", "--weights", f"random:{seed}", *STEP, "--lr", "0.005",
                 "--seed", str(seed), "--steps", str(steps), "--log", log]
        if codecs:
            words += ["--codecs", codecs, "--pass", "gist"]
            words += ["--budget", str(least(words))]
        answer = subprocess.run(words, capture_output=True, text=True)
        if answer.returncode:
            sys.exit(answer.stderr)
        open(told, "w").write(answer.stdout)
    losses = [float(row.split(",")[1]) for row in open(log).read().split()[1:]]
    text = open(told).read()
    right = re.search(r"on test samples loss ([\d.]+), ([\d.]+) % right", text)
    peak = int(re.search(r"planned peak.*?\(([\d,]+) bytes\)", text)[1].replace(",", ""))
    return losses, float(right[1]), float(right[2]), peak


def means(losses):
    return [sum(losses[at - MEAN:at]) / MEAN for at in range(MEAN, len(losses) + 1)]


def line(values, low, high, top, height, colour):
    points = " ".join(f"{60 + 500 * at / (len(values) - 1):.1f},{top + height * (high - value) / (high - low):.1f}"
                      for at, value in enumerate(values))
    return f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.2"/>'


def panel(curves, top, height, title):
    low, high = min(min(c) for c in curves), max(max(c) for c in curves)
    parts = [f'<rect x="60" y="{top}" width="500" height="{height}" fill="none" stroke="#888"/>',
             f'<text x="60" y="{top - 6}">{title}</text>']
    for value in (low, (low + high) / 2, high):
        y = top + height * (high - value) / (high - low)
        parts.append(f'<text x="55" y="{y + 4:.1f}" text-anchor="end">{value:.3f}</text>')
    return parts + [line(c, low, high, top, height, colour) for c, colour in zip(curves, COLOURS)]


def draw(path, runs, steps):
    curves = [means(losses) for losses, *_ in runs]
    apart = [[a - b for a, b in zip(c, curves[0])] for c in curves]
    parts = panel(curves, 30, 200, f"loss, mean over {MEAN} steps")
    parts += panel(apart, 270, 120, "less the exact one")
    for at, ((name, _), colour) in enumerate(zip(FORMS, COLOURS)):
        parts.append(f'<text x="470" y="{50 + 15 * at}" fill="{colour}">{name}</text>')
    parts += ['<text x="60" y="408">step ' + str(MEAN) + '</text>',
              f'<text x="560" y="408" text-anchor="end">step {steps}</text>']
    with open(path, "w") as file:
        file.write('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 580 420" font-family="sans-serif" font-size="11">\n'
                   '<rect width="580" height="420" fill="#fff"/>\n' + "\n".join(parts) + "\n</svg>\n")


def spread(all_runs):
    """What the seeds reach, by form; a form's bits are compared with those of the same seed."""
    def told(values, digits):
        return f"{sum(values) / len(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"
    print(f"\n| form, {len(all_runs[0])} seeds | mean loss of the last 50 steps | loss on test | right on test, % | same bits |")
    print("|---|---:|---:|---:|---:|")
    for (name, _), runs in zip(FORMS, all_runs):
        same = sum(run[0] == exact[0] for run, exact in zip(runs, all_runs[0]))
        print(f"| {name} | {told([sum(run[0][-50:]) / 50 for run in runs], 4)} | {told([run[1] for run in runs], 4)} | "
              f"{told([run[2] for run in runs], 2)} | {same} |")


def main():
    tenure, model, folder, svg = sys.argv[1:5]
    steps = int(sys.argv[5]) if len(sys.argv) > 5 else 400
    os.makedirs(folder, exist_ok=True)
    seeds = range(1, 1 + int(sys.argv[6]) if len(sys.argv) > 6 else 2)
    all_runs = [[train(tenure, model, folder, name, codecs, steps, seed) for seed in seeds] for name, codecs in FORMS]
    runs = [of_form[0] for of_form in all_runs]
    print("| form | arena MiB | mean loss of the last 50 steps | farthest from exact | loss on test | right on test |")
    print("|---|---:|---:|---:|---:|---:|")
    for (name, _), (losses, loss, right, peak) in zip(FORMS, runs):
        far = max(abs(a - b) for a, b in zip(means(losses), means(runs[0][0])))
        same = "every bit of the log is the same" if losses == runs[0][0] else f"{far:.4f}"
        print(f"| {name} | {peak / 2**20:.1f} | {sum(losses[-50:]) / 50:.4f} | {same} | {loss:.4f} | {right:.2f} % |")
    if len(seeds) > 1:
        spread(all_runs)
    draw(svg, runs, steps)


main()
