"""Models that are mixtures of experts, and their results according to numpy.

mixtures.py FILE writes examples/models/mixture.onnx: a model without the data of its weights.

    x ── + ─────────────────────── + ── y        for each layer: a normalisation, a router, and the
         └ LayerNormalization ┬ MoE ┘            operator MoE or QMoE of ONNX Runtime
                              └ router ┘
"""
import sys

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

MS = "com.microsoft"


class Mixture:
    def __init__(self, layers=4, hidden=32, experts=8, chosen=2, inner=16, tokens=1, packed=False, seed=1, size=1.0,
                 flips=False, kind="silu"):
        """size: factor of the experts' results; flips: the input of each layer is the negative of the one before, so
        that a guess by the layer before is wrong."""
        self.__dict__.update(locals())
        random = numpy.random.default_rng(seed)
        wide = 2 * inner if kind == "swiglu" else inner
        self.wide = wide
        self.layers_of = []
        for _ in range(layers):
            def f(*shape):
                return (random.standard_normal(shape) / shape[-1] ** 0.5).astype(numpy.float32)
            one = {"gain": 1 + 0.1 * f(hidden), "shift": 0.1 * f(hidden), "router": f(hidden, experts) * 4,
                   "router_bias": (f(experts) * (0 if flips else 1)).astype(numpy.float32)}
            if packed:
                for name, rows, columns in (("w1", wide, hidden), ("w2", hidden, inner)):
                    one[name] = random.integers(0, 256, (experts, rows, columns // 2)).astype(numpy.uint8)
                    one["s" + name[1]] = (size * numpy.abs(f(experts, rows)) / 4).astype(numpy.float32)
            else:
                one["w1"], one["w2"] = f(experts, wide, hidden), size * f(experts, hidden, inner)
            one["b1"], one["b2"] = f(experts, wide), (size * f(experts, hidden)).astype(numpy.float32)
            self.layers_of.append({name: a.astype(a.dtype if a.dtype == numpy.uint8 else numpy.float32)
                                   for name, a in one.items()})

    def parts(self):
        return ["w1", "s1", "b1", "w2", "s2", "b2"] if self.packed else ["w1", "b1", "w2", "b2"]

    def expert_bytes(self):
        one = self.layers_of[0]
        return sum((one[name].nbytes // self.experts + 63) // 64 * 64 for name in self.parts())

    def write(self, path, apart=None, bare=False):
        """apart: file of the weights, next to the model; bare: the model names this file, but it is not written."""
        nodes, weights = [], []
        x = "x"
        for i, one in enumerate(self.layers_of):
            def n(name):
                return "%s_%d" % (name, i)
            if self.flips and i > 0:
                nodes.append(helper.make_node("Neg", [x], [n("neg")]))
                x = n("neg")
            nodes.append(helper.make_node("LayerNormalization", [x, n("gain"), n("shift")], [n("n")], axis=-1))
            nodes.append(helper.make_node("MatMul", [n("n"), n("router")], [n("r0")]))
            nodes.append(helper.make_node("Add", [n("r0"), n("router_bias")], [n("r")]))
            more = {"expert_weight_bits": 4} if self.packed else {}
            if self.kind == "swiglu":
                more.update(swiglu_fusion=1, activation_alpha=1.702, activation_beta=1.0, swiglu_limit=7.0)
            nodes.append(helper.make_node("QMoE" if self.packed else "MoE", [n("n"), n("r")] + [n(p) for p in self.parts()],
                                          [n("m")], domain=MS, k=self.chosen, activation_type=self.kind,
                                          normalize_routing_weights=1, name=n("moe"), **more))
            nodes.append(helper.make_node("Add", [x, n("m")], [n("x") if i + 1 < self.layers else "y"]))
            x = n("x")
            weights += [numpy_helper.from_array(a, n(name)) for name, a in one.items()]
        shape = [self.tokens, self.hidden]
        graph = helper.make_graph(nodes, "mixture", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
                                  [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)], weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid(MS, 1)],
                                  ir_version=8)
        if bare:
            at = 0
            for weight in model.graph.initializer:
                size = len(weight.raw_data)
                weight.ClearField("raw_data")
                weight.data_location = TensorProto.EXTERNAL
                for key, value in ("location", apart), ("offset", at), ("length", size):
                    weight.external_data.add(key=key, value=str(value))
                at += size
            with open(path, "wb") as file:
                file.write(model.SerializeToString())
        elif apart:
            onnx.save(model, path, save_as_external_data=True, location=apart, size_threshold=0)
        else:
            onnx.save(model, path)

    def compute(self, x):
        """The outputs, in float64, and for each layer the experts of its tokens and those that the layer before guesses."""
        used, guessed = [], []
        x = x.astype(numpy.float64)
        last = None
        for i, one in enumerate(self.layers_of):
            one = {name: a.astype(numpy.float64) if a.dtype != numpy.uint8 else a for name, a in one.items()}
            if self.flips and i > 0:
                x = -x
            normal = (x - x.mean(-1, keepdims=True)) / numpy.sqrt(x.var(-1, keepdims=True) + 1e-5)
            normal = normal * one["gain"] + one["shift"]
            if last is not None:
                guessed.append(self.best(last @ one["router"] + one["router_bias"]))
            last = normal
            scores = normal @ one["router"] + one["router_bias"]
            chosen = self.best(scores)
            used.append(chosen)
            y = numpy.zeros_like(x)
            for t in range(len(x)):
                share = numpy.exp(scores[t, chosen[t]] - scores[t].max())
                share /= share.sum()
                for e, s in zip(chosen[t], share):
                    h = self.matrix(one, "1", e) @ normal[t] + one["b1"][e]
                    y[t] += s * (self.matrix(one, "2", e) @ self.curve(h) + one["b2"][e])
            x = x + y
        return x, used, guessed

    def best(self, scores):
        return numpy.argsort(-scores, axis=-1, kind="stable")[:, :self.chosen]

    def matrix(self, one, which, e):
        if not self.packed:
            return one["w" + which][e]
        packed = one["w" + which][e]
        numbers = numpy.stack([packed & 15, packed >> 4], -1).reshape(packed.shape[0], -1).astype(numpy.float64)
        return (numbers - 8) * one["s" + which][e][:, None]

    def curve(self, h):
        if self.kind == "swiglu":
            gate, linear = numpy.minimum(h[0::2], 7), numpy.clip(h[1::2], -7, 7)
            return gate / (1 + numpy.exp(-1.702 * gate)) * (linear + 1)
        return h / (1 + numpy.exp(-h)) if self.kind == "silu" else numpy.maximum(h, 0)


if __name__ == "__main__":
    Mixture(layers=6, hidden=128, experts=16, chosen=2, inner=256).write(sys.argv[1], apart="mixture.weights", bare=True)
