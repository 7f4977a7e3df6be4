"""`tenure train` and `tenure run` against `tenure estimate --kernels onednn` (plain where there is no
oneDNN): arena, static memory and planned peak of training are those that were estimated, for models,
optimizers and switches; and with --budget a run of the largest batch that --max-batch names goes through,
the next does not: training, inference, arena and pools.

    estimate_runs.py TENURE EXAMPLES DATA
"""
import json
import pathlib
import random
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from count import case_count  # noqa: E402

tenure, examples, data = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
failed = 0


def npy(path, kind, shape, values):
    head = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {tuple(shape)!r}, }}".encode()
    head += b" " * (-(len(head) + 11) % 64) + b"\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + values)


def run(*command):
    done = subprocess.run([tenure, *map(str, command)], capture_output=True, text=True, timeout=1200)
    return done.returncode, done.stdout, done.stderr


def check(condition, *what):
    global failed
    if not condition:
        failed += 1
        print("FAILED:", *what)


def compare(model, samples, batch, switches):
    """One step of training, and what was estimated of it."""
    kernels = "plain" if "--plain" in switches or not onednn else "onednn"
    shared = [s for s in switches if s not in ("--plain", "--weights", "random:1")]
    status, out, err = run("train", model, "--data", samples, "--batch", batch, "--steps", 1, "--json", *switches, *([] if onednn else ["--plain"]))
    if status != 0:
        check(False, model.name, switches, err.strip())
        return None
    trained = json.loads(out)
    status, out, err = run("estimate", model, "--train", "--batch", batch, "--json", "--kernels", kernels, *shared)
    found = json.loads(out) if status == 0 else {}
    same = status == 0 and (trained["arena"], trained["weights"]) == (found["arena"], found["static"])
    check(same and trained["planned_peak"] == trained["measured_peak"] == found["arena"], model.name, batch, switches,
          {k: trained[k] for k in ("arena", "weights", "planned_peak", "measured_peak")}, {k: found.get(k) for k in ("arena", "static")}, err.strip())
    return found


def largest(model, budget, estimate, command):
    """--max-batch against runs of the plan as it is with that budget; command(batch) is a run."""
    kernels = "onednn" if onednn else "plain"
    status, out, err = run("estimate", model, "--kernels", kernels, "--device", budget, "--max-batch", "--json", *estimate)
    check(status in (0, 1), model.name, estimate, err.strip())
    most = json.loads(out)["max_batch"] if out else 0
    check(most > 1, model.name, estimate, f"largest batch {most}: the test shows nothing")
    for batch, expected in ((most, 0), (most + 1, 1)):
        status, out, err = run(*command(batch), "--budget", budget, "--pass", "none", *([] if onednn else ["--plain"]))
        check(status == expected, model.name, estimate, f"--max-batch {most}, but {batch} under {budget}: status {status}", err.strip())


folder = pathlib.Path(tempfile.mkdtemp())
onednn = run("estimate", examples / "mobilenet_v2.onnx", "--kernels", "onednn")[0] == 0
seed = 5
random.seed(seed)
pixels = b"".join(struct.pack("<f", random.random()) for _ in range(8 * 3 * 64 * 64))
images = {}
for name, shape, classes in (("mobile", (2, 3, 224, 224), 1000), ("fashion", (16, 1, 28, 28), 10)):
    count = 1
    for extent in shape:
        count *= extent
    x, y = folder / f"{name}_x.npy", folder / f"{name}_y.npy"
    npy(x, "<f4", shape, (pixels * (4 * count // len(pixels) + 1))[:4 * count])
    npy(y, "<i8", shape[:1], b"".join(struct.pack("<q", random.randrange(classes)) for _ in range(shape[0])))
    images[name] = f"{x},{y}"

fashion = data / "onnx" / "fashion_resnet.onnx"
if fashion.exists():
    ways = [(optimizer, switches) for optimizer in ("sgd", "momentum", "adam", "adamw")
            for switches in ([], ["--fuse-update"], ["--recompute-cheap"], ["--micro-batches", "2"], ["--freeze", "*1*"], ["--no-rewrite"],
                         ["--fuse-update", "--recompute-cheap"], ["--plain"], ["--threads", "2"], ["--order", "memory"], ["--fuse-concat"], ["--dtype", "bf16"], ["--recompute-work", "0.3"], ["--dtype", "f16", "--recompute-cheap"])]
    for optimizer, switches in random.sample(ways, case_count(len(ways), 8)):
        compare(fashion, images["fashion"], 4, ["--optimizer", optimizer, *switches])
    for optimizer in ("sgd", "adam"):
        largest(fashion, "3MiB", ["--train", "--optimizer", optimizer],
                lambda batch: ["train", fashion, "--data", images["fashion"], "--batch", batch, "--steps", 1, "--optimizer", optimizer])
    for pool in ([], ["--pool", "best-fit"], ["--pool", "caching"], ["--pool", "bfc"]):
        largest(fashion, "30MiB", pool, lambda batch: ["run", fashion, "--dim", f"N={batch}", *pool])
for switches in ([], ["--recompute-cheap", "--fuse-update"]):
    compare(examples / "mobilenet_v2.onnx", images["mobile"], 1, ["--weights", "random:1", "--optimizer", "adam", *switches])
# drop.onnx has dropouts, whose masks are kept or drawn again
subprocess.run([sys.executable, pathlib.Path(__file__).parent / "train_models.py", folder], check=True)
for switches in ([], ["--fuse-update"], ["--recompute-cheap"], ["--plain"], ["--micro-batches", "2"], ["--dtype", "bf16"]):
    found = [compare(folder / "drop.onnx", f"{folder}/x.npy,{folder}/y.npy", 8, [*switches, *bits]) for bits in ([], ["--dropout-bits"])]
    check(switches or found[0]["parts"] != found[1]["parts"], "--dropout-bits changes nothing: the test shows nothing")
print(f"seed {seed}, {'oneDNN' if onednn else 'plain'}: {failed} failed")
sys.exit(failed > 0)
