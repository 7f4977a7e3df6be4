#!/usr/bin/env python3
"""What a layer of a transformer keeps for its backward pass: the published formulas beside what is planned.

    python3 bench/layers.py BUILD

A transformer of four layers is planned, and one of three: what the fourth takes is told by the difference of their arenas. Korthikanti et
al. (2022) have, of a layer with s tokens, b sequences, hidden size h, a heads, among t ranks, in numbers of two bytes,

    tensor parallel                 s b h (10 + 24/t + 5 a s/(h t))
    and what lies between, too      s b h (34 + 5 a s/h) / t

of which three masks of dropout, a byte for each element, are s b h (2 + a s/(h t)), or (2 + a s/h) / t of it. Masks are not kept here, but drawn
again. The rest has to be equal to the byte, in numbers of four bytes twice as much; else the status is 1. In 16 bits, what lies between
comes together in 32 and is kept as it is cast then: 4 s b h more. With operators that are computed again plans are others than
what those authors compute again: both are told.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests" / "cli"))
import train_models as onnx  # noqa: E402  (writes models, field by field)

VOCABULARY = 64


def constant(name, number):
    """Unlike a tensor of the file, nothing that is trained."""
    held = onnx.tensor("", [], [number])
    return onnx.block(2, name) + onnx.block(4, "Constant") + onnx.block(5, onnx.block(1, "value") + onnx.block(5, held) + onnx.number(20, 4))


def layer(x, p, size, nodes, parameters):
    """Korthikanti et al. 2022, figure 2, with three dropouts."""
    hidden, heads, inner = size["h"], size["a"], 4 * size["h"]
    nodes.append(onnx.node("LayerNormalization", f"{x},gain,bias", f"{p}n"))
    for name, order in {"q": [0, 2, 1, 3], "k": [0, 2, 3, 1], "v": [0, 2, 1, 3]}.items():
        nodes += [onnx.node("MatMul", f"{p}n,{p}w{name}", f"{p}{name}0"), onnx.node("Add", f"{p}{name}0,{p}b{name}", f"{p}{name}1"),
                  onnx.node("Reshape", f"{p}{name}1,split", f"{p}{name}2"), onnx.node("Transpose", f"{p}{name}2", f"{p}{name}", perm=order)]
        parameters += [onnx.weights(f"{p}w{name}", hidden, hidden), onnx.tensor(f"{p}b{name}", [hidden], [0.0] * hidden)]
    nodes += [onnx.node("MatMul", f"{p}q,{p}k", f"{p}s0"), onnx.node("Mul", f"{p}s0,share", f"{p}s1"),
              onnx.node("Softmax", f"{p}s1", f"{p}s2", axis=3), onnx.node("Dropout", f"{p}s2,ratio", f"{p}s"),
              onnx.node("MatMul", f"{p}s,{p}v", f"{p}o0"), onnx.node("Transpose", f"{p}o0", f"{p}o1", perm=[0, 2, 1, 3]),
              onnx.node("Reshape", f"{p}o1,join", f"{p}o2"), onnx.node("MatMul", f"{p}o2,{p}wo", f"{p}o3"), onnx.node("Add", f"{p}o3,{p}bo", f"{p}o4"),
              onnx.node("Dropout", f"{p}o4,ratio", f"{p}o5"), onnx.node("Add", f"{p}o5,{x}", f"{p}a"),
              onnx.node("LayerNormalization", f"{p}a,gain,bias", f"{p}m"),
              onnx.node("MatMul", f"{p}m,{p}up", f"{p}u0"), onnx.node("Add", f"{p}u0,{p}bu", f"{p}u1"),
              onnx.node("Div", f"{p}u1,root", f"{p}g0"), onnx.node("Erf", f"{p}g0", f"{p}g1"), onnx.node("Add", f"{p}g1,one", f"{p}g2"),
              onnx.node("Mul", f"{p}u1,{p}g2", f"{p}g3"), onnx.node("Mul", f"{p}g3,half", f"{p}g"),
              onnx.node("MatMul", f"{p}g,{p}down", f"{p}d0"), onnx.node("Add", f"{p}d0,{p}bd", f"{p}d1"),
              onnx.node("Dropout", f"{p}d1,ratio", f"{p}d2"), onnx.node("Add", f"{p}d2,{p}a", f"{p}f")]
    parameters += [onnx.weights(f"{p}wo", hidden, hidden), onnx.tensor(f"{p}bo", [hidden], [0.0] * hidden),
                   onnx.weights(f"{p}up", hidden, inner), onnx.tensor(f"{p}bu", [inner], [0.0] * inner),
                   onnx.weights(f"{p}down", inner, hidden), onnx.tensor(f"{p}bd", [hidden], [0.0] * hidden)]
    return f"{p}f"


def write(path, layers, size):
    s, h, a = size["s"], size["h"], size["a"]
    numbers = {"share": (h / a) ** -0.5, "root": 2 ** 0.5, "one": 1.0, "half": 0.5, "ratio": 0.1}
    nodes, x = [*(constant(*one) for one in numbers.items()), onnx.node("Gather", "table,x", "e")], "e"
    parameters = [onnx.weights("table", VOCABULARY, h), onnx.tensor("split", [4], [0, s, a, h // a], onnx.INT64),
                  onnx.tensor("join", [3], [0, s, h], onnx.INT64), onnx.weights("out", h, VOCABULARY),
                  onnx.tensor("gain", [h], [1.0] * h), onnx.tensor("bias", [h], [0.0] * h)]
    for i in range(layers):
        x = layer(x, f"l{i}.", size, nodes, parameters)
    nodes.append(onnx.node("MatMul", f"{x},out", "y"))
    onnx.model(path, nodes, [onnx.value("x", ["n", s], onnx.INT64)], [onnx.value("y", ["n", s, VOCABULARY])], parameters)


def formula(size, ranks, between, masks):
    """Bytes in numbers of two."""
    s, b, h, a = (size[name] for name in "sbha")
    scores, inside, outside = a * s / h, 24, 10 if masks else 8
    dropped = 5 if masks else 4
    return s * b * h * ((outside + inside + dropped * scores) / ranks if between else outside + (inside + dropped * scores) / ranks)


def planned(build, folder, size, options):
    """Bytes of the fourth layer."""
    arenas = []
    for layers in 3, 4:
        path = f"{folder}/{'-'.join(str(size[name]) for name in 'sha')}-{layers}.onnx"
        if not os.path.exists(path):
            write(path, layers, size)
        done = subprocess.run([f"{build}/tenure", "estimate", path, "--train", "--batch", str(size["b"]), "--optimizer", "sgd", "--fuse-update",
                               "--kernels", "onednn", "--json", *options], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"{options}: {done.stderr}")
        arenas.append(json.loads(done.stdout)["arena"])
    return arenas[1] - arenas[0]


def main():
    build, wrong = sys.argv[1], 0
    sizes = [dict(s=32, b=8, h=64, a=4), dict(s=64, b=4, h=64, a=8)]
    ways = [(kind, t, between) for kind in ("fp32", "bf16") for t in (1, 2, 4) for between in (False, True) if t > 1 or not between]
    print("| s, b, h, a | numbers | tensor ranks | published | without masks | planned | apart |\n|---|---|---|---:|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as folder:
        for size in sizes:
            name = ", ".join(str(size[of]) for of in "sbha")
            for kind, t, between in ways:
                width = 2 if kind == "fp32" else 1
                options = (["--parallel", f"tensor={t}"] if t > 1 else []) + (["--sequence-parallel"] if between else [])
                options += ["--dtype", "bf16"] if kind == "bf16" else []
                whole, bare, found = width * formula(size, t, between, True), width * formula(size, t, between, False), planned(build, folder, size, options)
                wrong += found != bare + (4 * size["s"] * size["b"] * size["h"] if kind == "bf16" and between else 0)
                print(f"| {name} | {kind} | {t}{', between too' if between else ''} | {whole:,.0f} | {bare:,.0f} | {found:,} | {found - bare:,.0f} |", flush=True)
        size = sizes[0]
        each = 2 * size["s"] * size["b"] * size["h"]
        print(f"\n{', '.join(str(size[of]) for of in 'sbha')}, fp32, computed again:\n\n| | published | planned |\n|---|---:|---:|")
        print(f"| attention's scores; --recompute-cheap | {each * 32:,} | {planned(build, folder, size, ['--recompute-cheap']):,} |")
        print(f"| all of a layer; --recompute-work 1 | {each * 2:,} | {planned(build, folder, size, ['--recompute-work', '1']):,} |")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
