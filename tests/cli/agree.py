"""plan, estimate, run and verify mean one thing: for several models, options, numbers of threads and
instruction sets the arena that `tenure plan --kernels` plans, `tenure estimate --kernels` expects and
`tenure run` takes and measures is the same to the byte, and `tenure verify` takes the plan for whom it
was made, and no plan with a buffer put elsewhere. Each says for whom in its first lines. And where
scratch makes the peak of a network of wide windows, operators run in pieces, and the peak falls.

    agree.py TENURE MODELS DATA
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import train_models as onnx

tenure, examples, data = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
failed = 0


def run(*command, isa=None):
    where = dict(os.environ, ONEDNN_MAX_CPU_ISA=isa) if isa else None
    done = subprocess.run([tenure, *map(str, command)], capture_output=True, text=True, timeout=1200, env=where)
    return done.returncode, done.stdout, done.stderr.strip()


def check(condition, *what):
    global failed
    if not condition:
        failed += 1
        print("FAILED:", *what)


def answer(*command, isa=None):
    status, out, err = run(*command, "--json", isa=isa)
    check(status == 0, *command, err)
    return json.loads(out) if status == 0 else {}


def one_number(folder, model, library, threads, options, isa):
    """The four of them, on one model. Returns the arena."""
    what = (model.name, library, threads, options, isa)
    plan, csv = folder / "plan.json", folder / "plan.csv"
    kernels = f"{library}:{threads}"
    planned = answer("plan", model, "--kernels", kernels, "-o", plan, "-o", csv, *options, isa=isa)
    # where static memory is, is not for `estimate` to choose
    if "--static" not in options:
        expected = answer("estimate", model, "--kernels", kernels, *options, isa=isa)
        check(expected.get("arena") == planned.get("peak"), "estimate", what, expected.get("arena"), planned.get("peak"))
    plain = ["--plain"] if library == "plain" else []
    ran = answer("run", model, "--weights", "random:1", "--threads", threads, *plain, *options, isa=isa)
    check(ran.get("planned_peak") == planned.get("peak"), "run", what, ran.get("planned_peak"), planned.get("peak"))
    check(ran.get("measured_peak", 0) <= planned.get("peak", 0), "measured", what)
    check(planned.get("kernels") == ran.get("kernels") != None, "told", what, planned.get("kernels"), ran.get("kernels"))
    shared = [o for o in options if o not in ("--no-rewrite", "--fastest")]
    if "--order" in options:
        shared = []
    judged = answer("verify", model, "--plan", plan, *shared, isa=isa)
    check(judged.get("peak") == planned.get("peak") and judged.get("kernels") == planned.get("kernels"), "verify", what,
          judged.get("peak"), planned.get("peak"))
    return planned


def moved(folder, model):
    """A plan with one buffer over another one that lives meanwhile is no plan."""
    plan = folder / "moved.json"
    run("plan", model, "--kernels", "onednn" if onednn else "plain", "-o", plan)
    text = json.loads(plan.read_text())
    rows = [b for b in text["buffers"] if b["size"] > 0]
    pair = next(((a, b) for a in rows for b in rows if a is not b and a["offset"] != b["offset"]
                 and a["first"] < b["last_excl"] and b["first"] < a["last_excl"]), None)
    check(pair is not None, "no two buffers of", model.name, "live at once")
    if pair is None:
        return
    pair[0]["offset"] = pair[1]["offset"]
    plan.write_text(json.dumps(text))
    status, out, _ = run("verify", model, "--plan", plan)
    check(status == 1, model.name, "with a buffer moved onto another one is", out)


def words(model):
    """For whom, in the first lines."""
    library = "onednn" if onednn else "plain"
    for command in (["plan", model], ["estimate", model]):
        check("for" in (first := run(*command)[1][:400]) and "the graph alone" in first, *command, first)
        first = "\n".join(run(*command, "--kernels", library)[1].splitlines()[:3])
        check("this machine's kernels" in first, *command, first)
    first = run("run", model, "--weights", "random:1")[1].splitlines()[0]
    check("this machine's kernels" in first, "run", first)


def wide_windows(path):
    """A convolution of many channels whose taps lie far apart: im2col is what is left for it."""
    weights = [((i * 37) % 101 - 50) / 500 for i in range(24 * 96 * 9)]
    conv = onnx.node("Conv", "x,w", "y", dilations=[12, 12], pads=[12, 12, 12, 12], kernel_shape=[3, 3])
    pool = onnx.node("MaxPool", "y", "z", kernel_shape=[3, 3], strides=[2, 2])
    onnx.model(path, [conv, pool], [onnx.value("x", [1, 96, 33, 33])], [onnx.value("z", [1, 24, 16, 16])],
               [onnx.tensor("w", [24, 96, 3, 3], weights)])


def repeated(folder):
    """A view that repeats what it sees is listed with the bytes that it sees."""
    model, plan = folder / "repeated.onnx", folder / "repeated.json"
    aten = onnx.block(7, "aten")
    onnx.model(model, [onnx.node("relu.default", "x", "a") + aten, onnx.node("expand.default", "a", "b") + aten],
               [onnx.value("x", [8, 4, 1, 1])], [onnx.value("a", [8, 4, 1, 1]), onnx.value("b", [8, 4, 7, 7])], [])
    with open(model, "ab") as file:
        file.write(onnx.block(8, onnx.block(1, "aten") + onnx.number(2, 1)))
    status, out, err = run("plan", model, "-o", plan)
    check(status == 0, "plan", model, err)
    told = json.loads(plan.read_text()) if status == 0 else {"tensors": [], "buffers": []}
    sizes = {b["id"]: b["size"] for b in told["buffers"]}
    check(any(t["name"] == "b" and t["size"] == 128 for t in told["tensors"]), told["tensors"])
    check(all(t["size"] <= sizes[t["buffer"]] for t in told["tensors"]), told)


def single(folder):
    """[channels, height, width], of which the model makes a batch of one, is no batch of its channels."""
    image = folder / "image.onnx"
    onnx.model(image, [onnx.node("Unsqueeze", "x,axes", "u"), onnx.node("Conv", "u,w", "y", kernel_shape=[3, 3])],
               [onnx.value("x", [3, 16, 16])], [onnx.value("y", [1, 2, 14, 14])],
               [onnx.tensor("axes", [1], [0], onnx.INT64), onnx.tensor("w", [2, 3, 3, 3], [0.1] * 54)])
    check(answer("estimate", image).get("batch") == 0, "a batch of its channels")
    status, out, err = run("estimate", image, "--batch", 8)
    check(status == 2 and "one sample" in err, status, out, err)


def pieces(folder):
    model = folder / "wide.onnx"
    wide_windows(model)
    for isa in ("AVX2", "AVX512_CORE"):
        fast = one_number(folder, model, "onednn", 1, ["--fastest"], isa)
        less = one_number(folder, model, "onednn", 1, [], isa)
        check(less["peak"] <= fast["peak"] / (3 if isa == "AVX2" else 1), isa, fast["peak"], less["peak"])
        if fast["peak"] == less["peak"]:
            continue
        status, out, err = run("run", model, "--weights", "random:1", "--check", "naive", "--poison", isa=isa)
        check(status == 0 and "in pieces" in out.splitlines()[1] and "ms" in out.splitlines()[1], isa, out, err)
        print(f"{isa}: {fast['peak']} bytes with the fastest kernel, {less['peak']} in pieces")


onednn = run("plan", examples / "mobilenet_v2.onnx", "--kernels", "onednn")[0] == 0
models = [examples / "mobilenet_v2.onnx", examples / "five_operators.onnx", examples / "two_branches.onnx"]
models += [data / "onnx" / f"{name}.onnx" for name in ("dtln1", "fastestdet", "mnist8", "ultraface")]
models += [data / "onnx-weightless" / f"{name}.onnx" for name in ("efficientnet_b0", "googlenet", "resnet18")]
models = [m for m in models if m.exists()]
choices = [(), ("--no-rewrite",), ("--order", "memory"), ("--static", "arena"), ("--fastest",)]
with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    for at, model in enumerate(models):
        if onednn:
            one_number(folder, model, "onednn", 1 + at % 2, (), None)
            one_number(folder, model, "onednn", 1, choices[at % len(choices)], "AVX2")
        if model.stat().st_size < 100000 and at < 3:
            one_number(folder, model, "plain", 1, choices[(at + 3) % len(choices)], None)
    repeated(folder)
    single(folder)
    words(examples / "mobilenet_v2.onnx")
    moved(folder, examples / "mobilenet_v2.onnx")
    if onednn:
        pieces(folder)
print(f"{len(models)} models, {failed} failed")
sys.exit(failed > 0)
