"""Writes programs of torch.export (.pt2): a zip archive of JSON and raw weights, without PyTorch.

The sizes of results are given by the caller, as PyTorch computes them. `Network` writes the same network as
.onnx as well, field by field, with the operators that exporters choose.
"""
import json
import math
import pathlib
import random
import struct
import sys
import zipfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cli"))
import train_models as onnx  # noqa: E402

UINT8, INT64, FLOAT, BOOL = 1, 5, 7, 12
WIDTH = {UINT8: 1, INT64: 8, FLOAT: 4, BOOL: 1}
SCHEMA = {"major": 8, "minor": 17}


def dense(shape):
    strides, step = [], 1
    for extent in reversed(shape):
        strides.insert(0, step)
        step *= extent if isinstance(extent, int) else 1
    return strides


def size(extent):
    """A number, or (text of an expression, hint)."""
    return {"as_int": extent} if isinstance(extent, int) else \
        {"as_expr": {"expr_str": extent[0], "hint": None if extent[1] is None else {"as_int": extent[1]}}}


def meta(shape, dtype=FLOAT, strides=None, **more):
    return {"dtype": dtype, "sizes": [size(e) for e in shape], "requires_grad": False, "device": {"type": "cpu", "index": None},
            "strides": [size(e) for e in (dense(shape) if strides is None else strides)], "storage_offset": {"as_int": 0}, "layout": 7, **more}


def argument(what):
    """A tensor is a text; None, numbers and lists as PyTorch's schema writes them."""
    if what is None:
        return {"as_none": True}
    if isinstance(what, dict):
        return what
    if isinstance(what, bool):
        return {"as_bool": what}
    if isinstance(what, int):
        return {"as_int": what}
    if isinstance(what, float):
        return {"as_float": what if math.isfinite(what) else ("-" if what < 0 else "") + "Infinity"}
    if isinstance(what, str):
        return {"as_tensor": {"name": what}}
    if what and isinstance(what[0], str):
        return {"as_tensors": [{"name": name} for name in what]}
    return {"as_ints": list(what)}


