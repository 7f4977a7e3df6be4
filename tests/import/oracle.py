"""Compares what the importer reads with what Debian's python3-onnx (protobuf) reads.

    oracle.py DUMP FOLDER...

DUMP is the program built from dump.c. Every .onnx below the folders is read by both, and the
listings must agree: blocks with their inputs and outputs, parameters with type, shape, size and
small contents, operators with operands, versions and attributes. Models that do not load (an
operator without a rule whose shape is not stated) are counted, not compared, and so are those that
ONNX Runtime refuses as well.
Exit status: 0 all agree, 1 a difference, 77 python3-onnx or the folders are absent.
"""
import json
import os
import subprocess
import sys

try:
    import numpy
    import onnx
    from onnx import AttributeProto, TensorProto, numpy_helper
except ImportError:
    print("SKIP: python3-onnx is not installed")
    sys.exit(77)

DTYPES = {
    1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64",
    8: "string", 9: "bool", 10: "float16", 11: "float64", 12: "uint32", 13: "uint64",
    14: "complex64", 15: "complex128", 16: "bfloat16", 17: "float8e4m3fn",
    18: "float8e4m3fnuz", 19: "float8e5m2", 20: "float8e5m2fnuz", 21: "uint4", 22: "int4",
    23: "float4e2m1", 24: "float8e8m0", 25: "uint2", 26: "int2",
}
BITS = {1: 32, 2: 8, 3: 8, 4: 16, 5: 16, 6: 32, 7: 64, 8: 0, 9: 8, 10: 16, 11: 64, 12: 32, 13: 64,
        14: 64, 15: 128, 16: 16, 17: 8, 18: 8, 19: 8, 20: 8, 21: 4, 22: 4, 23: 4, 24: 8, 25: 2,
        26: 2}
WIDE = {6, 7, 9, 12, 13}
FOLLOWED = WIDE | {1, 2, 3, 4, 5, 10, 11}


def number(value):
    return "%.9g" % float(value)


def tensor_text(tensor):
    elements = 1
    for dim in tensor.dims:
        elements *= dim
    size = (elements * BITS[tensor.data_type] + 7) // 8
    if tensor.data_type == 8 and elements:
        size = 2**64 - 1
    text = "%s[%s] %d" % (DTYPES[tensor.data_type], ",".join(map(str, tensor.dims)), size)
    limit = 4096 if tensor.data_type in WIDE else 128
    has_payload = tensor.HasField("raw_data") and tensor.raw_data or any(
        len(getattr(tensor, field)) for field in
        ("float_data", "int32_data", "int64_data", "double_data", "uint64_data"))
    external = tensor.data_location == TensorProto.EXTERNAL
    if tensor.data_type not in FOLLOWED or not 0 < elements <= limit or external or not has_payload:
        return text
    values = numpy_helper.to_array(tensor).reshape(-1)
    if values.dtype.kind == "f":
        return text + " = " + " ".join(number(v) for v in values)
    values = [int(v) for v in values]
    if max(values) >= 2**63:
        return text
    return text + " = " + " ".join(map(str, values))


