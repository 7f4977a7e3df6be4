"""Are the shape rules right? Two judges that know nothing of them.

    conformance.py SHAPES TESTDATA [MODELS]

SHAPES is the program built from shapes.c. TESTDATA holds ONNX's own operator tests (Debian's
libonnx-testdata): every model is given to SHAPES without the shapes that it states for its outputs,
and what the rules say is compared with the tensors that the operator really produced. Small integer
inputs become initializers first, since some shapes depend on them. MODELS holds models (../shared/data):
what python3-onnx's shape inference knows must be what the rules say.
Exit status: 0 no difference, 1 a difference, 77 nothing to compare with.
"""
import glob
import os
import subprocess
import sys
import tempfile

try:
    import onnx
    from onnx import numpy_helper, shape_inference
except ImportError:
    print("SKIP: python3-onnx is not installed")
    sys.exit(77)

NAMES = {1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 8: "string",
         9: "bool", 10: "float16", 11: "float64", 12: "uint32", 13: "uint64", 14: "complex64",
         15: "complex128", 16: "bfloat16"}


STORED = ("bfloat16", "uint16")  # numpy has no bfloat16: the test data holds its bits


def tensor(path):
    value = onnx.TensorProto()
    with open(path, "rb") as file:
        value.ParseFromString(file.read())
    return value


def ask(program, paths):
    """{path: {tensor name: (is bound, dtype, shape)} or error text}"""
    answers, current = {}, None
    for first in range(0, len(paths), 200):
        out = subprocess.run([program] + paths[first:first + 200], capture_output=True, text=True, check=True).stdout
        for line in out.splitlines():
            field = line.split("\t")
            if field[0] == "model":
                current = answers[field[1]] = {}
            elif field[0] == "error":
                answers[list(answers)[-1]] = field[1] + " " + field[2]
            else:
                shape = [int(d) for d in field[3].split(",")[:-1]]
                # tensors of attributes come later and may be named as the operator's output is
                current.setdefault(field[1], (field[0] == "bound", field[2], shape))
    return answers


def operator_cases(root, folder):
    """Models without their output shapes, and the real (dtype, shape) of their outputs."""
    cases = {}
    for index, path in enumerate(sorted(glob.glob(root + "/*/*/model.onnx"))):
        data = os.path.join(os.path.dirname(path), "test_data_set_0")
        try:
            model = onnx.load(path, load_external_data=False)
            expected = {}
            for i, output in enumerate(model.graph.output):
                if output.type.WhichOneof("value") == "tensor_type":
                    value = tensor(f"{data}/output_{i}.pb")
                    expected[output.name] = (NAMES.get(value.data_type), list(value.dims))
            initial = {t.name for t in model.graph.initializer}
            for i, wanted in enumerate([x for x in model.graph.input if x.name not in initial]):
                if wanted.type.WhichOneof("value") != "tensor_type":
                    continue
                value = tensor(f"{data}/input_{i}.pb")
                elements = 1
                for d in value.dims:
                    elements *= d
                scales = any("Resize" in n.op_type or "Upsample" in n.op_type for n in model.graph.node) and elements < 9
                if value.data_type in (6, 7, 9) and elements <= 64 or value.data_type == 1 and scales:
                    value.name = wanted.name
                    model.graph.initializer.append(value)
        except Exception:  # a test without data, or with sequences: nothing to compare
            continue
        for output in model.graph.output:
            if output.name in expected:
                output.type.tensor_type.ClearField("shape")
        del model.graph.value_info[:]
        name = f"{folder}/{index}.onnx"
        onnx.save(model, name)
        cases[name] = (path[len(root):], expected)
    return cases


def check_operators(program, root, folder):
    cases = operator_cases(root, folder)
    answers = ask(program, list(cases))
    equal = bounds = 0
    unknown, different = [], []
    for name, (path, expected) in cases.items():
        answer = answers.get(name, "no answer")
        for output, (dtype, shape) in expected.items():
            if isinstance(answer, str):
                (unknown if "E_UNKNOWN" in answer else different).append(f"{path}: {answer[:150]}")
                break
            bound, ours, extents = answer.get(output, (False, None, [-1]))
            if ours is None or -1 in extents:
                unknown.append(f"{path}: {output}")
            elif (ours != dtype and (ours, dtype) != STORED) or (extents != shape and not bound) or (
                    bound and (len(extents) != len(shape) or any(a < b for a, b in zip(extents, shape)))):
                different.append(f"{path}: {output} is {dtype}{shape}, the rules say {ours}{extents}")
            elif bound:
                bounds += 1
            else:
                equal += 1
    print(f"operator tests: {len(cases)} models, {equal} outputs equal, {bounds} upper bounds that hold, "
          f"{len(unknown)} not known, {len(different)} different")
    for line in unknown:
        print("  not known:", line)
    for line in different:
        print("  DIFFERENT:", line)
    return not different and len(cases) > 0


def check_models(program, root):
    # onnx-2026 is compared with ONNX Runtime (onnx_2026.py): it deviates from the text of the standard
    paths = sorted(p for p in glob.glob(root + "/onnx*/*.onnx") if "/onnx-2026/" not in p)
    answers, compared, different = ask(program, paths), 0, []
    for path in paths:
        if isinstance(answers[path], str):
            continue  # needs dimensions
        model = onnx.load(path, load_external_data=False)
        try:
            model = shape_inference.infer_shapes(model, data_prop=True)
        except Exception:
            pass
        for info in list(model.graph.value_info) + list(model.graph.output):
            kind = info.type.tensor_type
            shape = [d.dim_value if d.HasField("dim_value") else -1 for d in kind.shape.dim]
            if not kind.HasField("shape") or -1 in shape or info.name not in answers[path]:
                continue
            compared += 1
            _, dtype, ours = answers[path][info.name]
            if ours != shape or dtype != NAMES.get(kind.elem_type):
                different.append(f"{path}: {info.name} is {shape}, the rules say {ours}")
    print(f"models: {len(paths)}, {compared} shapes that onnx knows, {len(different)} different")
    for line in different[:20]:
        print("  DIFFERENT:", line)
    return not different


def main():
    program, testdata, models = sys.argv[1], sys.argv[2], sys.argv[3] if len(sys.argv) > 3 else ""
    good, compared = True, False
    if os.path.isdir(testdata):
        with tempfile.TemporaryDirectory() as folder:
            good = check_operators(program, testdata, folder)
        compared = True
    else:
        print("SKIP: libonnx-testdata is not installed")
    if os.path.isdir(models):
        good = check_models(program, models) and good
        compared = True
    else:
        print("SKIP: no shared data")
    return 77 if not compared else 0 if good else 1


sys.exit(main())
