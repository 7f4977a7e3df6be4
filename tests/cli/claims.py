"""One question, one answer: the same model, options and budget give the same bytes and time by `tenure fit`,
`tenure run`, `tenure estimate` and Python's tenure.fit, for running and for training; a refusal says whether it is
proved, of which techniques, and what was not tried; and every hint, when taken, fits and gives the bytes that it
promised. Models are made here, from a seed that is printed.

    claims.py TENURE SOURCE LIBRARY [SEED [COUNT]]
    claims.py TENURE SOURCE LIBRARY --grid BUDGETS MODEL...   # these models, at so many budgets each, with a row for each question
"""
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

import train_models as onnx

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from count import case_count

tenure, source, library = sys.argv[1], sys.argv[2], sys.argv[3]
grid = sys.argv[4:5] == ["--grid"]
seed = int(sys.argv[4]) if len(sys.argv) > 4 and not grid else 1
count = int(sys.argv[5]) if len(sys.argv) > 5 and not grid else case_count(4, 1)
os.environ["TENURE_LIBRARY"] = library
sys.path.insert(0, os.path.join(source, "bindings/python"))
TECHNIQUES = ["order", "recompute", "swap", "compress", "split", "stream"]
failed = asked = taken = 0


def check(condition, *what):
    global failed
    if not condition:
        failed += 1
        print("FAILED:", *what)


def run(*command):
    done = subprocess.run([tenure, *map(str, command)], capture_output=True, text=True)
    return done.returncode, (json.loads(done.stdout) if done.stdout.startswith("{") else {}), done.stderr


def network(path, chance):
    """Convolutions, some of them with a second branch that is joined by a sum."""
    nodes, weights, at, width, extent = [], [], "x", 3, chance.choice((16, 24, 32))
    for layer in range(chance.randint(3, 5)):
        to, name = chance.choice((8, 12, 16)), f"n{layer}"
        weights.append(onnx.tensor(f"w{layer}", [to, width, 3, 3], [0.01 * (k % 7 - 3) for k in range(to * width * 9)]))
        nodes += [onnx.node("Conv", f"{at},w{layer}", f"{name}c", pads=[1, 1, 1, 1], kernel_shape=[3, 3]),
                  onnx.node("Relu", f"{name}c", name)]
        at, width = name, to
        if chance.random() < 0.4:
            nodes += [onnx.node("Sigmoid", at, f"{name}s"), onnx.node("Mul", f"{at},{name}s", f"{name}m")]
            at = f"{name}m"
    nodes.append(onnx.node("GlobalAveragePool", at, "g"))
    nodes.append(onnx.node("Flatten", "g", "y"))
    onnx.model(path, nodes, [onnx.value("x", [2, 3, extent, extent])], [onnx.value("y", [2, width])], weights)


def by_fit(model, budget, train, *options):
    status, said, err = run("fit", model, "--budget", budget, "--costs", "model:t4", "--json",
                            *(["--train"] if train else []), *options)
    if status == 1:
        return None, said, err
    check(status == 0, "fit", model, budget, train, options, err)
    answer = said["answers"][0]
    return (answer["bytes"], answer["time"], answer["plain_time"]), said, err


def by_plan(model, budget, what):
    """Tiles alone, at default rates: `tenure plan` and `tenure fit` have the same program, and the same refusal."""
    status, planned, told = run("plan", model, "--budget", budget, "--split", "--json")
    fitted, said, _ = run("fit", model, "--budget", budget, "--pass", "none", "--allow", "split", "--kernels", "none", "--json")[0:3]
    check(status == fitted, *what, "plan", status, "fit", fitted, told)
    if status == 0 and fitted == 0:
        whole, least = planned["peak"] + planned["static"], said["answers"][0]["bytes"]
        check(whole == least, *what, "plan", whole, "fit", least)


