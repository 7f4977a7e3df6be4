#!/usr/bin/python3
"""Runs networks in Tenure and in ONNX Runtime on the same inputs and weights; a table of errors.

    compare_ort.py TENURE FOLDER [--set quick|all] [--model NAME]... [--data DIR] [--markdown FILE]
                   [--file MODEL]... [--dim NAME=N]... [--input-shape NAME=1,3,..]...
                   [--value NAME=INTEGER]... [--range LOW,HIGH] [--run OPTION]...

TENURE is the command, FOLDER holds inputs, filled weights and the npm package onnxruntime-node
(installed there when it is nowhere). The networks are those of ../shared/data. Inputs are drawn at
random from a fixed seed, weights that were not shipped are made up (tools/fill-weights writes them
for ONNX Runtime, `tenure run --weights` makes its own). The error of an output is the largest
difference over the largest magnitude that ONNX Runtime gives; it must stay below 1e-4. The light
models are compared with the outputs that ship with them, too. --file names any other models, with
--dim and --input-shape for what they leave open; their integer inputs are 0 and 1 but where --value
says another, their floats normal, or uniform in --range: far from the range that a network was
trained for its rounding errors grow. --run hands an option to every
`tenure run` (--run=--poison).
Exit status: 0 all agree, 1 not all, 77 something is absent.
"""
import argparse
import json
import os
import subprocess
import sys
import time

try:
    import numpy
    import onnx
    from onnx import TensorProto, numpy_helper
except ImportError:
    print("SKIP: python3-onnx is not installed")
    sys.exit(77)

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGE = "onnxruntime-node@1.30.0"
LIMIT = 1e-4
SEED = 5
TYPES = {1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64",
         9: "bool", 11: "float64", 12: "uint32", 13: "uint64"}
LIGHT = ["bvlc_alexnet", "densenet121", "inception_v1", "inception_v2", "resnet50", "shufflenet",
         "squeezenet", "vgg19", "zfnet512"]


class Network:
    """A model, values of its symbols, what its integer inputs are below, fixed inputs."""

    def __init__(self, path, quick=True, dims=None, below=None, fixed=None, shapes=None):
        self.path, self.quick, self.dims, self.shapes = path, quick, dims or {}, shapes or {}
        self.below, self.fixed = below or {}, fixed or {}
        self.name = os.path.splitext(os.path.basename(path))[0]
        if self.name == "model":  # in a folder that names it
            self.name = os.path.basename(os.path.dirname(path))
        self.range = None
        self.light = path.startswith("onnx-light/")


NETWORKS = [Network("onnx-light/light_%s.onnx" % name, name not in ("vgg19", "bvlc_alexnet"))
            for name in LIGHT] + [
    Network("onnx/mnist8.onnx"),
    Network("onnx/fashion_resnet.onnx", dims={"N": 8}),
    Network("onnx/ultraface.onnx"),
    Network("onnx/fastestdet.onnx"),
    Network("onnx/dtln1.onnx"),
    Network("onnx/silero_16k_op15.onnx", dims={"batch": 2, "sequence": 512},
            fixed={"sr": numpy.array(16000, numpy.int64)}),
    Network("onnx-weightless/char_lstm_dyn.onnx", dims={"N": 2, "T": 32}, below={"input": 64}),
    Network("onnx-weightless/mobilenet_v2.onnx"),
    Network("onnx-weightless/resnet50.onnx", False),
    Network("onnx-weightless/densenet121.onnx", False),
    Network("onnx-weightless/vgg16.onnx", False),
    Network("onnx-weightless/unet64.onnx", False),
    Network("onnx-weightless/bert_base_t128.onnx", False,
            below={"input_ids": 30522, "token_type_ids": 2, "attention_mask": 2}),
    Network("onnx-weightless/gpt2_small_t128.onnx", False, below={"": 50257}),
    Network("onnx-weightless/vit_b_16.onnx", False),
    Network("onnx/mnist-external-data/mnist.onnx"),
    Network("onnx-weightless/alexnet.onnx", False),
    Network("onnx-weightless/resnet18.onnx", False),
    Network("onnx-weightless/resnet50_dynN.onnx", False, dims={"N": 3}),
    Network("onnx-weightless/efficientnet_b0.onnx", False),
    Network("onnx-weightless/googlenet.onnx", False),
    Network("onnx-weightless/inception_v3.onnx", False),
    Network("onnx-weightless/mobilenet_v3_small.onnx", False),
    Network("onnx-weightless/squeezenet1_1.onnx", False),
    Network("onnx-weightless/unet64_dyn.onnx", False, dims={"N": 1, "H": 96, "W": 160}),
    Network("onnx-weightless/bert_base_dyn.onnx", False, dims={"N": 2, "T": 19},
            below={"input_ids": 30522, "token_type_ids": 2, "attention_mask": 2}),
]


# --- inputs and weights ---

