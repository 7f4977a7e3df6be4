#!/usr/bin/python3
"""The most bytes that eager PyTorch holds while it trains a model: pytorch_peak.py MODEL.onnx BATCH OPTIMIZER

The nodes of the model are run one by one by the functions of torch that exporters wrote them for (what they
took apart is put together: SiLU, hard swish, a pool's own padding), on the CPU, with every intermediate released after its last use, as a module's forward would. Counted are allocations, not
resident pages: parameters, inputs and labels, and every allocation and release that the profiler sees in three
steps of zero_grad(set_to_none=True), forward, cross-entropy, backward, update. Prints bytes.
"""
import sys

import onnx
import torch
import torch.nn.functional as F
from onnx import numpy_helper
from torch.profiler import ProfilerActivity, profile

torch.set_num_threads(1)


def pads(x, attrs, spatial):
    before_after = attrs.get("pads", [0] * 2 * spatial)
    before, after = before_after[:spatial], before_after[spatial:]
    if before == after:
        return x, tuple(before)
    flat = [v for pair in zip(reversed(before), reversed(after)) for v in pair]
    return F.pad(x, flat), (0,) * spatial


def conv(attrs, x, w, b=None):
    x, padding = pads(x, attrs, w.dim() - 2)
    return torch.conv2d(x, w, b, attrs.get("strides", [1, 1]), padding, attrs.get("dilations", [1, 1]), attrs.get("group", 1))


def max_pool(attrs, x):
    x, padding = pads(x, attrs, 2)
    return F.max_pool2d(x, attrs["kernel_shape"], attrs.get("strides", [1, 1]), padding, ceil_mode=bool(attrs.get("ceil_mode", 0)))


def average_pool(attrs, x):
    x, padding = pads(x, attrs, 2)
    return F.avg_pool2d(x, attrs["kernel_shape"], attrs.get("strides", [1, 1]), padding, count_include_pad=bool(attrs.get("count_include_pad", 0)))


def gemm(attrs, a, b, c=None):
    a = a.t() if attrs.get("transA") else a
    return F.linear(a, b if attrs.get("transB") else b.t(), c)


RUN = {
    "Conv": conv,
    "ConvTranspose": lambda a, x, w, b=None: torch.conv_transpose2d(x, w, b, a.get("strides", [1, 1]), a.get("pads", [0, 0])[:2]),
    "Relu": lambda a, x: torch.relu(x),
    "Clip": lambda a, x, lo, hi: F.hardtanh(x, float(lo), float(hi)),
    "Sigmoid": lambda a, x: torch.sigmoid(x),
    "HardSigmoid": lambda a, x: F.hardsigmoid(x),
    "Tanh": lambda a, x: torch.tanh(x),
    "MaxPool": max_pool,
    "AveragePool": average_pool,
    "GlobalAveragePool": lambda a, x: x.mean((2, 3), keepdim=True),
    "Concat": lambda a, *xs: torch.cat(xs, a["axis"]),
    "Add": lambda a, x, y: x + y,
    "Mul": lambda a, x, y: x * y,
    "Flatten": lambda a, x: x.flatten(a.get("axis", 1)),
    "Gemm": gemm,
    "BatchNormalization": lambda a, x, w, b, m, v: F.batch_norm(x, m, v, w, b, True, 0.1, a.get("epsilon", 1e-5)),
    "Silu": lambda a, x: F.silu(x),
    "HardSwish": lambda a, x: F.hardswish(x),
    "Identity": lambda a, x: x,
    "Constant": lambda a: a["value"],
    "Pad": lambda a, x, p, v=None: F.pad(x, [q for i in range(x.dim() - 1, -1, -1) for q in (int(p[i]), int(p[i + x.dim()]))]),
}