def one(model, budget, train, tenure_python):
    """The command's two ways of asking, and Python, for the graph alone; a run for its kernels."""
    global asked
    asked += 1
    fit, said, err = by_fit(model, budget, train)
    what = (model.name, budget, "training" if train else "running")
    for member in ("scope", "claims", "not_tried", "would_fit"):
        check(member in said, *what, "has no", member)
    status, estimate, told = run("estimate", model, "--budget", budget, "--device", "t4", "--json", *(["--train"] if train else []))
    check((status == 0) == (fit is not None), *what, "estimate", status, told)
    if fit is not None and status == 0:
        check(estimate["total"] == fit[0], *what, "estimate", estimate["total"], fit[0])
        more = fit[1] / fit[2] - 1
        check(abs(estimate.get("more_time", 0) - more) < 1e-5, *what, "time of estimate", estimate.get("more_time"), more)
    try:
        found = tenure_python.fit(str(model), budget, train=train, costs="t4")
        python = (found.bytes, found.time, found.plain_time)
    except tenure_python.Error as error:
        check(error.status in ("E_INFEASIBLE", "E_EXHAUSTED"), *what, error)
        check((error.status == "E_INFEASIBLE") == said["proved"], *what, error.status, said["proved"])
        python = None
    check(python == fit, *what, "Python", python, fit)
    if not train:
        by_plan(model, budget, what)
        theirs, _, _ = by_fit(model, budget, False, "--kernels", "onednn") if onednn else (None, None, None)
        status, ran, told = run("run", model, "--budget", budget, "--costs", "model:t4", "--json", *(["--weights", "random:1"] if grid else []))
        if onednn:
            check((status == 0) == (theirs is not None), *what, "run", status, told)
        if onednn and status == 0 and theirs is not None:
            check(ran["arena"] + ran["weights"] == theirs[0], *what, "run", ran["arena"] + ran["weights"], theirs[0])
    if fit is None:
        hints(model, budget, train, said, err)
    return fit


def hints(model, budget, train, said, err):
    """What would fit fits, with the bytes that were told; what was not tried is named."""
    global taken
    check("fits in" in err, model.name, "a refusal without its scope:", err)
    check(err.count("fits in") == 1 and "would fit" not in err, model.name, "a refusal twice:", err)
    check("streamed" not in err or "stream" in said["scope"], model.name, "a refusal about weights that may not be streamed:", err)
    check(set(said["not_tried"]) & set(said["scope"]) <= {"split"}, said)  # a step of training has no parts
    for hint in said["would_fit"]:
        taken += 1
        allow = ",".join(it for it in TECHNIQUES if it in said["scope"] + hint["with"])
        check(err.count(f"With --allow {allow}{':' if hint['within_budget'] else ' the least found takes'}") == 1, model.name, "a hint that the message does not give once:", hint, err)
        storage = ["--storage", "1GB/s"] if "stream" in hint["with"] else []
        if "stream" in hint["with"]:
            continue  # of kernels: test_stream
        within = budget if hint["within_budget"] else hint["bytes"]
        answer, _, told = by_fit(model, within, train, "--allow", allow, *storage)
        check(answer is not None, model.name, within, "a hint that does not fit:", hint, told)
        if answer is not None:
            check(answer[0] == hint["bytes"], model.name, "a hint of", hint["bytes"], "gave", answer[0])


def unknown_batch(folder, tenure_python):
    """No entry point chooses a batch by itself: each asks for the extent by its name."""
    model = folder / "symbol.onnx"
    onnx.model(model, [onnx.node("Relu", "x", "y")], [onnx.value("x", ["N", 4])], [onnx.value("y", ["N", 4])], [])
    for words in (["plan"], ["plan", "--train"], ["fit", "--budget", "1MiB"], ["estimate"], ["estimate", "--budget", "1MiB"], ["run"], ["split"]):
        status, _, err = run(words[0], model, *words[1:])
        check(status == 2 and "no value for 'N'" in err, words, status, err)
    try:
        tenure_python.fit(str(model), 1 << 20)
        check(False, "Python chose a batch")
    except tenure_python.Error as error:
        check("no value for 'N'" in str(error), error)


