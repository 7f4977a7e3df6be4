"""Operators of ONNX Runtime's domain com.microsoft, and new ones of ONNX, in the forms in which exporters write them.

    contrib_variants.py TENURE FOLDER [NAME...]

TENURE is the command, FOLDER holds models, arrays and the npm package onnxruntime-node (installed there when it is
nowhere). Each case is a model of one operator with random contents: other ranks, broadcasts, masks, packed operands,
attributes and block sizes than ../shared/data/onnx-2026 has. ONNX Runtime and Tenure run the same file, and outputs are
compared. Weights of 8 bits are below 64, because ONNX Runtime's products saturate beyond on some processors.
Exit status: 0 all agree, 1 not all, 77 something is absent.
"""
import json
import os
import subprocess
import sys

try:
    import numpy
    import onnx
    from onnx import TensorProto, helper, numpy_helper
except ImportError:
    print("SKIP: python3-onnx is not installed")
    sys.exit(77)

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGE = "onnxruntime-node@1.30.0"
MS = "com.microsoft"
random = numpy.random.default_rng(5)
cases = []


def f(*shape):
    return random.standard_normal(shape).astype(numpy.float32)


def u8(*shape):
    return random.integers(0, 256, shape).astype(numpy.uint8)


def i8(*shape):
    return random.integers(-60, 60, shape).astype(numpy.int8)


def j(x):
    return numpy.array(x, numpy.int32)


def q(x):
    return numpy.array(x, numpy.int64)


def s(x=0.05):
    return numpy.array(x, numpy.float32)


def z(x=3, kind=numpy.uint8):
    return numpy.array(x, kind)


def case(name, kind, inputs, outputs=("y",), *, fixed=(), domain=MS, opset=21, **attributes):
    """Inputs are arrays, None where one is omitted; `fixed` lists those that are constants of the file."""
    names = ["" if x is None else "x%d" % i for i, x in enumerate(inputs)]
    while names[-1] == "":
        names.pop()
    version = attributes.pop("opset_attribute", None)
    node = helper.make_node(kind, names, list(outputs), domain=domain, **attributes)
    if version is not None:
        node.attribute.append(helper.make_attribute("opset", version))
    arrays = {n: x for n, x in zip(names, inputs) if n}
    cases.append((name, node, arrays, {"x%d" % i for i in fixed}, [o for o in outputs if o], opset))


def norms():
    x = f(2, 3, 8)
    case("skip_bias", "SkipLayerNormalization", [x, f(2, 3, 8), f(8), f(8), f(8)], ["y", "", "", "t"], epsilon=1e-5)
    case("skip_rank2", "SkipLayerNormalization", [f(6, 8), f(6, 8), f(8), f(8)], epsilon=1e-5)
    case("rms_skip_bias", "SkipSimplifiedLayerNormalization", [x, f(2, 3, 8), f(8), f(8)], ["y", "", "", "t"],
         epsilon=1e-5)
    case("rms_skip_rows", "SkipSimplifiedLayerNormalization", [x, f(3, 8), f(8)], epsilon=1e-5)
    case("rms_skip_rank2", "SkipSimplifiedLayerNormalization", [f(6, 8), f(6, 8), f(8)], ["y", "", "", "t"],
         epsilon=1e-5)
    case("rms_axis1", "SimplifiedLayerNormalization", [x, f(3, 8)], domain="", axis=1, epsilon=1e-5)
    case("rms_axis1_inverse", "SimplifiedLayerNormalization", [x, f(3, 8)], ["y", "i"], domain="", axis=1, epsilon=1e-5)
    case("rms_negative_axis", "RMSNormalization", [x, f(3, 8)], domain="", opset=23, axis=-2)
    case("rms_broadcast", "RMSNormalization", [x, f(1, 8)], domain="", opset=23, axis=1)
    ids = random.integers(0, 9, (2, 3)).astype(numpy.int32)
    case("embed_all", "EmbedLayerNormalization",
         [ids, j([[0, 1, 0], [1, 1, 0]]), f(9, 8), f(5, 8), f(2, 8), f(8), f(8), j([[1, 1, 0], [1, 1, 1]]),
          j([[1, 2, 3], [0, 2, 4]])], ["y", "mask", "sum"], epsilon=1e-5)
    case("embed_words", "EmbedLayerNormalization", [ids, None, f(9, 8), f(5, 8), None, f(8), f(8)], ["y", "mask"],
         epsilon=1e-5)


