#!/usr/bin/env python3
"""Writes the seeds of fuzz_weights: small files of weights as others write them, and broken ones.

    fuzz/make_weights_corpus.py FOLDER
"""
import json
import pathlib
import struct
import sys


def safetensors(tensors, metadata=None, pad=0):
    header, contents = {}, b""
    if metadata:
        header["__metadata__"] = metadata
    for name, dtype, shape, size in tensors:
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(contents), len(contents) + size]}
        contents += bytes(i % 251 for i in range(size))
    text = json.dumps(header).encode() + b" " * pad
    return struct.pack("<Q", len(text)) + text + contents


def string(text, wide=True):
    return struct.pack("<Q" if wide else "<I", len(text)) + text.encode()


def value(item):
    if isinstance(item, str):
        return struct.pack("<I", 8) + string(item)
    if isinstance(item, float):
        return struct.pack("<If", 6, item)
    if isinstance(item, list) and isinstance(item[0], str):
        return struct.pack("<IIQ", 9, 8, len(item)) + b"".join(map(string, item))
    if isinstance(item, list):
        return struct.pack("<IIQ", 9, 4, len(item)) + b"".join(struct.pack("<I", i) for i in item)
    return struct.pack("<II", 4, item)


def gguf(keys, tensors, alignment=32, version=3):
    """tensors: name, dims (fastest first), type, bytes."""
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(keys))
    for key, item in keys.items():
        head += string(key) + value(item)
    offset, contents = 0, b""
    for name, dims, kind, size in tensors:
        head += string(name) + struct.pack("<I", len(dims)) + b"".join(struct.pack("<Q", d) for d in dims)
        head += struct.pack("<IQ", kind, offset)
        room = -(-size // alignment) * alignment
        contents += bytes(i % 247 for i in range(size)) + bytes(room - size)
        offset += room
    return head + bytes(-len(head) % alignment) + contents


LLAMA = {"general.architecture": "llama", "general.name": "small", "llama.block_count": 2, "llama.context_length": 64,
         "llama.embedding_length": 64, "llama.feed_forward_length": 128, "llama.attention.head_count": 4,
         "llama.attention.head_count_kv": 2, "llama.rope.freq_base": 10000.0, "tokenizer.ggml.tokens": ["a", "b", "cd"]}
TENSORS = [("token_embd.weight", [64, 3], 1, 384), ("blk.0.attn_q.weight", [64, 64], 2, 64 * 36),
           ("blk.0.ffn_gate.weight", [64, 128], 8, 128 * 68), ("output_norm.weight", [64], 0, 256)]


def seeds():
    plain = safetensors([("a", "F32", [2, 3], 24), ("b", "BF16", [4], 8), ("scalar", "I64", [], 8), ("none", "F16", [0, 5], 0)],
                        {"format": "pt"})
    yield "plain.safetensors", plain
    yield "padded.safetensors", safetensors([("x.weight", "F8_E4M3", [3], 3), ("m", "BOOL", [2], 2)], pad=7)
    yield "empty.safetensors", safetensors([])
    yield "cut.safetensors", plain[:60]
    yield "overlap.safetensors", plain.replace(b"[24, 32]", b"[20, 28]")
    yield "outside.safetensors", plain.replace(b"[24, 32]", b"[24, 99]")
    yield "long.safetensors", struct.pack("<Q", 1 << 62) + plain[8:]
    yield "type.safetensors", plain.replace(b"BF16", b"BF17")
    small = gguf(LLAMA, TENSORS)
    yield "llama.gguf", small
    yield "heads.gguf", gguf({**LLAMA, "llama.attention.head_count_kv": [2, 2]}, TENSORS)
    yield "window.gguf", gguf({**{k.replace("llama", "gemma3"): v for k, v in LLAMA.items()}, "general.architecture": "gemma3",
                               "gemma3.attention.sliding_window": 16}, TENSORS)
    yield "aligned.gguf", gguf({**LLAMA, "general.alignment": 64}, TENSORS, 64)
    yield "cut.gguf", small[:200]
    yield "version.gguf", small.replace(b"GGUF\3", b"GGUF\11")
    yield "count.gguf", small[:8] + struct.pack("<Q", 1 << 60) + small[16:]


def main():
    folder = pathlib.Path(sys.argv[1])
    for name, content in seeds():
        (folder / name).write_bytes(content)


main()
