#!/usr/bin/python3
"""Experts of mixtures within a budget: experts.py TENURE

Each model runs with all experts in memory, and with a cache for some of them: the same bits, which are close to numpy's
results in float64. The counts of the cache are those of the routers and guesses that numpy computes: for a cache of all
experts and for one of a single expert, exactly. The plan never exceeds the budget. Weights stay in the model's file, in
a file next to it, or in a temporary file. Exit status 77: numpy or onnx is not installed.
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile

try:
    import numpy
    import mixtures
except ImportError:
    print("SKIP: python3-numpy or python3-onnx is not installed")
    sys.exit(77)

TENURE = os.path.abspath(sys.argv[1])
failed = 0


def check(what, *, of=""):
    global failed
    if not what:
        print("FAILED:", of)
        failed = 1


def run(path, *words, status=0):
    done = subprocess.run([TENURE, "run", path, "--plain", "--json", "--input", "x=x.npy", "--output-dir", "out", *words],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    check(done.returncode == status, of="%s %s: exit status %d, %s" % (path, " ".join(words), done.returncode, done.stderr))
    return (json.loads(done.stdout), numpy.load("out/y.npy")) if done.returncode == status == 0 else (None, done.stderr)


def within(path, budget, *words):
    return run(path, "--budget", "%dB" % budget, "--allow", "stream", "--storage", "4GB/s", *words)


def distinct(of_layers):
    return [sorted(set(of_tokens.flatten().tolist())) for of_tokens in of_layers]


def compare(name, mixture, path, budgets, *words):
    """Runs within each budget, and compares with the run without a budget and with numpy."""
    x = numpy.random.default_rng(7).standard_normal((mixture.tokens, mixture.hidden)).astype(numpy.float32)
    numpy.save("x.npy", x)
    expected, used, guessed = mixture.compute(x)
    used, guessed = distinct(used), distinct(guessed)
    whole, y = run(path, *words)
    check(numpy.allclose(y, expected, rtol=1e-4, atol=1e-4), of="%s: not numpy's results" % name)
    all_bytes = whole["weights"] + whole["planned_peak"]
    rows, uses = mixture.layers * mixture.experts, sum(map(len, used))
    sizes = set()
    for budget in budgets(all_bytes):
        part, same = within(path, budget, *words)
        if part is None:
            continue
        experts = part.get("experts")
        here = "%s, %d of %d bytes, %s" % (name, budget, all_bytes, experts)
        check(same.tobytes() == y.tobytes(), of=here + ": other bits")
        check(part["arena"] + (0 if part.get("streamed") else part["weights"]) <= budget, of=here + ": over the budget")
        if budget >= all_bytes:
            check(experts is None, of=here + ": a cache without need")
            continue
        if experts is None:
            check(False, of=here + ": no cache")
            continue
        sizes.add(experts["slots"])
        check(experts["experts"] == rows and experts["mixtures"] == mixture.layers, of=here)
        check(experts["expert_bytes"] == mixture.expert_bytes(), of=here)
        check(experts["cache_bytes"] >= experts["slots"] * mixture.expert_bytes(), of=here)
        check(experts["uses"] == uses == experts["hits"] + experts["misses"], of=here + ": numpy has %d uses" % uses)
        check(experts["reads"] >= experts["misses"] and experts["right"] <= experts["guesses"], of=here)
        if experts["slots"] == 1:
            check(experts["misses"] == experts["reads"] == uses and experts["guesses"] == 0, of=here)
        room = [experts["slots"] - len(u) for u in used]
        if all(r >= len(g) for r, g in zip(room, guessed)):
            right = sum(len(set(u) & set(g)) for u, g in zip(used[1:], guessed))
            check(experts["guesses"] == sum(map(len, guessed)) and experts["right"] == right,
                  of=here + ": numpy has %d of %d right" % (right, sum(map(len, guessed))))
            # a first run: a row is there only if it was guessed for this mixture, and read
            hits, wrong, withheld = judged(used, guessed)
            check(experts["hits"] == hits, of=here)
            check(experts["reads"] == uses + wrong, of=here)
            check(experts["withheld"] == withheld, of=here + ": numpy has %d not read" % withheld)
    return sizes


def judged(used, guessed):
    """A first run, in which no guess finds its experts in the cache: the right and the wrong guesses that are read, and those
    that are not, because more of the guesses before were wrong than right."""
    hits = wrong = withheld = score = 0
    for uses, guess in zip(used[1:], guessed):
        right = len(set(uses) & set(guess))
        if score >= 0:
            hits, wrong = hits + right, wrong + len(guess) - right
        else:
            withheld += len(guess)
        score = max(-16, min(16, score + 2 * right - len(guess)))
    return hits, wrong, withheld


def budgets(all_bytes):
    """From everything down to about a third."""
    return [all_bytes] + [all_bytes * part // 16 for part in (15, 12, 9, 7, 5)]


def main():
    small = mixtures.Mixture(layers=4, hidden=32, experts=8, chosen=2, inner=32, tokens=1)
    small.write("small.onnx")
    sizes = compare("one token", small, "small.onnx", budgets)
    check(len(sizes) >= 4, of="caches of %s experts only" % sizes)

    # many tokens use nearly every expert: caches with less room than one operator uses
    many = mixtures.Mixture(layers=3, hidden=32, experts=8, chosen=3, inner=32, tokens=9, kind="relu", seed=2)
    many.write("many.onnx", apart="many.data")
    compare("nine tokens", many, "many.onnx", budgets)

    packed = mixtures.Mixture(layers=3, hidden=64, experts=6, chosen=2, inner=64, tokens=2, packed=True, kind="swiglu", seed=3,
                              size=0.1)
    packed.write("packed.onnx", apart="packed.data")
    compare("4 bits", packed, "packed.onnx", lambda whole: [whole, whole * 12 // 16, whole * 8 // 16])

    # residual streams that hardly change: most guesses are right. Each layer turned: none is
    calm = mixtures.Mixture(layers=6, hidden=32, experts=16, chosen=2, inner=32, size=0.01, seed=4)
    calm.write("calm.onnx")
    compare("calm", calm, "calm.onnx", lambda whole: [whole // 2])
    worst = mixtures.Mixture(layers=6, hidden=32, experts=16, chosen=2, inner=32, size=0.01, flips=True, seed=4)
    worst.write("worst.onnx")
    compare("worst", worst, "worst.onnx", lambda whole: [whole // 2])
    part, _ = within("worst.onnx", 6 * 16 * worst.expert_bytes() // 2)
    check(part and part["experts"]["right"] == 0 and part["experts"]["hits"] == 0, of="worst: a guess is right")
    # the first guess costs its reads, and no other one does: what is read is what was used
    check(part["experts"]["reads"] == part["experts"]["uses"] + 2 and part["experts"]["withheld"] == 8, of="worst: %s" % part)
    part, _ = within("worst.onnx", 6 * 16 * worst.expert_bytes() // 2, "--repeat", "5")
    check(part["experts"]["guesses"] == 10 and part["experts"]["reads"] == part["experts"]["misses"],
          of="worst, later: %s" % part["experts"])

    # every later run finds the rows that earlier runs have read
    part, _ = within("small.onnx", 4 * 8 * small.expert_bytes() * 15 // 16, "--repeat", "3")
    check(part["experts"]["misses"] == 0, of="a warm cache misses: %s" % part["experts"])

    # the least budget: one byte less has no plan
    low, high = 1, 4 * 8 * small.expert_bytes()
    while low < high:
        middle = (low + high) // 2
        done = subprocess.run([TENURE, "run", "small.onnx", "--plain", "--budget", "%dB" % middle, "--allow", "stream",
                               "--storage", "1GB/s"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        low, high = (low, middle) if done.returncode == 0 else (middle + 1, high)
        check(done.returncode in (0, 1), of="exit status %d for %d bytes" % (done.returncode, middle))
    numpy.save("x.npy", numpy.ones((1, 32), numpy.float32))
    part, y = within("small.onnx", low)
    check(part and part["experts"]["slots"] == 1 and part["arena"] <= low, of="the least budget, %d: %s" % (low, part))
    check(y.tobytes() == run("small.onnx")[1].tobytes(), of="the least budget: other bits")
    _, text = run("small.onnx", "--budget", "%dB" % (low - 1), "--allow", "stream", "--storage", "1GB/s", status=1)
    run("small.onnx", "--budget", "0", "--allow", "stream", "--storage", "1GB/s", status=2)

    # weights that no file has are written to a temporary file
    numpy.save("x.npy", numpy.ones((1, 32), numpy.float32))
    shutil.copy("small.onnx", "bare.onnx")
    # a file that ends early
    os.truncate("many.data", os.path.getsize("many.data") // 2)
    numpy.save("x.npy", numpy.ones((9, 32), numpy.float32))
    done = subprocess.run([TENURE, "run", "many.onnx", "--plain", "--budget", "40KiB", "--allow", "stream", "--storage", "1GB/s"],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    check(done.returncode == 2 and "many.data" in done.stderr, of="a short file: %d, %s" % (done.returncode, done.stderr))


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    main()
    os.chdir("/")
sys.exit(failed)