def curves():
    case("fast_gelu_bias", "FastGelu", [f(2, 3, 8), f(8)])
    case("bias_gelu_rank2", "BiasGelu", [f(4, 8), f(8)])
    case("quick_gelu_rank1", "QuickGelu", [f(7)], alpha=0.7)
    case("gelu_column", "Gelu", [f(3, 1)])
    case("swish_alpha", "Swish", [f(2, 3)], domain="", opset=24, alpha=0.5)
    case("cumprod_reverse", "CumProd", [f(2, 4), q(0)], domain="", opset=26, reverse=1)
    case("cumprod_last", "CumProd", [f(2, 4, 3), j(-1)], domain="", opset=26, fixed=[1])


def products():
    case("product_ta", "FusedMatMul", [f(2, 4, 3), f(2, 4, 5)], transA=1, alpha=0.5)
    case("product_ta_tb", "FusedMatMul", [f(2, 4, 3), f(5, 4)], transA=1, transB=1, alpha=2.0)
    case("product_broadcast", "FusedMatMul", [f(3, 1, 2, 4), f(5, 4, 2)], alpha=2.0)
    case("product_old", "TransposeMatMul", [f(2, 3, 4), f(2, 5, 4)], transB=1, alpha=1.0)
    image, weights = f(1, 2, 5, 5), f(3, 2, 3, 3)
    case("conv_sum", "FusedConv", [image, weights, f(3), f(1, 3, 5, 5)], activation="Relu", pads=[1, 1, 1, 1])
    case("conv_clip", "FusedConv", [image, weights, f(3)], activation="Clip", activation_params=[-0.5, 0.5])
    case("conv_hard", "FusedConv", [image, weights, f(3)], activation="HardSigmoid", activation_params=[0.2, 0.5])
    case("conv_groups", "FusedConv", [image, f(4, 1, 3, 3), f(4)], activation="Tanh", group=2, strides=[2, 2])
    case("gemm_leaky", "FusedGemm", [f(3, 4), f(5, 4), f(5)], activation="LeakyRelu", activation_alpha=0.1, transB=1)
    case("gemm_column", "FusedGemm", [f(3, 4), f(4, 5), f(3, 1)], activation="Relu")