def together(nodes):
    """x * Sigmoid(x), x * HardSigmoid(x), and AveragePool behind the Pad of its own padding, in one."""
    makers = {outputs[0]: (kind, inputs) for kind, _, inputs, outputs in nodes}
    values = {outputs[0]: attrs["value"].tolist() for kind, attrs, _, outputs in nodes if kind == "Constant"}
    uses = [name for _, _, inputs, _ in nodes for name in inputs]
    made, gone = [], set()
    for kind, attrs, inputs, outputs in nodes:
        for gate in inputs if kind == "Mul" else ():
            maker, of = makers.get(gate, ("", []))
            if maker in ("Sigmoid", "HardSigmoid") and uses.count(gate) == 1 and of[0] in inputs:
                kind, inputs = "Silu" if maker == "Sigmoid" else "HardSwish", [of[0]]
                gone.add(gate)
        maker, of = makers.get(inputs[0], ("", [])) if kind == "AveragePool" else ("", [])
        if maker == "Pad" and uses.count(inputs[0]) == 1 and not any(attrs.get("pads", [])) and of[1] in values:
            gone.add(inputs[0])
            pad = values[of[1]]  # of N, C, H, W in front, then behind
            attrs, inputs = {**attrs, "pads": pad[2:4] + pad[6:8], "count_include_pad": 1}, [of[0]]
        made.append((kind, attrs, inputs, outputs))
    return [node for node in made if node[3][0] not in gone]


def load(path):
    model = onnx.load(path, load_external_data=False)
    params, fixed, statistics = {}, {}, set()
    for node in model.graph.node:
        if node.op_type == "BatchNormalization":
            statistics.update(node.input[3:5])
    for t in model.graph.initializer:
        if t.data_type == onnx.TensorProto.FLOAT and (len(t.dims) > 0):
            p = torch.randn(*t.dims) * 0.02
            params[t.name] = p.abs() + 0.1 if t.name in statistics else torch.nn.Parameter(p)
        else:
            fixed[t.name] = torch.tensor(numpy_helper.to_array(t))
    nodes = []
    for n in model.graph.node:
        attrs = {}
        for a in n.attribute:
            v = onnx.helper.get_attribute_value(a)
            attrs[a.name] = torch.tensor(numpy_helper.to_array(v)) if a.type == onnx.AttributeProto.TENSOR else v
        nodes.append((n.op_type, attrs, list(n.input), list(n.output)))
    nodes = together(nodes)
    last = {}
    for i, (_, _, inputs, _) in enumerate(nodes):
        for name in inputs:
            last[name] = i
    return model.graph, nodes, params, fixed, last


def forward(graph, nodes, params, fixed, last, x):
    env = {graph.input[0].name: x}
    for i, (kind, attrs, inputs, outputs) in enumerate(nodes):
        args = [None if n == "" else env[n] if n in env else params[n] if n in params else fixed[n] for n in inputs]
        env[outputs[0]] = RUN[kind](attrs, *args)
        del args
        for n in inputs:
            if last.get(n) == i and n in env and n != graph.input[0].name:
                del env[n]
    return env[graph.output[0].name]


def main():
    path, batch, name = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    graph, nodes, params, fixed, last = load(path)
    shape = [d.dim_value for d in graph.input[0].type.tensor_type.shape.dim]
    x = torch.randn(batch, *shape[1:])
    trained = [p for p in params.values() if isinstance(p, torch.nn.Parameter)]
    optimizer = {"sgd": lambda: torch.optim.SGD(trained, lr=1e-3),
                 "momentum": lambda: torch.optim.SGD(trained, lr=1e-3, momentum=0.9),
                 "adam": lambda: torch.optim.Adam(trained, lr=1e-3)}[name]()
    with torch.no_grad():
        scores = forward(graph, nodes, params, fixed, last, x)
    labels = torch.zeros([batch] + list(scores.shape[2:]), dtype=torch.int64)
    held = sum(t.numel() * t.element_size() for t in [x, labels, *params.values(), *fixed.values()])
    del scores
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        for _ in range(2):
            optimizer.zero_grad(set_to_none=True)
            scores = forward(graph, nodes, params, fixed, last, x)
            loss = F.cross_entropy(scores, labels)
            loss.backward()
            optimizer.step()
            del scores, loss
    most = now = held
    trace = []
    for event in seen.profiler.kineto_results.events():
        if event.name() == "[memory]":
            now += event.nbytes()
            trace.append(now)
            most = max(most, now)
    print(most)


main()