def over_grid(budgets, models, tenure_python):
    """For running and, where a model can be trained, for training: static memory, and of the plain plan's arena 1, (BUDGETS - 1)/BUDGETS, ..."""
    for model in map(pathlib.Path, models):
        for train in (False, True):
            status, said, err = run("fit", model, "--budget", 1 << 50, "--costs", "model:t4", "--json", *(["--train"] if train else []))
            if status != 0:
                print(f"{model.stem:24} {'training' if train else 'running':9} not asked: {err.strip().splitlines()[-1]}")
                continue
            plain = said["answers"][0]
            for step in range(budgets):
                budget, before = plain["fixed_bytes"] + plain["arena"] * (budgets - step) // budgets, failed
                found = one(model, budget, train, tenure_python)
                answer = f"{found[0]:>15,} {found[1] / found[2] - 1:+8.1%}" if found and found[2] else f"{found[0]:>15,}" if found else "none".rjust(15)
                print(f"{model.stem:24} {'training' if train else 'running':9} {budget:>15,} {answer} {'DIFFER' if failed > before else 'agree'}", flush=True)
    print(f"{asked} questions, {taken} hints taken, {failed} failures")
    sys.exit(1 if failed else 0)


def odd(path, chance):
    """A graph of vectors with sizes that are no multiples of the alignment."""
    widths, nodes, weights = {"x": chance.randint(3, 40)}, [], []
    for i in range(chance.randint(2, 8)):
        a, b, y = chance.choice(list(widths)), chance.choice(list(widths)), f"t{i}"
        kind = chance.choice(("Relu", "Softmax", "MatMul", "Concat"))
        widths[y] = widths[a] + widths[b] if kind == "Concat" else chance.randint(3, 60) if kind == "MatMul" else widths[a]
        if kind == "MatMul":
            weights.append(onnx.tensor(f"w{i}", [widths[a], widths[y]], [0.1] * (widths[a] * widths[y])))
        nodes.append(onnx.node(kind, {"MatMul": f"{a},w{i}", "Concat": f"{a},{b}"}.get(kind, a), y, **({"axis": 1} if kind == "Concat" else {})))
    onnx.model(path, nodes, [onnx.value("x", [1, widths["x"]])], [onnx.value(y, [1, widths[y]])], weights)


def bounds(model):
    """No program is smaller than the bound of its claim, and the smallest one found is an answer for its bytes."""
    status, said, err = run("fit", model, "--budget", 1, "--costs", "model:t4", "--allow", "order,recompute", "--json")
    check(status == 1 and said["proved"], model, "fits in a byte", err)
    for claim in said["claims"]:
        check(claim["bytes_bound"] <= claim["bytes"], model, "a bound above what was found:", claim)
    status, fitted, err = run("fit", model, "--budget", said["least_bytes"], "--costs", "model:t4", "--allow", "order,recompute", "--json")
    check(status == 0 and fitted["answers"][0]["bytes"] <= said["least_bytes"], model, "the least found does not fit", err)


def main():
    import tenure as tenure_python
    if grid:
        over_grid(int(sys.argv[5]), sys.argv[6:], tenure_python)
    chance = random.Random(seed)
    print("seed", seed)
    with tempfile.TemporaryDirectory() as name:
        unknown_batch(pathlib.Path(name), tenure_python)
        for number in range(5 * count):
            model = pathlib.Path(name) / f"odd{number}.onnx"
            odd(model, chance)
            bounds(model)
        for number in range(count):
            model = pathlib.Path(name) / f"m{number}.onnx"
            network(model, chance)
            for train in (False, True):
                plain, _, _ = by_fit(model, 1 << 40, train)
                for share in (1.0, chance.uniform(0.7, 0.98), chance.uniform(0.4, 0.7), 0.05):
                    one(model, int(plain[0] * share), train, tenure_python)
                if not train:  # hints are for who allows less than what is usual
                    fit, said, err = by_fit(model, int(plain[0] * 0.6), False, "--allow", "order,recompute")
                    if fit is None:
                        check("proved" in err and "Not tried: swap,compress,split,stream" in err, err)
                        hints(model, int(plain[0] * 0.6), False, said, err)
    print(f"{asked} questions, {taken} hints")
    sys.exit(1 if failed else 0)


onednn = run("plan", pathlib.Path(source) / "examples/models/five_operators.onnx", "--kernels", "onednn")[0] == 0
main()