def packed_weights():
    for bits, block, k, n in (4, 16, 40, 5), (4, 128, 100, 3), (8, 32, 40, 5), (2, 32, 64, 4), (4, 32, 31, 2):
        blocks = -(-k // block)
        case("bits%d_block%d_of_%d" % (bits, block, k), "MatMulNBits",
             [f(2, 3, k), u8(n, blocks, block * bits // 8), abs(f(n * blocks)) * 0.1], fixed=[1, 2], K=k, N=n, bits=bits,
             block_size=block)
    sizes = {"K": 40, "N": 5, "bits": 4, "block_size": 16}
    a, weights, scales = f(3, 40), u8(5, 3, 8), abs(f(15)) * 0.1
    case("bits4_zeros_odd", "MatMulNBits", [a, weights, scales.reshape(5, 3), u8(10)], fixed=[1, 2, 3], **sizes)
    case("bits4_zeros_real", "MatMulNBits", [a, weights, scales, abs(f(5, 3)) * 4], fixed=[1, 2, 3], **sizes)
    case("bits4_bias", "MatMulNBits", [a, weights, scales, None, None, f(5)], fixed=[1, 2, 5], **sizes)
    case("bits4_groups", "MatMulNBits", [a, weights, scales, None, j(random.integers(0, 3, 48))], fixed=[1, 2, 4],
         **sizes)
    few = {"K": 100, "N": 5, "bits": 4, "block_size": 32}  # few rows are multiplied without expanding the weights
    weights, scales = u8(5, 4, 16), abs(f(20)) * 0.1
    for rows in 1, 4, 5:
        case("bits4_rows%d" % rows, "MatMulNBits", [f(rows, 100), weights, scales, u8(10)], fixed=[1, 2, 3], **few)
    case("bits4_rows2_real", "MatMulNBits", [f(2, 100), weights, scales, abs(f(5, 4)) * 4, None, f(5)], fixed=[1, 2, 3, 5], **few)
    case("bits4_rows1_block128", "MatMulNBits", [f(1, 300), u8(3, 3, 64), abs(f(9)) * 0.1], fixed=[1, 2], K=300, N=3, bits=4,
         block_size=128)
    # ONNX Runtime leaves out packed zero points where groups are given (docs/agreement.md)
    case("bits2_zeros", "MatMulNBits", [f(3, 64), u8(4, 2, 8), abs(f(8)) * 0.1, u8(4)], fixed=[1, 2, 3], K=64, N=4,
         bits=2, block_size=32)
    case("bits8_zeros", "MatMulNBits", [f(3, 64), u8(4, 2, 32), abs(f(8)) * 0.01, u8(8)], fixed=[1, 2, 3], K=64, N=4,
         bits=8, block_size=32)
    table = {"block_size": 16, "quantize_axis": 1, "gather_axis": 0}
    case("table4", "GatherBlockQuantized", [u8(6, 16), q([[0, 5], [2, 3]]), abs(f(6, 2))], fixed=[0, 2], bits=4, **table)
    case("table4_zeros", "GatherBlockQuantized", [u8(6, 16), q([1]), abs(f(6, 2)), u8(6, 1)], fixed=[0, 2, 3], bits=4,
         **table)
    case("table8", "GatherBlockQuantized", [u8(6, 32), q([1, -1]), abs(f(6, 2))], fixed=[0, 2], bits=8, **table)


def rotary():
    tables, places = [f(10, 4), f(10, 4)], q([[0, 1, 2], [3, 4, 5]])
    case("rotary_pairs", "RotaryEmbedding", [f(2, 2, 3, 8), places] + tables, interleaved=1)
    case("rotary_offset", "RotaryEmbedding", [f(2, 2, 3, 8), q([2])] + tables)
    case("rotary_flat", "RotaryEmbedding", [f(2, 3, 16), places] + tables)
    case("rotary_part", "RotaryEmbedding", [f(2, 3, 24), places] + tables, num_heads=2, rotary_embedding_dim=8)
    new = {"domain": "", "opset": 23}
    case("rotary23_pairs", "RotaryEmbedding", [f(2, 2, 3, 8)] + tables + [places], interleaved=1, **new)
    case("rotary23_part", "RotaryEmbedding", [f(2, 3, 24)] + tables + [places], num_heads=2, rotary_embedding_dim=8,
         **new)


def attention():
    x, w, b = f(2, 3, 8), f(8, 24), f(24)
    for name, mask in (("none", None), ("keys", j([[1, 1, 0], [1, 1, 1]])), ("ends", j([2, 3])),
                       ("pairs", j(random.integers(0, 2, (2, 3, 3)))), ("ranges", j([3, 2, 0, 1]))):
        case("attention_mask_" + name, "Attention", [x, w, b, mask], num_heads=2)
    case("attention_causal", "Attention", [x, w, b], num_heads=2, unidirectional=1)
    case("attention_bias", "Attention", [x, w, b, None, None, f(2, 2, 3, 3)], num_heads=2)
    case("attention_bias_shared", "Attention", [x, w, b, None, None, f(1, 2, 3, 3)], num_heads=2)
    case("attention_wide", "Attention", [x, f(8, 28), f(28)], num_heads=2, qkv_hidden_sizes=[8, 8, 12])
    case("attention_past_mask", "Attention", [x, w, b, j([[1] * 7, [0] + [1] * 6]), f(2, 2, 2, 4, 4)], ["y", "p"],
         num_heads=2, unidirectional=1)
    case("attention_scale", "Attention", [x, w, b], num_heads=2, scale=0.3)
    query, key, value, short = f(2, 3, 8), f(2, 5, 8), f(2, 5, 8), f(2, 3, 8)
    past = [None, None, None, f(2, 2, 4, 4), f(2, 2, 4, 4)]
    several = "MultiHeadAttention"
    case("heads_bias", several, [query, key, value, f(24)], num_heads=2)
    case("heads_mask", several, [query, key, value, None, j([[1, 1, 1, 0, 0], [1] * 5])], num_heads=2)
    case("heads_ends", several, [query, key, value, None, j([3, 5])], num_heads=2)
    case("heads_bias_shared", several, [query, key, value, None, None, f(1, 2, 3, 5)], num_heads=2)
    case("heads_past", several, [query, short, short] + past, ["y", "k", "v"], num_heads=2)
    case("heads_past_causal", several, [query, short, short] + past, ["y", "k", "v"], num_heads=2, unidirectional=1)
    case("heads_wide", several, [query, key, f(2, 5, 12)], num_heads=2, scale=0.2)
    pairs = j(random.integers(0, 2, (2, 3, 3)) | numpy.eye(3, dtype=int))
    case("heads_pairs", several, [query, short, short, None, pairs], num_heads=2)


def groups():
    heads, kv, size = 4, 2, 16

    def group(name, batch, new, past, *, packed=False, turned=False, more=(), **attributes):
        q_, kv_ = f(batch, new, (heads + 2 * kv if packed else heads) * size), (batch, new, kv * size)
        keys = [None, None] if packed else [f(*kv_), f(*kv_)]
        tables = [f(32, size // 2), f(32, size // 2)] if turned else [None, None]
        total = past + new
        case("group_" + name, "GroupQueryAttention",
             [q_] + keys + [f(batch, kv, past, size), f(batch, kv, past, size), j([total - 1] * batch), j(total)] +
             tables + list(more), ["y", "k", "v"], fixed=[6], num_heads=heads, kv_num_heads=kv, do_rotary=int(turned),
             **attributes)
    group("packed", 1, 4, 0, packed=True)
    group("rotary", 1, 4, 0, turned=True)
    group("rotary_step", 2, 1, 5, turned=True)
    group("rotary_pairs", 1, 1, 5, turned=True, rotary_interleaved=1)
    group("packed_rotary", 1, 1, 5, packed=True, turned=True)
    group("softcap", 1, 4, 0, softcap=2.0)
    group("smooth", 1, 4, 0, smooth_softmax=1)
    group("sink", 1, 4, 0, more=[None, None, f(heads)])
    group("scale", 1, 4, 0, scale=0.3)
    group("several", 1, 3, 5)
    group("rotary_several", 1, 3, 5, turned=True)
    group("bias", 1, 4, 0, more=[None, f(1, 1, 4, 4)])
    group("window", 1, 6, 0, local_window_size=3)
    group("positions", 1, 4, 0, turned=True, more=[q([[0, 1, 2, 3]])])


def standard_attention():
    new = {"domain": "", "opset": 23}
    case("attention23_softcap", "Attention", [f(1, 2, 3, 4), f(1, 2, 3, 4), f(1, 2, 3, 4)], softcap=1.5, is_causal=1,
         **new)
    shared = [f(1, 4, 3, 4), f(1, 2, 5, 4), f(1, 2, 5, 4)]
    case("attention23_scores", "Attention", shared + [f(3, 5)], ["y", "", "", "qk"], qk_matmul_output_mode=1,
         softcap=2.0, **new)
    case("attention23_shares", "Attention", shared + [f(4, 3, 5)], ["y", "", "", "qk"], qk_matmul_output_mode=3, **new)
    case("attention23_mask", "Attention",
         [f(2, 2, 3, 4), f(2, 2, 5, 4), f(2, 2, 5, 6), random.integers(0, 2, (2, 1, 3, 5)).astype(bool)], **new)
    case("attention24_flat", "Attention", [f(2, 3, 8), f(2, 3, 4), f(2, 3, 4)], domain="", opset=24, q_num_heads=4,
         kv_num_heads=2, is_causal=1)
    case("scatter_axis1", "TensorScatter", [f(2, 6, 3), f(2, 2, 3), q([1, 3])], domain="", opset=24, axis=1)
    case("scatter_start", "TensorScatter", [f(2, 6, 3), f(2, 2, 3)], domain="", opset=24, axis=-2)
    case("causal_conv_1", "CausalConvWithState", [f(2, 3, 5), f(3, 1, 1), f(3)], ["y", "state"], activation="silu")
    case("causal_conv_step", "CausalConvWithState", [f(2, 3, 1), f(3, 1, 4), None, f(2, 3, 3)], ["y", "state"],
         activation="none")
    for rule in "linear", "gated", "delta", "gated_delta":
        for kv in 1, 2:
            case("%s_%d" % (rule, kv), "LinearAttention",
                 [f(1, 4, 6), f(1, 4, kv * 3), f(1, 4, kv * 5), f(1, kv, 3, 5),
                  -abs(f(1, 4, kv)) if "gated" in rule else None, abs(f(1, 4, kv)) * 0.5 if "delta" in rule else None],
                 ["y", "state"], update_rule=rule, q_num_heads=2, kv_num_heads=kv, scale=0.5)


def quantised():
    one = numpy.int8
    form = [s(), z()]
    two = {"fixed": [1, 2, 4, 5, 6, 7]}
    case("add_broadcast", "QLinearAdd", [u8(2, 3, 4), s(.1), z(), u8(4), s(.2), z(), s(.3), z()], **two)
    case("add_int8", "QLinearAdd", [i8(1), s(.1), z(1, one), i8(2, 3), s(.2), z(-1, one), s(.3), z(2, one)], **two)
    case("mul_broadcast", "QLinearMul", [u8(2, 1, 4), s(.1), z(), u8(3, 1), s(.2), z(), s(.9), z()], **two)
    single = {"fixed": [1, 2, 3, 4]}
    case("sigmoid_int8", "QLinearSigmoid", [i8(2, 3), s(), z(2, one), s(1 / 256), z(-128, one)], **single)
    case("leaky_int8", "QLinearLeakyRelu", [i8(2, 3), s(), z(2, one), s(.04), z(-1, one)], alpha=0.2, **single)
    case("softmax", "QLinearSoftmax", [u8(2, 5)] + form + [s(1 / 256), z(0)], axis=-1, opset_attribute=13, **single)
    case("mean_last", "QLinearGlobalAveragePool", [u8(2, 5, 3, 4)] + form + [s(.06), z()], channels_last=1, **single)
    case("pool_ceil", "QLinearAveragePool", [u8(1, 2, 5, 5)] + form + [s(.06), z()], kernel_shape=[2, 2],
         strides=[2, 2], ceil_mode=1, **single)
    case("pool_padded", "QLinearAveragePool", [u8(1, 2, 5, 5)] + form + [s(.06), z()], kernel_shape=[3, 3],
         pads=[1, 1, 1, 1], count_include_pad=1, **single)
    case("concat_three", "QLinearConcat",
         [s(.1), z(), u8(2, 3), s(.1), z(), u8(2, 2), s(.2), z(), u8(2, 1), s(.05), z()],
         fixed=[0, 1, 3, 4, 6, 7, 9, 10], axis=-1)
    case("concat_rows", "QLinearConcat", [s(.1), z(), u8(2, 3), s(.1), z(), u8(1, 3), s(.2), z()],
         fixed=[0, 1, 3, 4, 6, 7], axis=0)
    case("where_broadcast", "QLinearWhere",
         [numpy.array([[True], [False]]), u8(3), s(.1), z(), u8(2, 3), s(.2), z(), s(.2), z()],
         fixed=[2, 3, 5, 6, 7, 8])
    weights = [i8(3, 2, 3, 3), abs(f(3)), numpy.zeros(3, one), s(.5), z(), j([1, 2, 3])]
    conv = {"fixed": [1, 2, 3, 4, 5, 6, 7, 8]}
    case("conv", "QLinearConv", [u8(1, 2, 5, 5)] + form + weights, **conv)
    case("conv_last", "QLinearConv", [u8(1, 5, 5, 2)] + form + weights, channels_last=1, pads=[1, 1, 1, 1],
         strides=[2, 2], **conv)
    conv = {"fixed": [1, 2, 3, 4, 5, 6, 7]}
    case("conv_last_groups", "QLinearConv",
         [i8(2, 6, 7, 4), s(), z(2, one), i8(6, 2, 3, 2), s(.03), z(1, one), s(.5), z(-3, one)], channels_last=1,
         group=2, dilations=[2, 1], pads=[1, 0, 2, 1], **conv)
    case("conv_line", "QLinearConv", [u8(2, 3, 9)] + form + [u8(4, 3, 3), s(.03), z(120), s(2.), z()], strides=[2],
         pads=[1, 0], **conv)
    case("dynamic_zero_bias", "DynamicQuantizeMatMul", [f(2, 3, 4), u8(4, 5), s(.02), z(128), f(5)], fixed=[1, 2, 3, 4])
    case("dynamic_columns", "DynamicQuantizeMatMul", [f(3, 4), i8(4, 5), abs(f(5)) * .02], fixed=[1, 2])
    case("integer_all", "MatMulIntegerToFloat", [u8(3, 4), i8(4, 5), s(.1), abs(f(5)), z(), i8(5), f(5)],
         fixed=[1, 2, 3, 4, 5, 6])
    case("gemm_turned", "QGemm",
         [u8(4, 3), s(.1), z(), i8(5, 4), abs(f(5)), numpy.zeros(5, one), j(random.integers(-50, 50, 5)), s(.5), z()],
         fixed=range(1, 9), transA=1, transB=1)
    case("quantise_axis", "QuantizeLinear", [f(2, 3, 4), abs(f(3)) * .1, u8(3)], fixed=[1, 2], axis=1)
    case("dequantise_axis", "DequantizeLinear", [u8(2, 3, 4), abs(f(4)), u8(4)], fixed=[1, 2], axis=2)
    case("dequantise_int32", "DequantizeLinear", [j(random.integers(-99, 99, (2, 3))), s(.1)], fixed=[1])
    case("attention_ends", "QAttention", [u8(2, 3, 8), i8(8, 24), f(24), s(), s(.02), j([2, 3]), z(), z(0, one)],
         fixed=[1, 2, 3, 4, 6, 7], num_heads=2)
    case("attention_columns", "QAttention",
         [u8(2, 3, 8), i8(8, 24), f(24), s(), abs(f(24)) * .02, None, z(), numpy.zeros(24, one)],
         fixed=[1, 2, 3, 4, 6, 7], num_heads=2, unidirectional=1)


def experts():
    case("experts_one", "MoE", [f(4, 8), f(4, 3), f(3, 16, 8), f(3, 16), f(3, 8, 16), f(3, 8)], k=1,
         activation_type="relu")
    case("experts_gelu", "MoE", [f(4, 8), f(4, 3), f(3, 16, 8), None, f(3, 8, 16)], k=2, activation_type="gelu")
    case("experts_swiglu", "MoE", [f(2, 3, 8), f(6, 4), f(4, 32, 8), f(4, 32), f(4, 8, 16), f(4, 8)], k=2,
         activation_type="swiglu", swiglu_fusion=1, normalize_routing_weights=1)


TYPES = {"float32": TensorProto.FLOAT, "uint8": TensorProto.UINT8, "int8": TensorProto.INT8, "int32": TensorProto.INT32,
         "int64": TensorProto.INT64, "bool": TensorProto.BOOL}


def write(folder, one):
    name, node, arrays, fixed, outputs, opset = one
    os.makedirs(os.path.join(folder, name), exist_ok=True)
    graph = helper.make_graph(
        [node], "g", [helper.make_tensor_value_info(n, TYPES[str(x.dtype)], x.shape) for n, x in arrays.items()
                      if n not in fixed], [onnx.ValueInfoProto(name=o) for o in outputs],
        [numpy_helper.from_array(numpy.array(x, order="C"), n) for n, x in arrays.items() if n in fixed])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset), helper.make_opsetid(MS, 1)])
    model.ir_version = 10
    path = os.path.join(folder, name, "model.onnx")
    onnx.save(model, path)
    inputs = []
    for n in sorted(set(arrays) - fixed):
        at = os.path.join(folder, name, n)
        numpy.array(arrays[n], order="C").tofile(at + ".bin")
        numpy.save(at + ".npy", arrays[n])
        inputs.append({"name": n, "type": str(arrays[n].dtype), "dims": list(arrays[n].shape), "file": at + ".bin"})
    return {"model": path, "folder": os.path.join(folder, name), "inputs": inputs}


def differs(tenure, run, entry):
    """What is wrong with Tenure's outputs; "" when nothing is."""
    line = [tenure, "run", run["model"], "--json", "--output-dir", run["folder"], "--poison"]
    for each in run["inputs"]:
        line += ["--input", "%s=%s" % (each["name"], each["file"][:-4] + ".npy")]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    if done.returncode:
        return done.stderr.strip()
    for i, output in enumerate(entry["outputs"]):
        wanted = numpy.fromfile(os.path.join(run["folder"], "%d.bin" % i), output["type"]).reshape(output["dims"])
        got = numpy.load(os.path.join(run["folder"], output["name"] + ".npy"))
        if got.shape != wanted.shape or got.dtype != wanted.dtype:
            return "%s is %s%s, not %s%s" % (output["name"], got.dtype, got.shape, wanted.dtype, wanted.shape)
        limit = 1 if wanted.dtype.kind in "iu" else 2e-4 * max(1e-9, numpy.abs(wanted).max(initial=0))
        error = numpy.abs(got.astype(float) - wanted.astype(float)).max(initial=0)
        if not error <= limit:
            return "%s: error %.2g, limit %.2g" % (output["name"], error, limit)
    return ""


def main():
    tenure, folder, chosen = sys.argv[1], os.path.abspath(sys.argv[2]), sys.argv[3:]
    if not os.path.isdir(os.path.join(folder, "node_modules", "onnxruntime-node")):
        os.makedirs(folder, exist_ok=True)
        done = subprocess.run(["npm", "install", "--ignore-scripts", "--no-save", "--no-package-lock", "--prefix",
                               folder, PACKAGE], capture_output=True, text=True, check=False)
        if done.returncode:
            print("SKIP: npm cannot install %s: %s" % (PACKAGE, done.stderr[-200:]))
            return 77
    for family in (norms, curves, products, packed_weights, rotary, attention, groups, standard_attention, quantised,
                   experts):
        family()
    runs = [write(os.path.join(folder, "variants"), one) for one in cases if not chosen or one[0] in chosen]
    manifest = os.path.join(folder, "variants.json")
    with open(manifest, "w", encoding="utf-8") as file:
        json.dump({"modules": folder, "runs": runs}, file)
    done = subprocess.run(["node", os.path.join(HERE, "ort_run.mjs"), manifest], capture_output=True, text=True,
                          check=False)
    entries = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    wrong = len(runs) - len(entries)
    if wrong:
        print("ONNX Runtime ended after %d of %d models: %s" % (len(entries), len(runs), done.stderr[-300:]))
    for run, entry in zip(runs, entries):
        reason = "ONNX Runtime: " + entry["error"] if "error" in entry else differs(tenure, run, entry)
        if reason:
            print("%s: %s" % (os.path.basename(run["folder"]), reason[-300:]))
            wrong += 1
    print("%d models of one operator, %d of them wrong" % (len(runs), wrong))
    return 1 if wrong else 0


sys.exit(main())