def draw(network, value, index):
    """An input's array: the light models' is known, the others' is drawn."""
    tensor = value.type.tensor_type
    dims = network.shapes.get(value.name) or [
        d.dim_value if d.HasField("dim_value") else network.dims[d.dim_param]
        for d in tensor.shape.dim]
    if value.name in network.fixed:
        return network.fixed[value.name]
    kind = TYPES[tensor.elem_type]
    count = int(numpy.prod(dims, dtype=numpy.int64))
    if network.light:  # as onnx's own runner makes it
        return (numpy.arange(count).reshape(dims) / count).astype(numpy.float32)
    random = numpy.random.default_rng([SEED, index])
    if kind.startswith("float") and network.range:
        return random.uniform(*network.range, dims).astype(kind)
    if kind.startswith("float"):
        return random.standard_normal(dims).astype(kind)
    below = network.below.get(value.name, network.below.get("", 2))
    return random.integers(0, below, dims).astype(kind)


def is_complete(model, folder):
    return all(os.path.exists(os.path.join(folder, e.value)) for t in model.graph.initializer
               if t.data_location == TensorProto.EXTERNAL
               for e in t.external_data if e.key == "location")


def prepare(network, arguments):
    """Inputs on disk, for both programs; the model that ONNX Runtime reads."""
    path = os.path.join(arguments.data, network.path)
    model = onnx.load(path, load_external_data=False)
    network.folder = os.path.join(arguments.folder, network.name)
    os.makedirs(network.folder, exist_ok=True)
    network.model = network.ort_model = path
    network.weights = []
    if not is_complete(model, os.path.dirname(path)):
        weights = os.path.join(arguments.folder, "weights")
        network.ort_model = os.path.join(weights, os.path.basename(path))
        network.weights = ["--weights", "random:%d" % SEED]
        if not os.path.exists(network.ort_model):
            tool = os.path.join(HERE, "..", "..", "tools", "fill-weights")
            subprocess.run([sys.executable, tool, path, weights, "--seed", str(SEED)], check=True)
    given = {t.name for t in model.graph.initializer}
    network.inputs = []
    for index, value in enumerate(i for i in model.graph.input if i.name not in given):
        array = draw(network, value, index)
        stem = os.path.join(network.folder, "input%d" % index)
        numpy.save(stem + ".npy", array)
        array.tofile(stem + ".bin")
        network.inputs.append((value.name, array, stem))


# --- the two programs ---

def file_name(name):
    """As `tenure run` names the file of an output."""
    return "".join(c if c.isascii() and (c.isalnum() or c == "-" or (c == "." and i)) else "_"
                   for i, c in enumerate(name.encode().decode("latin-1")))[:127]


