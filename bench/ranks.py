#!/usr/bin/python3
"""How far training on several ranks is from one process: models x divisions.

    /usr/bin/python3 bench/ranks.py BUILD [MODEL,MODEL ...] [--steps 20] [--batch 4] [--lr 1e-3] [--divisions "tensor=2;data=2 --shard optimizer"]

MODEL is one of training_torch.py (resnet18, unet, gpt-tiny), which exports it. Each division trains by momentum from the
same weights on the same samples, ranks as threads, and prints the largest relative difference of a loss, and that of an element
of a parameter in the end as a share of its parameter's largest, to one process that takes the whole batch; where batches are
normalised by their own statistics (resnet18), which is another function of their parts, to one that takes the ranks' parts one
after the other (--micro-batches). A pipeline, whose stages run some operators as they were given, is compared to one process
with as many micro-batches, and to one with --no-rewrite besides: the nearer one is told. The first row is one process whose
operators are not fused: how far another order of roundings alone takes it. Beside them the arena of a rank (planned =
measured, or it fails), what stays beside it, how much of the parameters is cut, and how often and how many MiB a rank sends
in a step, checkpoints with it. What cannot be divided so says why. Needs python3-torch and python3-torchvision.
"""
import csv
import json
import os
import struct
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ALONE = "one process, not fused"
DIVISIONS = [ALONE, "tensor=2", "tensor=4", "tensor=2 --sequence-parallel", "tensor=4 --sequence-parallel", "data=2", "data=4",
             "data=2,tensor=2", "pipeline=2 --micro-batches 4", "pipeline=4 --micro-batches 4", "pipeline=2,interleave=2 --micro-batches 4",
             "tensor=2,pipeline=2 --micro-batches 4", "data=2,tensor=2,pipeline=2 --micro-batches 4", *(f"data={n} --shard {what}" for n in (2, 4) for what in ("optimizer", "gradients", "parameters"))]


def exported(model, folder, batch):
    """The network for so many samples, and data for it."""
    path = f"{folder}/{batch}"
    if not os.path.isdir(path):
        os.mkdir(path)
        subprocess.run(["/usr/bin/python3", f"{HERE}/training_torch.py", model, path, str(batch), "1", "0"], check=True,
                       stderr=subprocess.DEVNULL)
    return f"{path}/{model}.onnx"


def make_data(model, folder):
    import numpy
    generator = numpy.random.default_rng(1)
    if model.startswith("gpt"):
        with open(f"{folder}/text", "wb") as file:
            file.write(generator.integers(0, 256, 1 << 16, dtype=numpy.uint8).tobytes())
        return f"text:{folder}/text"
    side, labels = (128, (64, 128, 128)) if model == "unet" else (224, (64,))
    numpy.save(f"{folder}/x.npy", generator.random((64, 3, side, side), dtype=numpy.float32))
    numpy.save(f"{folder}/y.npy", generator.integers(0, 2 if model == "unet" else 1000, labels))
    return f"{folder}/x.npy,{folder}/y.npy"


def losses(path):
    with open(path, encoding="ascii") as file:
        return [float(row["loss"]) for row in csv.DictReader(file)]


def entry(file):
    """Of a tensor in a checkpoint its name, its role (0: parameter) and how many bytes it has."""
    name = file.read(struct.unpack("<I", file.read(4))[0] + 1)[:-1].decode()
    role, _, rank = struct.unpack("<III", file.read(12))
    file.seek(8 * rank, os.SEEK_CUR)
    return name, role, struct.unpack("<Q", file.read(8))[0]


HEAD = 8 + 4 + 4 + 56 + 8  # of a checkpoint: magic, version, count, what the run is, hash


