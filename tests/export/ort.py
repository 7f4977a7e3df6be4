#!/usr/bin/python3
"""Models in parts in ONNX Runtime: the same outputs as the whole, in less memory.

    ort.py TENURE FOLDER [MODEL...]

A network made here (two branches of convolutions, pools, a residual, a concatenation; weights inside) and those MODELs
that are there are split by TENURE; ONNX Runtime runs each before and after, in a process of its own. Outputs agree
within 1e-5 of the largest (its kernels may sum otherwise where extents differ), and of the network made here the
process's largest resident size falls by a third of what the plan promises at least: an activation there is 16 MiB.
FOLDER is compare_ort.py's, with the npm package.
Exit status: 0 all right, 1 not, 77 something is absent.
"""
import json
import os
import subprocess
import sys
import tempfile

try:
    import numpy
    import onnx
    from onnx import TensorProto, helper, numpy_helper
except ImportError:
    print("SKIP: python3-onnx is not installed")
    sys.exit(77)

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGE = "onnxruntime-node@1.30.0"
SIZE = 512
RUN = os.path.join(HERE, "..", "engine", "ort_run.mjs")


def find_modules(folder):
    for at in (os.environ.get("TENURE_ORT", ""), folder):
        if at and os.path.isdir(os.path.join(at, "node_modules", "onnxruntime-node")):
            return at
    os.makedirs(folder, exist_ok=True)
    try:
        subprocess.run(["npm", "install", "--ignore-scripts", "--no-save", "--no-package-lock", "--prefix", folder,
                        PACKAGE], check=True, capture_output=True, timeout=1200)
    except (OSError, subprocess.SubprocessError) as error:
        print("SKIP: npm cannot install %s: %s" % (PACKAGE, str(error)[:200]))
        sys.exit(77)
    return folder


def make(path):
    random = numpy.random.default_rng(3)
    nodes, weights = [], []

    def conv(name, source, inputs, outputs, stride=1, group=1):
        shape = (outputs, inputs // group, 3, 3)
        array = (random.standard_normal(shape) / (3 * (inputs // group) ** 0.5)).astype("f4")
        weights.append(numpy_helper.from_array(array, name + "_w"))
        nodes.append(helper.make_node("Conv", [source, name + "_w"], [name], name, auto_pad="SAME_UPPER",
                                      strides=[stride, stride], group=group))
        return name

    def other(kind, name, *sources, **attributes):
        nodes.append(helper.make_node(kind, list(sources), [name], name, **attributes))
        return name

    first = other("Relu", "r1", conv("c1", "image", 3, 16))
    second = other("Relu", "r2", conv("c2", first, 16, 16, group=16))
    added = other("Add", "add", first, second)
    left = other("MaxPool", "pool", added, kernel_shape=[3, 3], strides=[4, 4], auto_pad="SAME_LOWER")
    right = conv("c3", added, 16, 8, stride=4)
    joined = other("Concat", "join", left, right, axis=1)
    other("GlobalAveragePool", "y", conv("c4", joined, 24, 24))
    graph = helper.make_graph(nodes, "net", [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, SIZE, SIZE])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 24, 1, 1])], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)


def draw(path, folder):
    """Inputs of a model as ort_run.mjs reads them."""
    model = onnx.load(path, load_external_data=False)
    given = {t.name for t in model.graph.initializer}
    random, inputs = numpy.random.default_rng(5), []
    for value in model.graph.input:
        if value.name in given:
            continue
        dims = [d.dim_value for d in value.type.tensor_type.shape.dim]
        file = os.path.join(folder, "in%d.bin" % len(inputs))
        random.standard_normal(dims).astype("f4").tofile(file)
        inputs.append({"name": value.name, "type": "float32", "dims": dims, "file": file})
    return inputs


def run(model, inputs, modules, folder):
    """Outputs, and the process's largest resident bytes."""
    with open(os.path.join(folder, "manifest.json"), "w", encoding="utf-8") as file:
        json.dump({"modules": modules, "runs": [{"model": model, "inputs": inputs, "folder": folder}]}, file)
    process = subprocess.Popen(["node", RUN, file.name], stdout=subprocess.PIPE)
    told = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    report = json.loads(told)
    if "error" in report:
        sys.exit("FAILED: ONNX Runtime refuses %s: %s" % (model, report["error"]))
    arrays = [numpy.fromfile(os.path.join(folder, "%d.bin" % i), o["type"])
              for i, o in enumerate(report["outputs"])]
    return [o["name"] for o in report["outputs"]], arrays, usage.ru_maxrss * 1024


def apart(one, two):
    if one[0] != two[0]:
        return float("inf")
    return max(float(numpy.abs(a.astype("f8") - b).max() / (numpy.abs(a).max() or 1)) if a.size == b.size else float("inf")
               for a, b in zip(one[1], two[1]))


def main():
    tenure, modules = os.path.abspath(sys.argv[1]), find_modules(os.path.abspath(sys.argv[2]))
    bad = 0
    with tempfile.TemporaryDirectory() as folder:
        own = os.path.join(folder, "own.onnx")
        make(own)
        for model in [own] + sys.argv[3:]:
            if not os.path.exists(model):
                print("SKIP: %s is not there" % model.replace(os.sep, "/").partition("/../")[2])
                continue
            parts = os.path.join(os.path.dirname(model), "parts-%d.onnx" % os.getpid())  # beside its weights
            told = json.loads(subprocess.run([tenure, "split", model, "--extra-work", "25%", "--json", "-o", parts],
                                             check=True, capture_output=True).stdout)
            inputs = draw(model, folder)
            try:
                before, after = run(model, inputs, modules, folder), run(parts, inputs, modules, folder)
            finally:
                os.remove(parts)
            error, fell, promised = apart(before, after), before[2] - after[2], told["whole"] - told["parts"]
            print("%s: activations %d -> %d bytes, resident %d -> %d, outputs apart by %.1e"
                  % (os.path.basename(model), told["whole"], told["parts"], before[2], after[2], error))
            bad += error > 1e-5 or (model == own and 3 * fell < promised)
    sys.exit(1 if bad else 0)


main()