class Program:
    def __init__(self):
        self.values, self.nodes, self.inputs, self.input_specs, self.outputs, self.output_specs = {}, [], [], [], [], []
        self.ranges, self.weights, self.numbers, self.places = {}, {}, {}, {}

    def input(self, name, shape, dtype=FLOAT):
        self.values[name] = meta(shape, dtype)
        self.inputs.append(argument(name))
        self.input_specs.append({"user_input": {"arg": argument(name)}})
        return name

    def parameter(self, path, shape, data=None, kind="parameter", dtype=FLOAT):
        name = "p_" + path.replace(".", "_")
        self.values[name] = meta(shape, dtype)
        self.inputs.append(argument(name))
        self.input_specs.append({kind: {"arg": {"name": name}, kind + "_name": path}})
        if data is not None:
            self.weights[path] = (shape, dtype, data)
        return name

    def stored(self, path, storage, strides, offset=0, member=None, **meta):
        """Where a weight lies: `storage` has the elements in the order of the archive, strides and offset count
        elements. Weights with the same `member` share their storage."""
        self.places[path] = (storage, strides, offset, member, meta)

    def node(self, target, results, /, **arguments):
        """results: {name: (shape, dtype, strides)}, or a list of names that are known."""
        for name, (shape, *rest) in (results.items() if isinstance(results, dict) else ()):
            self.values[name] = meta(shape, *rest)
        names = list(results)
        outputs = [argument(name) for name in names]
        if target.split(".")[0] in ("split", "unbind", "split_with_sizes", "chunk"):
            outputs = [argument(names)]
        self.nodes.append({"target": target if target.startswith("torch.") else "torch.ops.aten." + target, "outputs": outputs,
                           "inputs": [{"name": key, "arg": argument(what), "kind": 1} for key, what in arguments.items()],
                           "metadata": {}, "is_hop_single_tensor_return": None, "name": names[0] if names else "effect"})
        return names[0] if names else None

    def output(self, name, spec=None):
        self.outputs.append(argument(name))
        self.output_specs.append(spec or {"user_output": {"arg": argument(name)}})

    def json(self):
        graph = {"inputs": self.inputs, "outputs": self.outputs, "nodes": self.nodes, "tensor_values": self.values,
                 "sym_int_values": self.numbers, "sym_bool_values": {}, "sym_float_values": {}, "is_single_tensor_return": False,
                 "custom_obj_values": {}}
        return {"graph_module": {"graph": graph, "signature": {"input_specs": self.input_specs, "output_specs": self.output_specs},
                                 "module_call_graph": []},
                "opset_version": {"aten": 10}, "range_constraints": self.ranges, "schema_version": SCHEMA, "verifiers": ["TRAINING"],
                "torch_version": "2.10.0"}

    def write(self, path, legacy=False, packed=False, program=None, root="model/", extra=()):
        method = zipfile.ZIP_DEFLATED if packed else zipfile.ZIP_STORED
        text = program if isinstance(program, (str, bytes)) else json.dumps(program or self.json())
        with zipfile.ZipFile(path, "w", method) as archive:
            if legacy:
                archive.writestr("serialized_exported_program.json", text)
                archive.writestr("version", "8.5")
                return path
            archive.writestr(root + "archive_format", "pt2")
            archive.writestr(root + "archive_version", "0")
            archive.writestr(root + "models/model.json", text)
            config, written = {}, set()
            for number, (name, (shape, dtype, data)) in enumerate(self.weights.items()):
                data, strides, offset, member, more = self.places.get(name, (data, None, 0, None, {}))
                member = member or f"weight_{number}"
                stated = {**meta(shape, dtype, strides), "storage_offset": {"as_int": offset}, **more}
                config[name] = {"path_name": member, "is_param": True, "use_pickle": False, "tensor_meta": stated}
                if member in written:
                    continue
                written.add(member)
                form = f"<{len(data)}" + {FLOAT: "f", INT64: "q"}[dtype]
                file = zipfile.ZipInfo(f"{root}data/weights/{member}")
                file.compress_type = method
                archive.writestr(file, struct.pack(form, *data))
            archive.writestr(root + "data/weights/model_weights_config.json", json.dumps({"config": config}))
            archive.writestr(root + "byteorder", "little")
            for name, data in extra:
                archive.writestr(name, data)
        return path


    def safetensors(self, path):
        """The weights alone, by their names in the module."""
        header, data = {}, b""
        for name, (shape, _, values) in self.weights.items():
            packed = struct.pack(f"<{len(values)}f", *values)
            header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(packed)]}
            data += packed
        text = json.dumps(header).encode()
        path.write_bytes(struct.pack("<Q", len(text)) + text + data)
        return path


# --- the same network twice ------------------------------------------------------------------------

def onnx_node(kind, ins, outs, **attributes):
    data = b"".join(onnx.block(1, name) for name in ins) + b"".join(onnx.block(2, name) for name in outs)
    data += onnx.block(3, outs[0]) + onnx.block(4, kind)
    for key, what in attributes.items():
        body = onnx.block(1, key)
        if isinstance(what, float):
            body += onnx.varint(2 << 3 | 5) + struct.pack("<f", what) + onnx.number(20, 1)
        elif isinstance(what, str):
            body += onnx.block(4, what) + onnx.number(20, 3)
        elif isinstance(what, list):
            body += b"".join(onnx.number(8, number) for number in what) + onnx.number(20, 7)
        else:
            body += onnx.number(3, what) + onnx.number(20, 2)
        data += onnx.block(5, body)
    return data


def product(shape):
    return math.prod(shape)


