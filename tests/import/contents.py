"""Compares the contents of tensors that the importer reads with what Debian's python3-onnx reads.

    contents.py CONTENTS FOLDER...

CONTENTS is the program built from contents.c. Every .onnx below the folders is read by both: all
initializers and tensor attributes, dense and sparse, also in subgraphs and functions, with
onnx.numpy_helper as the judge. Models made here cover what the folders do not have: every element
type in raw_data and in its typed field, packed and one by one, external data with offsets, sparse
tensors with both kinds of indices, what must be refused, and what is made up, against
tools/fill-weights.
Exit status: 0 all agree, 1 a difference, 77 python3-onnx is absent.
"""
import collections
import os
import subprocess
import sys
import tempfile

try:
    import numpy
    import onnx
    from onnx import AttributeProto, TensorProto, helper, numpy_helper
except ImportError:
    print("SKIP: python3-onnx is not installed")
    sys.exit(77)

TOOLS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools")
BITS = {1: 32, 2: 8, 3: 8, 4: 16, 5: 16, 6: 32, 7: 64, 9: 8, 10: 16, 11: 64, 12: 32, 13: 64,
        14: 64, 15: 128, 16: 16, 17: 8, 18: 8, 19: 8, 20: 8, 21: 4, 22: 4}


def dump(program, path, arguments=()):
    """{name: [(status, bytes), ...]}, or None when the model does not load."""
    done = subprocess.run([program, path, *arguments], capture_output=True, check=False)
    if done.returncode == 3:
        return None, done.stderr.decode()
    if done.returncode != 0:
        raise SystemExit("%s: exit status %d\n%s" % (path, done.returncode, done.stderr.decode()))
    found = collections.defaultdict(list)
    data, at = done.stdout, 0
    while at < len(data):
        zero = data.index(b"\0", at)
        end = data.index(b"\n", zero)
        fields = data[zero + 1:end].decode().split(" ")
        size = int(fields[-2]) if fields[-1] == "OK" else 0
        found[data[at:zero].decode()].append((fields[-1], data[end + 1:end + 1 + size]))
        at = end + 1 + size
    return found, done.stderr.decode()


def plain(tensor, folder):
    """The bytes of a TensorProto; types that numpy_helper widens (bfloat16, int4) by their bits."""
    external = tensor.data_location == TensorProto.EXTERNAL
    if external:
        try:
            tensor = onnx.TensorProto.FromString(tensor.SerializeToString())
            onnx.external_data_helper.load_external_data_for_tensor(tensor, folder)
        except (FileNotFoundError, onnx.checker.ValidationError):
            return None
        tensor.data_location = TensorProto.DEFAULT
    if tensor.data_type in (14, 15) and not tensor.HasField("raw_data"):
        field = tensor.float_data if tensor.data_type == 14 else tensor.double_data
        return numpy.array(field, numpy.float32 if tensor.data_type == 14 else "f8").tobytes()
    if tensor.data_type > 15:
        if tensor.HasField("raw_data"):
            return tensor.raw_data
        width = 2 if tensor.data_type == 16 else 1
        return b"".join((v & (256 ** width - 1)).to_bytes(width, "little")
                        for v in tensor.int32_data)
    return numpy_helper.to_array(tensor).tobytes()


def dense(sparse, folder):
    values = numpy.frombuffer(plain(sparse.values, folder),
                              numpy_helper.to_array(sparse.values).dtype)
    indices = numpy_helper.to_array(sparse.indices)
    array = numpy.zeros(tuple(sparse.dims), values.dtype)
    if indices.ndim == 1:
        array.reshape(-1)[indices] = values
    else:
        for row, value in zip(indices, values):
            array[tuple(row)] = value
    return array.tobytes()


class Walk:
    """All tensors of a model by name as the importer names them; functions are left out."""

    def __init__(self, model, folder):
        self.folder = folder
        self.expected = collections.defaultdict(list)
        self.graph(model.graph, True)

    def add(self, name, tensor, sparse=False):
        kind = (tensor.values if sparse else tensor).data_type
        if kind == TensorProto.STRING:
            self.expected[name].append(None)
            return
        self.expected[name].append((dense if sparse else plain)(tensor, self.folder))

    def graph(self, graph, is_main):
        inputs = set() if is_main else {i.name for i in graph.input}
        for tensor in graph.initializer:
            if tensor.name not in inputs:
                self.add(tensor.name, tensor)
        for tensor in graph.sparse_initializer:
            self.add(tensor.values.name, tensor, True)
        for node in graph.node:
            output = next((o for o in node.output if o), "")
            for a in node.attribute:
                if a.type == AttributeProto.TENSOR:
                    self.add(a.t.name or output, a.t)
                elif a.type == AttributeProto.SPARSE_TENSOR:
                    self.add(a.sparse_tensor.values.name or output, a.sparse_tensor, True)
                elif a.type == AttributeProto.GRAPH:
                    self.graph(a.g, False)