class Listing:
    def __init__(self, model):
        self.versions = {o.domain.replace("ai.onnx", "") if o.domain == "ai.onnx" else o.domain:
                         o.version for o in model.opset_import}
        self.lines = []
        self.blocks = [(model.graph, 0)]
        self.ir = model.ir_version
        if not self.versions and self.ir < 3:
            self.versions[""] = 1
        position = 0
        while position < len(self.blocks):
            graph, block = self.blocks[position]
            self.block(graph, block)
            position += 1

    def block(self, graph, block):
        initializers = {t.name for t in graph.initializer}
        initializers |= {t.values.name for t in graph.sparse_initializer}
        inputs = [i.name for i in graph.input]
        if block == 0:
            inputs = [name for name in inputs if name not in initializers]
        self.lines.append("block %d\tin%s\tout%s" % (
            block, "".join("|" + n for n in inputs), "".join("|" + o.name for o in graph.output)))
        for tensor in graph.initializer:
            if block == 0 or tensor.name not in inputs:
                self.lines.append("param %s %s" % (tensor.name, tensor_text(tensor)))
        for sparse in graph.sparse_initializer:
            dense = TensorProto(data_type=sparse.values.data_type, dims=sparse.dims)
            self.lines.append("param %s %s" % (sparse.values.name, tensor_text(dense)))
        for node in graph.node:
            domain = "" if node.domain == "ai.onnx" else node.domain
            line = "op %s\t%s\t%d\t%s\tin%s\tout%s" % (
                node.op_type, domain, self.versions.get(domain, 0), node.name,
                "".join("|" + n for n in node.input), "".join("|" + n for n in node.output))
            for attribute in node.attribute:
                line += self.attribute(attribute)
            self.lines.append(line)

    def attribute(self, a):
        head = "\t%s:" % a.name
        kind = a.type
        if kind == AttributeProto.INT:
            return head + " %d" % a.i
        if kind == AttributeProto.FLOAT:
            return head + " " + number(a.f)
        if kind == AttributeProto.STRING:
            return head + " '%s'" % a.s.decode()
        if kind == AttributeProto.INTS:
            return head + "".join(" %d" % v for v in a.ints)
        if kind == AttributeProto.FLOATS:
            return head + "".join(" " + number(v) for v in a.floats)
        if kind == AttributeProto.STRINGS:
            return head + "".join(" '%s'" % v.decode() for v in a.strings)
        if kind == AttributeProto.TENSOR:
            return head + " tensor " + tensor_text(a.t)
        if kind == AttributeProto.SPARSE_TENSOR:
            dense = TensorProto(data_type=a.sparse_tensor.values.data_type,
                                dims=a.sparse_tensor.dims)
            return head + " tensor " + tensor_text(dense)
        if kind == AttributeProto.GRAPH:
            self.blocks.append((a.g, len(self.blocks)))
            return head + " block %d" % (len(self.blocks) - 1)
        return ""  # types: left out


def symbols(model):
    names = []
    given = {t.name for t in model.graph.initializer}
    for value in model.graph.input:
        if value.name in given or not value.type.HasField("tensor_type"):
            continue
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param and dim.dim_param not in names:
                names.append(dim.dim_param)
    return names


def must_not_load(path):
    """Some models come with what ONNX Runtime makes of them: NAME.json says that it refuses."""
    facts = path[:-len(".onnx")] + ".json"
    if not os.path.exists(facts):
        return False
    with open(facts, encoding="utf-8") as file:
        told = json.load(file)
    return isinstance(told, dict) and str(told.get("how", "")).startswith("refused")


def compare(dump, path):
    model = onnx.load(path, load_external_data=False)
    if model.functions:
        return "functions"
    for size in (64, 1, 320):
        arguments = ["%s=%d" % (name, size) for name in symbols(model)]
        done = subprocess.run([dump, path] + arguments, capture_output=True, check=False)
        if done.returncode != 3:
            break
    if done.returncode == 3:
        if must_not_load(path):
            return "refused as by ONNX Runtime"
        if b"E_UNKNOWN" in done.stderr or b"E_INVALID" in done.stderr and arguments:
            return "not loaded: " + done.stderr.decode().strip()[:200]
        print("REFUSED %s: %s" % (path, done.stderr.decode().strip()))
        return "differs"
    if done.returncode:
        print("FAILED %s: status %d" % (path, done.returncode))
        return "differs"
    ours = done.stdout.decode().split("\n")[:-1]
    theirs = Listing(model).lines
    if ours == theirs:
        return "agrees"
    for mine, other in zip(ours + [""] * len(theirs), theirs + [""] * len(ours)):
        if mine != other:
            print("DIFFERS %s\n  ours:   %s\n  theirs: %s" % (path, mine[:600], other[:600]))
            break
    return "differs"


def main():
    dump, counts = sys.argv[1], {}
    verbose = os.environ.get("VERBOSE")
    for folder in sys.argv[2:]:
        for root, _, files in sorted(os.walk(folder, followlinks=True)):
            for name in sorted(files):
                if not name.endswith(".onnx"):
                    continue
                answer = compare(dump, os.path.join(root, name))
                if verbose and answer not in ("agrees", "differs"):
                    print(os.path.join(root, name), answer)
                key = answer.split(":")[0]
                counts[key] = counts.get(key, 0) + 1
    if not counts:
        print("SKIP: no shared data and no other models")
        sys.exit(77)
    print(", ".join("%d %s" % (counts[k], k) for k in sorted(counts)))
    sys.exit(1 if counts.get("differs") or not counts.get("agrees") else 0)


main()