def parameters(path):
    """{name: values} of a checkpoint, from its parts where ranks have written some."""
    import numpy
    with open(path, "rb") as file:
        head = file.read(HEAD)
        count, = struct.unpack_from("<I", head, 12)
        if head[:8] == b"TENURECK":
            found = {}
            for _ in range(count):
                name, role, size = entry(file)
                content = file.read(size)
                if role == 0:
                    found[name] = numpy.frombuffer(content, numpy.float32)
            return found
        names = []
        for _ in range(count):
            names.append(file.read(struct.unpack("<I", file.read(4))[0] + 1)[:-1].decode())
            file.seek(16, os.SEEK_CUR)
    found = {}
    for part in names:
        with open(os.path.join(os.path.dirname(path), part), "rb") as file:
            count, = struct.unpack_from("<I", file.read(HEAD), 12)
            for _ in range(count):
                file.seek(4, os.SEEK_CUR)
                name, role, size = entry(file)
                begin, length = struct.unpack("<QQ", file.read(16))
                content = file.read(length)
                if role == 0:
                    found.setdefault(name, numpy.zeros(size // 4, numpy.float32))[begin // 4:(begin + length) // 4] = numpy.frombuffer(content, numpy.float32)
    return found


def drifted(a, b):
    """The largest difference of an element, as a share of the largest of its parameter."""
    import numpy
    if a.keys() != b.keys():
        return float("inf")
    return max(float(numpy.max(numpy.abs(a[name] - b[name])) / max(numpy.max(numpy.abs(a[name])), 1e-30)) for name in a)


def apart(one, other):
    """Of losses, and of parameters."""
    a, b = one[0], other[0]
    far = max(abs(x - y) / abs(x) for x, y in zip(a, b)) if len(a) == len(b) else float("inf")
    return f"{far:.1e} | {drifted(one[1], other[1]):.1e}"


class Trained:
    def __init__(self, build, folder, data, steps, rate):
        self.rate = rate
        self.tenure, self.folder, self.data, self.steps, self.known = f"{build}/tenure", folder, data, steps, {}
        self.weights, self.left = f"{folder}/weights.ck", f"{folder}/left.ck"

    def begin(self, model):
        """The weights that all begin with: a step that changes none."""
        subprocess.run([self.tenure, "train", model, "--data", self.data, "--steps", "1", "--lr", "0", "--optimizer", "sgd",
                        "--checkpoint", self.weights], check=True, stdout=subprocess.DEVNULL)

    def run(self, model, options):
        log = f"{self.folder}/log.csv"
        done = subprocess.run([self.tenure, "train", model, "--data", self.data, "--weights", self.weights, "--steps", str(self.steps),
                               "--optimizer", "momentum", "--lr", self.rate, "--log", log, "--checkpoint", self.left, "--json", *options],
                              capture_output=True, text=True, check=False)
        if done.returncode != 0:
            return None, done.stderr.strip().splitlines()[-1]
        return (losses(log), parameters(self.left)), json.loads(done.stdout)

    def alone(self, model, options):
        key = (model, *options)
        if key not in self.known:
            self.known[key], told = self.run(model, options)
            if self.known[key] is None:
                sys.exit(f"{model}: {told}")
        return self.known[key]


def row(trained, model, folder, batch, division):
    if division == ALONE:
        got, told = trained.run(exported(model, folder, batch), ["--no-rewrite"])
        mib = f"{told['measured_peak'] / 2 ** 20:.1f} | {told['weights'] / 2 ** 20:.1f}"
        fused = trained.alone(exported(model, folder, batch), ["--micro-batches", "1"])
        return f"| {model} | {division} | {apart(fused, got)} | {mib} | | | |"
    words = division.split()
    parts = next((int(w[5:]) for w in words[0].split(",") if w.startswith("data=")), 1)
    whole, part = exported(model, folder, batch), exported(model, folder, batch // parts)
    got, told = trained.run(part, ["--parallel", *words, "--ranks-as-threads"])
    if got is None:
        return f"| {model} | {division} | {told} |"
    if any(r["measured_peak"] != r["planned_peak"] for r in told["ranks"]):
        sys.exit(f"{model}, {division}: {told}")
    rounds = int(words[words.index("--micro-batches") + 1]) if "--micro-batches" in words else 1
    apart_by = parts if model.startswith("resnet") else 1
    alone = ["--micro-batches", str(rounds * apart_by)]
    forms = [[], ["--no-rewrite"]] if "pipeline" in words[0] else [[]]
    far = min((apart(trained.alone(part if apart_by > 1 else whole, alone + form), got) for form in forms), key=lambda text: float(text.split()[0]))
    cut, ranks = told.get("cut"), told["ranks"]
    share = f"{100 * cut['cut_bytes'] / cut['parameter_bytes']:.1f} %" if cut else ""
    mib = [f"{max(r[what] for r in ranks) / 2 ** 20:.1f}" for what in ("measured_peak", "weights")]
    sent = [f"{ranks[0]['step_messages'] / trained.steps:.0f}", f"{ranks[0]['step_bytes'] / trained.steps / 2 ** 20:.2f}"]
    return " | ".join([f"| {model}", division, far, *mib, share, *sent]) + " |"


def main():
    words, options = sys.argv[1:], {"--steps": "20", "--batch": "4", "--lr": "1e-3", "--divisions": ";".join(DIVISIONS)}
    for name in options:
        if name in words:
            options[name] = words[words.index(name) + 1]
            del words[words.index(name):words.index(name) + 2]
    models = words[1].split(",") if len(words) > 1 else ["resnet18", "unet", "gpt-tiny"]
    batch = int(options["--batch"])
    print("| model | division | losses | parameters | arena MiB | stays MiB | cut | messages a step | MiB a step |\n|---|---|---|---|---|---|---|---|---|")
    for model in models:
        with tempfile.TemporaryDirectory() as folder:
            trained = Trained(words[0], folder, make_data(model, folder), int(options["--steps"]), options["--lr"])
            trained.begin(exported(model, folder, batch))
            for division in options["--divisions"].split(";"):
                print(row(trained, model, folder, batch, division), flush=True)


main()