def compare(program, path):
    """A word for the count; raises AssertionError at a difference."""
    model = onnx.load(path, load_external_data=False)
    if model.functions:
        return "with functions"
    symbols = {d.dim_param for i in model.graph.input if i.type.HasField("tensor_type")
               for d in i.type.tensor_type.shape.dim if d.dim_param}
    found = None
    for size in (64, 1, 320):
        found, _ = dump(program, path, ["%s=%d" % (s, size) for s in sorted(symbols)])
        if found is not None:
            break
    if found is None:
        return "not loaded"
    expected = Walk(model, os.path.dirname(path)).expected
    checked = 0
    for name, entries in expected.items():
        entries = [e for e in entries if e is not None]
        got = [bytes_ for status, bytes_ in found.get(name, []) if status == "OK"]
        assert sorted(entries) == sorted(got), "%s: '%s' differs" % (path, name)
        checked += len(entries)
    extra = [n for n in found if n not in expected]
    assert not extra, "%s: %s is not in the file" % (path, extra)
    return checked


# --- models made here ---

def model_of(*initializers, sparse=()):
    """A model that holds these tensors and reads none of them."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [x], [y])
    graph.initializer.extend(initializers)
    graph.sparse_initializer.extend(sparse)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])


def field_of(kind):
    if kind in (1, 14):
        return 4, "f4"
    if kind in (11, 15):
        return 10, "f8"
    if kind == 7:
        return 7, None
    if kind in (12, 13):
        return 11, None
    return 5, None


def varint(value):
    value &= 2 ** 64 - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def message(number, body):
    return varint(number << 3 | 2) + varint(len(body)) + body


def typed_tensor(name, kind, count, raw, packed):
    """A TensorProto of `count` elements whose typed field says what `raw` says, by hand."""
    number, fixed = field_of(kind)
    out = varint(1 << 3) + varint(count) + varint(2 << 3) + varint(kind) + message(8, name.encode())
    if fixed:
        width = 4 if fixed == "f4" else 8
        parts = [raw[i:i + width] for i in range(0, len(raw), width)]
        if not packed:
            tag = varint(number << 3 | (5 if width == 4 else 1))
            return out + b"".join(tag + p for p in parts)
        half = len(parts) // 2  # packed in two pieces, as a writer may
        return out + message(number, b"".join(parts[:half])) + message(number,
                                                                       b"".join(parts[half:]))
    width = max(BITS[kind] // 8, 1)
    signed = kind in (3, 5, 6, 7)
    numbers = [varint(int.from_bytes(raw[i:i + width], "little", signed=signed))
               for i in range(0, len(raw), width)]
    if packed:
        return out + message(number, b"".join(numbers))
    return out + b"".join(varint(number << 3) + n for n in numbers)


def check_types(program, folder):
    random = numpy.random.default_rng(4)
    expected, initializers = {}, []
    count = 1037  # odd, and more than what is decoded at once
    for kind, bits in BITS.items():
        size = (count * bits + 7) // 8
        raw = random.integers(0, 256, size, numpy.uint8).tobytes()
        if kind == 9:
            raw = bytes(b & 1 for b in raw)
        for form in ("raw", "packed", "single"):
            name = "%d %s" % (kind, form)
            expected[name] = raw
            if form == "raw":
                tensor = (varint(1 << 3) + varint(count) + varint(2 << 3) + varint(kind) +
                          message(8, name.encode()) + message(9, raw))
            else:
                tensor = typed_tensor(name, kind, count, raw, form == "packed")
            initializers.append(message(5, tensor))
    path = os.path.join(folder, "types.onnx")
    model = model_of()
    with open(path, "wb") as file:  # a second occurrence of the graph is merged by nobody: one
        graph = model.graph.SerializeToString() + b"".join(initializers)
        model.ClearField("graph")
        file.write(model.SerializeToString() + message(7, graph))
    found, why = dump(program, path)
    assert found is not None, why
    for name, raw in expected.items():
        assert found[name] == [("OK", raw)], "type %s differs" % name
    return len(expected)


def external(name, kind, dims, location, offset=None, length=None):
    tensor = TensorProto(name=name, data_type=kind, dims=dims,
                         data_location=TensorProto.EXTERNAL)
    for key, value in (("location", location), ("offset", offset), ("length", length)):
        if value is not None:
            tensor.external_data.add(key=key, value=str(value))
    return tensor


def check_external(program, folder):
    os.mkdir(os.path.join(folder, "sub"))
    data = bytes(range(256))
    for place in ("all.bin", "sub/part.bin"):
        with open(os.path.join(folder, place), "wb") as file:
            file.write(data)
    cases = {  # offset and length given or not; a path into a folder
        "whole": (external("whole", 1, [64], "all.bin"), data),
        "from": (external("from", 2, [6], "all.bin", 250), data[250:]),
        "both": (external("both", 7, [2, 2], "sub/part.bin", 3, 32), data[3:35]),
        "flags": (external("flags", 9, [3], "sub/part.bin", 0), b"\0\1\1"),
        "empty": (external("empty", 1, [0], "nowhere.bin"), b""),
        "absent": (external("absent", 1, [1], "nowhere.bin"), ("E_IO", "nowhere.bin", "ext.onnx",
                                                                "tn_contents_generate")),
        "short": (external("short", 1, [65], "all.bin"), ("E_IO", "all.bin", "cut off")),
        "far": (external("far", 2, [1], "all.bin", 2 ** 64 - 1), ("E_IO", "all.bin")),
        "folder": (external("folder", 2, [1], "sub"), ("E_IO", "sub")),
        "zero": (external("zero", 2, [1], "all.bin\0x"), ("E_INVALID", "zero byte")),
        "nothing": (TensorProto(name="nothing", data_type=1, dims=[2]), ("E_UNKNOWN",
                                                                         "tn_contents_generate")),
        "text": (helper.make_tensor("text", TensorProto.STRING, [1], [b"a"]), None),
    }
    path = os.path.join(folder, "ext.onnx")
    with open(path, "wb") as file:
        file.write(model_of(*[tensor for tensor, _ in cases.values()]).SerializeToString())
    for arguments in ([], ["--weights", "1"]):
        found, why = dump(program, path, arguments)
        assert found is not None, why
        for name, (_, expected) in cases.items():
            if expected is None:
                assert name not in found
                continue
            status, contents = found[name][0]
            if arguments:
                assert status == "OK", "%s: %s" % (name, status)
            elif isinstance(expected, bytes):
                assert (status, contents) == ("OK", expected), name
            else:
                assert status == expected[0], "%s: %s" % (name, status)
                line = next(l for l in why.splitlines() if "'%s'" % name in l)
                assert all(word in line for word in expected[1:]), line
    os.chdir(folder)  # a model without a folder in its path
    found, why = dump(program, "ext.onnx")
    assert found["whole"] == [("OK", data)], why
    return len(cases)


def check_sparse(program, folder):
    values = numpy.array([1.5, -2, 3], numpy.float32)

    def sparse(name, indices, value=None, dims=(3, 4)):
        value = values if value is None else value
        out = onnx.SparseTensorProto(dims=dims)
        out.values.CopyFrom(numpy_helper.from_array(value, name))
        out.indices.CopyFrom(numpy_helper.from_array(numpy.array(indices, numpy.int64)))
        return out
    good = [sparse("linear", [0, 5, 11]), sparse("rows", [[0, 1], [1, 3], [2, 0]]),
            sparse("none", numpy.zeros(0), values[:0]),
            sparse("deep", [[0, 0, 0]], numpy.array([7], numpy.int64), (2, 2, 2))]
    bad = {"outside": [0, 5, 12], "negative": [-1, 5, 6], "row": [[0, 4], [1, 3], [2, 0]],
           "few": [0, 5], "wide": [[0, 0, 0], [1, 1, 1], [2, 2, 2]]}
    path = os.path.join(folder, "sparse.onnx")
    with open(path, "wb") as file:
        file.write(model_of(sparse=good + [sparse(n, i) for n, i in bad.items()])
                   .SerializeToString())
    found, why = dump(program, path)
    assert found is not None, why
    for tensor in good:
        assert found[tensor.values.name] == [("OK", dense(tensor, ""))], tensor.values.name
    for name in bad:
        assert found[name][0][0] == "E_INVALID", "%s: %s" % (name, found[name][0][0])
    return len(good) + len(bad)


def check_function(program, folder):
    """Constants in functions: their names have the call's in front, their contents are read."""
    numbers = numpy.arange(3, dtype=numpy.float32)
    node = helper.make_node("Constant", [], ["c"], value=numpy_helper.from_array(numbers))
    add = helper.make_node("Add", ["a", "c"], ["b"])
    function = helper.make_function("my", "Plus", ["a"], ["b"], [node, add],
                                    [helper.make_opsetid("", 13)])
    x = helper.make_tensor_value_info("x", 1, [3])
    y = helper.make_tensor_value_info("y", 1, [3])
    calls = [helper.make_node("Plus", ["x"], ["t"], "one", domain="my"),
             helper.make_node("Plus", ["t"], ["y"], "two", domain="my")]
    model = helper.make_model(helper.make_graph(calls, "g", [x], [y]), functions=[function],
                              opset_imports=[helper.make_opsetid("", 13),
                                             helper.make_opsetid("my", 1)])
    path = os.path.join(folder, "function.onnx")
    with open(path, "wb") as file:
        file.write(model.SerializeToString())
    found, why = dump(program, path)
    assert found is not None, why
    assert dict(found) == {"one/c": [("OK", numbers.tobytes())],
                           "two/c": [("OK", numbers.tobytes())]}, dict(found)
    return 2


