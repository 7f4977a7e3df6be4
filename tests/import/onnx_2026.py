"""Shapes of the operators of 2025 and 2026 against what ONNX Runtime computed.

    onnx_2026.py SHAPES DATA

SHAPES is the program built from shapes.c, DATA is ../shared/data/onnx-2026. Each NAME.onnx has a NAME.json with
the tensors that ONNX Runtime 1.30 (or arithmetic from the text of the standard) gave for given inputs. Inputs get
the shapes of the JSON; small integer inputs become initializers, as some shapes depend on them. An upper bound
counts as right where it holds.
Exit status: 0 no wrong shape, 1 a wrong one, 77 nothing to compare with.
"""
import glob
import json
import os
import sys
import tempfile

try:
    import onnx
    from onnx import helper
except ImportError:
    print("SKIP: python3-onnx is not installed")
    sys.exit(77)

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

NUMBERS = {"float32": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7, "bool": 9,
           "float16": 10, "float64": 11, "uint32": 12, "uint64": 13, "bfloat16": 16, "uint4": 21, "int4": 22,
           "float4e2m1": 23, "float8e8m0": 24, "uint2": 25, "int2": 26}
# What a plan need not refuse: it is seen only when the values are there, or at run time.
AT_RUN_TIME = {"sem_if_outer_direct", "sem_if_shadow", "sem_loop_scan_varies", "sem_if_types",
               "sem_concat_empty_seq"}


def ask(program, paths):
    import subprocess
    out = subprocess.run([program] + paths, capture_output=True, text=True, check=True).stdout
    answers, current = {}, None
    for line in out.splitlines():
        field = line.split("\t")
        if field[0] == "model":
            current = answers[field[1]] = {}
        elif field[0] == "error":
            answers[list(answers)[-1]] = field[1] + " " + field[2]
        else:
            current.setdefault(field[1], (field[0] == "bound", field[2], [int(d) for d in field[3].split(",")[:-1]]))
    return answers


def fixed(model, shapes, dims):
    """Inputs with the shapes of the case, symbols with their values."""
    for value in model.graph.input:
        tensor = value.type.tensor_type
        for i, dim in enumerate(tensor.shape.dim):
            if dim.dim_param in dims:
                dim.dim_value = dims[dim.dim_param]
        if value.name in shapes:
            kind = shapes[value.name][0]
            del tensor.shape.dim[:]
            tensor.shape.SetInParent()
            for extent in shapes[value.name][1]:
                tensor.shape.dim.add().dim_value = extent
            assert tensor.elem_type in (0, NUMBERS.get(kind, tensor.elem_type)), value.name


def case(path, folder):
    with open(path[:-5] + ".json", encoding="utf-8") as file:
        facts = json.load(file)
    model = onnx.load(path, load_external_data=False)
    inputs = {n: (t["type"], t["shape"]) for n, t in facts.get("inputs", {}).items()}
    fixed(model, inputs, facts.get("dims", {}))
    given = {t.name for t in model.graph.initializer}
    for name, tensor in facts.get("inputs", {}).items():
        floats = tensor["type"] == "float32" and any(n.op_type in ("Resize", "Range") for n in model.graph.node)
        if name in given or len(tensor["values"]) > 64 or not (
                tensor["type"] in ("int32", "int64", "bool") or floats):
            continue
        model.graph.initializer.append(helper.make_tensor(name, NUMBERS[tensor["type"]], tensor["shape"],
                                                          tensor["values"]))
    expected = {n: (t[0], t[1]) for n, t in facts["shapes"].items()} if "shapes" in facts else {
        n: (t["type"], t["shape"]) for n, t in facts.get("outputs", {}).items()}
    target = os.path.join(folder, os.path.basename(path))
    onnx.save(model, target)
    return target, expected, facts.get("how", "")


def main():
    program, data = sys.argv[1], sys.argv[2]
    paths = sorted(p for p in glob.glob(data + "/*.onnx") if os.path.exists(p[:-5] + ".json"))
    if not paths:
        print("SKIP: no shared data")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        cases = [case(p, folder) for p in paths]
        answers = ask(program, [c[0] for c in cases])
    equal = bounds = refused = 0
    wrong, unknown = [], []
    for path, expected, how in cases:
        name, answer = os.path.basename(path)[:-5], answers.get(path, "no answer")
        if how.startswith("refused"):
            if isinstance(answer, str):
                refused += 1
            elif name not in AT_RUN_TIME:
                wrong.append(f"{name}: is accepted, but {how}")
            continue
        if isinstance(answer, str):
            (unknown if "E_UNKNOWN" in answer else wrong).append(f"{name}: {answer[:200]}")
            continue
        for tensor, (kind, shape) in expected.items():
            bound, ours, extents = answer.get(tensor, (False, None, [-1]))
            if ours is None or -1 in extents:
                unknown.append(f"{name}: {tensor}")
            elif ours != kind or len(extents) != len(shape) or (
                    extents != shape and not (bound and all(a >= b for a, b in zip(extents, shape)))):
                wrong.append(f"{name}: {tensor} is {kind}{shape}, the rules say {ours}{extents}")
            elif extents != shape:
                bounds += 1
            else:
                equal += 1
    print(f"{len(cases)} models: {equal} shapes equal, {bounds} upper bounds that hold, {refused} refused as they "
          f"should be, {len(unknown)} not known, {len(wrong)} wrong")
    for line in unknown:
        print("  not known:", line)
    for line in wrong:
        print("  WRONG:", line)
    return 1 if wrong or unknown else 0


sys.exit(main())