def run_tenure(network, arguments):
    command = [arguments.tenure, "run", network.model, "--json", "--output-dir", network.folder]
    command += network.weights + arguments.run
    for name, value in network.dims.items():
        command += ["--dim", "%s=%d" % (name, value)]
    for name, shape in network.shapes.items():
        command += ["--input-shape", "%s=%s" % (name, ",".join(map(str, shape)))]
    for name, _, stem in network.inputs:
        command += ["--input", "%s=%s.npy" % (name, stem)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return None, done.stderr.strip().replace("\n", " ")[:300]
    report = json.loads(done.stdout)
    outputs = {o["name"]: numpy.load(os.path.join(network.folder, file_name(o["name"]) + ".npy"))
               for o in report["outputs"]}
    return outputs, report


def run_ort(networks, arguments):
    """{model: {output: array} or the error}"""
    manifest = {"modules": arguments.modules, "runs": [
        {"model": n.ort_model, "folder": n.folder, "inputs": [
            {"name": name, "type": str(array.dtype), "dims": list(array.shape),
             "file": stem + ".bin"} for name, array, stem in n.inputs]} for n in networks]}
    path = os.path.join(arguments.folder, "manifest.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(manifest, file)
    done = subprocess.run(["node", os.path.join(HERE, "ort_run.mjs"), path], capture_output=True,
                          text=True, check=False)
    results = {}
    for line in done.stdout.splitlines():
        entry = json.loads(line)
        folder = next(n.folder for n in networks if n.ort_model == entry["model"])
        if "error" in entry:
            results[entry["model"]] = entry["error"]
            continue
        results[entry["model"]] = {
            o["name"]: numpy.fromfile(os.path.join(folder, "%d.bin" % i), o["type"])
            .reshape(o["dims"]) for i, o in enumerate(entry["outputs"])}
    if len(results) != len(networks):
        sys.exit("ONNX Runtime stopped: %s" % done.stderr[-2000:])
    return results


def find_modules(arguments):
    """A folder whose node_modules have the package; installs it when there is none."""
    shared = os.path.join(HERE, "..", "..", "build", "ort")  # of the release build
    for folder in (os.environ.get("TENURE_ORT", ""), arguments.folder, shared):
        if folder and os.path.isdir(os.path.join(folder, "node_modules", "onnxruntime-node")):
            return folder
    try:
        subprocess.run(["npm", "install", "--ignore-scripts", "--no-save", "--no-package-lock",
                        "--prefix", arguments.folder, PACKAGE], check=True, capture_output=True,
                       timeout=1200)
    except (OSError, subprocess.SubprocessError) as error:
        print("SKIP: npm cannot install %s: %s" % (PACKAGE, str(error)[:200]))
        sys.exit(77)
    return arguments.folder


# --- the table ---

def error_of(value, expected):
    """The largest difference over the largest magnitude; integers must be equal."""
    if value.shape != expected.shape or value.dtype != expected.dtype:
        return float("inf")
    if value.dtype.kind != "f":
        return 0.0 if numpy.array_equal(value, expected) else float("inf")
    if not value.size:
        return 0.0
    wide, other = value.astype("f8"), expected.astype("f8")
    if not numpy.isfinite(other).all():
        return 0.0 if numpy.array_equal(value, expected, equal_nan=True) else float("inf")
    scale = numpy.abs(other).max()
    error = numpy.abs(wide - other).max() / (scale or 1.0)
    return float(error) if numpy.isfinite(error) else float("inf")


def shipped_error(network, outputs, arguments):
    path = os.path.join(arguments.data, "onnx-light", network.name + "_output_0.pb")
    tensor = TensorProto()
    with open(path, "rb") as file:
        tensor.ParseFromString(file.read())
    return error_of(next(iter(outputs.values())), numpy_helper.to_array(tensor))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("tenure")
    parser.add_argument("folder")
    parser.add_argument("--set", choices=("quick", "all"), default="quick")
    parser.add_argument("--model", action="append")
    parser.add_argument("--data", default=os.path.join(HERE, "..", "..", "..", "shared", "data"))
    parser.add_argument("--file", action="append", default=[])
    parser.add_argument("--dim", action="append", default=[])
    parser.add_argument("--input-shape", action="append", default=[])
    parser.add_argument("--value", action="append", default=[])
    parser.add_argument("--range", type=lambda text: tuple(map(float, text.split(","))))
    parser.add_argument("--markdown")
    parser.add_argument("--run", action="append", default=[])
    arguments = parser.parse_args()
    arguments.tenure, arguments.folder = map(os.path.abspath, (arguments.tenure, arguments.folder))
    arguments.data = os.path.realpath(arguments.data)
    if not os.path.isdir(arguments.data):
        print("SKIP: %s is absent" % arguments.data)
        sys.exit(77)
    dims = {d.rpartition("=")[0]: int(d.rpartition("=")[2]) for d in arguments.dim}
    fixed = {v.rpartition("=")[0]: numpy.array(int(v.rpartition("=")[2]), numpy.int64)
             for v in arguments.value}
    shapes = {s.rpartition("=")[0]: [int(n) for n in s.rpartition("=")[2].split(",")]
              for s in arguments.input_shape}
    files = [Network(os.path.abspath(path), dims=dims, fixed=fixed, shapes=shapes)
             for path in arguments.file]
    chosen = files or [n for n in NETWORKS if (n.name in arguments.model if arguments.model
                                               else n.quick or arguments.set == "all")]
    for network in files:
        network.range = arguments.range
    os.makedirs(arguments.folder, exist_ok=True)
    arguments.modules = find_modules(arguments)
    for network in chosen:
        prepare(network, arguments)
    begin = time.monotonic()
    expected = run_ort(chosen, arguments)
    print("ONNX Runtime: %.1f s" % (time.monotonic() - begin))
    head = ("network", "outputs", "error", "shipped", "planned peak", "measured peak")
    rows, failed = [], 0
    for network in chosen:
        outputs, report = run_tenure(network, arguments)
        reference = expected[network.ort_model]
        if outputs is None or isinstance(reference, str):
            rows.append((network.name, report if outputs is None else reference, "", "", "", ""))
            failed += 1
            continue
        error = max((error_of(outputs[name], array) for name, array in reference.items()),
                    default=float("inf"))
        error = error if set(outputs) == set(reference) else float("inf")
        shipped = shipped_error(network, outputs, arguments) if network.light else 0.0
        peaks = report.get("planned_peak", 0), report["measured_peak"]
        planned = peaks[0] == peaks[1] or "planned_peak" not in report
        failed += not (error <= LIMIT and shipped <= LIMIT and planned)
        rows.append((network.name, str(len(outputs)), "%.1e" % error,
                     "%.1e" % shipped if network.light else "", "%d" % peaks[0], "%d" % peaks[1]))
    lines = ["| " + " | ".join(row) + " |" for row in [head, ("---",) * len(head)] + rows]
    print("\n".join(lines))
    if arguments.markdown:
        with open(arguments.markdown, "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
    print("%d of %d agree within %g" % (len(chosen) - failed, len(chosen), LIMIT))
    sys.exit(1 if failed else 0)


main()