def check_made_up(program, folder):
    """What --weights makes up and what tools/fill-weights writes are the same bytes."""
    uses = [("BatchNormalization", ["x", "bn1", "bn2", "bn3", "bn4"]), ("Mul", ["x", "mul1"]),
            ("Mul", ["mul2", "x"]), ("Div", ["x", "div"]), ("MatMul", ["x", "matmul"]),
            ("LSTM", ["lstmx", "lstmw", "lstmr"]), ("Conv", ["image", "conv", "bias"])]
    dims = {"bn1": [4], "bn2": [4], "bn3": [4], "bn4": [4], "mul1": [4], "mul2": [4, 4],
            "div": [4, 4], "matmul": [4, 6], "lstmw": [1, 8, 3], "lstmr": [1, 8, 2],
            "conv": [5, 3, 2, 2], "bias": [5]}
    inputs = [helper.make_tensor_value_info(n, 1, d) for n, d in
              (("x", [4, 4]), ("lstmx", [5, 1, 3]), ("image", [1, 3, 8, 8]))]
    nodes = [helper.make_node(kind, names, ["y%d" % i]) for i, (kind, names) in enumerate(uses)]
    nodes[5].attribute.append(helper.make_attribute("hidden_size", 2))
    body = helper.make_graph([helper.make_node("Div", ["x", "inner"], ["z"])], "b", [],
                             [helper.make_tensor_value_info("z", 1, [4, 4])])
    dims["inner"] = [4]
    nodes.append(helper.make_node("If", ["flag"], ["y9"], then_branch=body, else_branch=body))
    inputs.append(helper.make_tensor_value_info("flag", 9, []))
    outputs = [helper.make_tensor_value_info("y%d" % i, 1, None) for i in range(len(uses))]
    kinds = {n: 1 for n in dims}
    for kind in BITS:  # every type, of one dimension and of two; odd counts
        for name, shape in (("a%d" % kind, [1031]), ("b%d" % kind, [7, 5])):
            if kind not in (17, 18, 19, 20):
                kinds[name], dims[name] = kind, shape
    graph = helper.make_graph(nodes, "g", inputs, outputs)
    at = 0
    for name, kind in kinds.items():
        size = (int(numpy.prod(dims[name])) * BITS[kind] + 7) // 8
        graph.initializer.append(external(name, kind, dims[name], "w/all.bin", at, size))
        at += size
    graph.initializer.append(TensorProto(name="nowhere", data_type=1, dims=[3, 3]))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    path = os.path.join(folder, "made_up.onnx")
    with open(path, "wb") as file:
        file.write(model.SerializeToString())
    tool = os.path.join(TOOLS, "fill-weights")
    filled = os.path.join(folder, "filled")
    subprocess.run([sys.executable, tool, path, filled, "--seed", "77"], check=True)
    made, why = dump(program, path, ["--weights", "77"])
    assert made is not None, why
    read, why = dump(program, os.path.join(filled, "made_up.onnx"))
    assert read is not None, why
    assert set(made) == set(kinds) | {"nowhere"}
    for name, entries in made.items():
        assert entries[0][0] == "OK" and entries == read[name], "%s differs" % name
    other, _ = dump(program, path, ["--weights", "78"])
    assert all(other[n] != made[n] for n in made), "the seed does nothing"
    return len(made)


def main():
    program = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        made = sum(check(program, folder) for check in
                   (check_types, check_sparse, check_function, check_made_up, check_external))
    print("made here: %d tensors" % made)
    counts = collections.Counter()
    for root in sys.argv[2:]:
        if not os.path.isdir(root):
            print("SKIP: %s is absent" % root)
        for at, folders, files in os.walk(root):
            folders.sort()
            for name in sorted(files):
                if not name.endswith(".onnx"):
                    continue
                result = compare(program, os.path.join(at, name))
                counts["models" if isinstance(result, int) else result] += 1
                counts["tensors"] += result if isinstance(result, int) else 0
    print(", ".join("%s: %d" % item for item in sorted(counts.items())))


main()