class Network:
    """Layers in PyTorch's terms. A tensor is (name, shape); both files use the same names."""

    def __init__(self, seed=1):
        self.random, self.program, self.count = random.Random(seed), Program(), 0
        self.nodes, self.inputs, self.outputs, self.tensors = [], [], [], []

    def fresh(self, word):
        self.count += 1
        return f"{word}_{self.count}"

    def add(self, target, shape, ins, kind, onnx_ins=None, onnx_attributes=None, dtype=FLOAT, strides=None, **arguments):
        """One operator in each file; `ins`: {argument: tensor}, in the order of the schema."""
        name = self.fresh(target.split(".")[0])
        self.program.node(target, {name: (shape, dtype, strides)}, **{key: t[0] if t else None for key, t in ins.items()}, **arguments)
        given = [t[0] if t else "" for t in (ins.values() if onnx_ins is None else onnx_ins)]
        if kind:
            self.nodes.append(onnx_node(kind, given, [name], **(onnx_attributes or {})))
        return name, shape

    def input(self, name, shape, dtype=FLOAT):
        self.program.input(name, shape, dtype)
        self.inputs.append(onnx.value(name, shape, onnx.FLOAT if dtype == FLOAT else onnx.INT64))
        return name, shape

    def data(self, shape, scale):
        return [self.random.gauss(0, scale) for _ in range(product(shape))]

    def weight(self, path, shape, scale=None, around=0.0, kind="parameter", onnx_order=None, positive=False):
        """onnx_order: a transposed copy is in the .onnx file."""
        fan = product(shape[1:]) or 1
        data = [around + x for x in self.data(shape, fan ** -0.5 if scale is None else scale)]
        data = [abs(x) + 0.5 for x in data] if positive else data
        name = self.program.parameter(path, shape, data, kind)
        if onnx_order:
            rows, columns = shape
            data, shape = [data[r * columns + c] for c in range(columns) for r in range(rows)], [columns, rows]
        self.tensors.append(onnx.tensor(name, shape, data))
        return name, shape

    def numbers(self, values):
        name = self.fresh("numbers")
        self.tensors.append(onnx.tensor(name, [len(values)], values, onnx.INT64))
        return name, [len(values)]

    def scalar(self, number):
        name = self.fresh("number")
        self.nodes.append(onnx.block(2, name) + onnx.block(4, "Constant") + onnx.block(5, onnx.block(1, "value") + onnx.block(
            5, onnx.tensor("", [], [number])) + onnx.number(20, 4)))
        return name, []

    def output(self, tensor):
        self.program.output(tensor[0])
        self.outputs.append(onnx.value(tensor[0], tensor[1]))

    def write(self, folder, name, **options):
        onnx_path = folder / f"{name}.onnx"
        graph = b"".join(onnx.block(1, n) for n in self.nodes) + onnx.block(2, "g") + b"".join(onnx.block(5, w) for w in self.tensors)
        graph += b"".join(onnx.block(11, i) for i in self.inputs) + b"".join(onnx.block(12, o) for o in self.outputs)
        onnx_path.write_bytes(onnx.number(1, 10) + onnx.block(7, graph) + onnx.block(8, onnx.block(1, "") + onnx.number(2, 21)))
        return self.program.write(folder / f"{name}.pt2", **options), onnx_path

    # --- layers ---

    def unary(self, target, x, kind, inplace=False, **attributes):
        word = target + ("_" if inplace else "")
        return self.add(word + ".default", x[1], {"self": x}, kind, onnx_attributes=attributes)

    def relu(self, x, inplace=False):
        return self.unary("relu", x, "Relu", inplace)

    def silu(self, x):
        name = self.fresh("gate")
        self.nodes.append(onnx_node("Sigmoid", [x[0]], [name]))
        return self.add("silu.default", x[1], {"self": x}, "Mul", [x, (name, x[1])])

    def gelu(self, x, form):
        return self.add("gelu.default", x[1], {"self": x}, "Gelu", None, {"approximate": form}, approximate={"as_string": form})

    def add_(self, a, b, inplace=False):
        return self.add("add_.Tensor" if inplace else "add.Tensor", a[1], {"self": a, "other": b}, "Add")

    def mul(self, a, b):
        return self.add("mul.Tensor", a[1], {"self": a, "other": b}, "Mul")

    def scale(self, x, number):
        return self.add("mul.Tensor", x[1], {"self": x}, "Mul", [x, self.scalar(number)], other=number)

    def conv(self, x, path, channels, kernel, stride=1, pad=0, groups=1, bias=True, export=True, transposed=False):
        batch, before, *extents = x[1]
        shape = [before, channels // groups] if transposed else [channels, before // groups]
        w = self.weight(path + ".weight", shape + [kernel, kernel])
        b = self.weight(path + ".bias", [channels], 0.1) if bias else None
        after = [(e - 1) * stride - 2 * pad + kernel for e in extents] if transposed else \
            [(e + 2 * pad - kernel) // stride + 1 for e in extents]
        attributes = {"kernel_shape": [kernel, kernel], "strides": [stride, stride], "pads": [pad] * 4, "group": groups}
        ins = {"input": x, "weight": w, "bias": b}
        lists = {"stride": [stride, stride], "padding": [pad, pad]}
        if export:  # the form before decomposition
            target = "conv_transpose2d.input" if transposed else "conv2d.default"
            more = {"groups": groups} if transposed else {"dilation": [1, 1], "groups": groups}
        else:
            target = "convolution.default"
            more = {"dilation": [1, 1], "transposed": transposed, "output_padding": [0, 0], "groups": groups}
        return self.add(target, [batch, channels] + after, ins, "ConvTranspose" if transposed else "Conv",
                        [t for t in ins.values() if t], attributes, **lists, **more)

    def batch_norm(self, x, path, core=True):
        c = [x[1][1]]
        ins = {"input": x, "weight": self.weight(path + ".weight", c, 0.1, 1.0), "bias": self.weight(path + ".bias", c, 0.1),
               "running_mean": self.weight(path + ".running_mean", c, 0.1, kind="buffer"),
               "running_var": self.weight(path + ".running_var", c, 0.1, kind="buffer", positive=True)}
        if not core:
            return self.add("batch_norm.default", x[1], ins, "BatchNormalization", None, {"epsilon": 1e-5}, training=False, momentum=0.1,
                            eps=1e-5, cudnn_enabled=True)
        name = self.fresh("norm")
        self.program.node("_native_batch_norm_legit_no_training.default",
                          {name: (x[1],), name + "_m": ([0],), name + "_v": ([0],)},
                          **{key: t[0] for key, t in ins.items()}, momentum=0.1, eps=1e-5)
        self.nodes.append(onnx_node("BatchNormalization", [t[0] for t in ins.values()], [name], epsilon=1e-5))
        return name, x[1]

    def pool(self, x, kernel, stride, kind="max"):
        after = [(e - kernel) // stride + 1 for e in x[1][2:]]
        attributes = {"kernel_shape": [kernel, kernel], "strides": [stride, stride]}
        if kind == "max":
            return self.add("max_pool2d.default", x[1][:2] + after, {"self": x}, "MaxPool", None, attributes, kernel_size=[kernel, kernel],
                            stride=[stride, stride])
        return self.add("avg_pool2d.default", x[1][:2] + after, {"self": x}, "AveragePool", None, attributes, kernel_size=[kernel, kernel],
                        stride=[stride, stride])

    def global_pool(self, x):
        return self.add("adaptive_avg_pool2d.default", x[1][:2] + [1, 1], {"self": x}, "GlobalAveragePool", output_size=[1, 1])

    def flatten(self, x):
        return self.add("flatten.using_ints", [x[1][0], product(x[1][1:])], {"self": x}, "Flatten", None, {"axis": 1}, start_dim=1)

    def view(self, x, shape, target="view.default"):
        return self.add(target, shape, {"self": x}, "Reshape", [x, self.numbers(shape)], size=shape)

    def permute(self, x, order):
        shape = [x[1][d] for d in order]
        strides = [dense(x[1])[d] for d in order]
        return self.add("permute.default", shape, {"self": x}, "Transpose", None, {"perm": order}, strides=strides, dims=order)

    def linear(self, x, path, width, bias=True):
        shape = x[1][:-1] + [width]
        if len(x[1]) == 2:
            ins = {"input": x, "weight": self.weight(path + ".weight", [width, x[1][-1]]),
                   "bias": self.weight(path + ".bias", [width], 0.1) if bias else None}
            return self.add("linear.default", shape, ins, "Gemm", [t for t in ins.values() if t], {"transB": 1})
        w = self.weight(path + ".weight", [width, x[1][-1]], onnx_order=True)
        b = self.weight(path + ".bias", [width], 0.1) if bias else None
        if not b:
            return self.add("linear.default", shape, {"input": x, "weight": w, "bias": None}, "MatMul", [x, w])
        between = self.fresh("product")
        self.nodes.append(onnx_node("MatMul", [x[0], w[0]], [between]))
        return self.add("linear.default", shape, {"input": x, "weight": w, "bias": b}, "Add", [(between, shape), b])

    def addmm(self, x, path, width):
        """The decomposed form: the weight is transposed by a view."""
        w = self.weight(path + ".weight", [width, x[1][-1]])
        b = self.weight(path + ".bias", [width], 0.1)
        t = self.fresh("t")
        self.program.node("t.default", {t: ([x[1][-1], width], FLOAT, [1, x[1][-1]])}, self=w[0])
        return self.add("addmm.default", [x[1][0], width], {"self": b, "mat1": x, "mat2": (t, None)}, "Gemm", [x, w, b], {"transB": 1})

    def layer_norm(self, x, path):
        width = [x[1][-1]]
        ins = {"weight": self.weight(path + ".weight", width, 0.1, 1.0), "bias": self.weight(path + ".bias", width, 0.1)}
        self.last = [x] + list(ins.values())
        return self.add("layer_norm.default", x[1], {"input": x, **ins}, "LayerNormalization", None, {"axis": -1, "epsilon": 1e-5},
                        normalized_shape=width, eps=1e-5)

    def cat(self, tensors, axis):
        shape = list(tensors[0][1])
        shape[axis] = sum(t[1][axis] for t in tensors)
        name = self.fresh("cat")
        self.program.node("cat.default", {name: (shape,)}, tensors=[t[0] for t in tensors], dim=axis)
        self.nodes.append(onnx_node("Concat", [t[0] for t in tensors], [name], axis=axis))
        return name, shape

    def softmax(self, x, target="softmax.int"):
        return self.add(target, x[1], {"self": x}, "Softmax", None, {"axis": -1}, dim=-1)

    def matmul(self, a, b, target="matmul.default"):
        return self.add(target, a[1][:-1] + [b[1][-1]], {"self": a, "mat2" if target.startswith("bmm") else "other": b}, "MatMul")

    def attention(self, q, k, v):
        """scaled_dot_product_attention as one operator, and as exporters to ONNX write it."""
        order = list(range(len(k[1])))
        order[-2:] = order[-1], order[-2]
        names = [self.fresh(word) for word in ("keys", "scores", "scaled", "shares")]
        factor = self.scalar(q[1][-1] ** -0.5)
        self.nodes += [onnx_node("Transpose", [k[0]], [names[0]], perm=order), onnx_node("MatMul", [q[0], names[0]], [names[1]]),
                       onnx_node("Mul", [names[1], factor[0]], [names[2]]), onnx_node("Softmax", [names[2]], [names[3]], axis=-1)]
        return self.add("scaled_dot_product_attention.default", q[1][:-1] + [v[1][-1]], {"query": q, "key": k, "value": v}, "MatMul",
                        [(names[3], None), v])

    def select(self, x, axis, index):
        shape = x[1][:axis] + x[1][axis + 1:]
        at = self.fresh("index")
        self.tensors.append(onnx.tensor(at, [], [index], onnx.INT64))
        return self.add("select.int", shape, {"self": x}, "Gather", [x, (at, [])], {"axis": axis}, dim=axis, index=index)

    def split(self, x, width, axis):
        sizes = [width] * (x[1][axis] // width)
        names = [self.fresh("part") for _ in sizes]
        shape = list(x[1])
        shape[axis] = width
        self.program.node("split.Tensor", {name: (shape, FLOAT, dense(x[1])) for name in names}, self=x[0], split_size=width, dim=axis)
        self.nodes.append(onnx_node("Split", [x[0], self.numbers(sizes)[0]], names, axis=axis))
        return [(name, shape) for name in names]
