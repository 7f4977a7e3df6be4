#!/usr/bin/env python3
"""The cache of random .gguf files, compared with llama.cpp's rules, which are written here a second time.

    gguf_caches.py TENURE [CASES] [SEED]

A file has random sizes: numbers or lists of KV heads, windows with and without a pattern (a number or a list), heads of
another size in windows, shared caches, states, layers that predict further tokens, indexes. WINDOWS and STATES are the
tables of llama.cpp b10256. No code is shared with the library.
"""
import json
import random
import struct
import subprocess
import sys
import tempfile

tenure = sys.argv[1]
cases = int(sys.argv[2]) if len(sys.argv) > 2 else 250
seed = int(sys.argv[3]) if len(sys.argv) > 3 else 34
pick = random.Random(seed)

# window without a key, every n-th layer is full, the full layer is first, use of a list ("", "used", "needed")
WINDOWS = {
    "afmoe": (0, 4, False, ""), "cohere2": (0, 4, False, ""), "cohere2moe": (0, None, True, "used"),
    "exaone-moe": (128, 4, False, ""), "exaone4": (4096, 4, False, ""), "gemma2": (4096, 2, False, ""),
    "gemma3": (0, 6, False, ""), "gemma3n": (0, 5, False, ""), "gemma4": (0, None, False, "needed"),
    "gpt-oss": (0, 2, False, ""), "laguna": (0, 4, True, ""), "llama4": (8192, 4, False, ""),
    "mellum": (0, 4, False, "used"), "mimo2": (0, None, False, "needed"), "olmo2": (0, 4, False, ""),
    "plamo3": (0, 8, False, ""), "smallthinker": (4096, 4, True, ""), "step35": (0, None, False, "needed"),
}
# which layers keep a state, and which keys give its size
STATES = {
    "falcon-h1": ("both", "ssm"), "granitehybrid": ("no heads", "ssm"), "jamba": ("no heads", "ssm"),
    "plamo2": ("no heads", "ssm"), "mamba": ("all", "ssm"), "mamba2": ("all", "ssm"), "nemotron_h": ("no parts", "ssm"),
    "nemotron_h_moe": ("no parts", "ssm"), "qwen3next": ("interval", "ssm"), "qwen35": ("interval", "ssm"),
    "qwen35moe": ("interval", "ssm"), "kimi-linear": ("no heads", "kda"), "lfm2": ("no heads", "conv"),
    "lfm2moe": ("no heads", "conv"), "rwkv6": ("all", "wkv"), "rwkv7": ("all", "wkv"), "rwkv6qwen2": ("all", "wkv"),
    "arwkv7": ("all", "wkv"),
}
PLAIN = ["llama", "qwen2", "qwen3moe", "phi3", "starcoder2", "deepseek2", "glm4moe", "deci", "an-unknown-one"]
INDEXED = ["deepseek32", "glm-dsa", "minimax-m3"]
FURTHER_WITHOUT_CACHE = {"step35", "glm-dsa", "mimo2", "deepseek32", "qwen3next", "qwen35", "qwen35moe"}
BYTES = {"f16": lambda n: 2 * n, "q8_0": lambda n: n * 34 // 32, "q4_0": lambda n: n * 18 // 32}


def text(word):
    return struct.pack("<Q", len(word)) + word.encode()


def key(name, value):
    if isinstance(value, str):
        return text(name) + struct.pack("<I", 8) + text(value)
    if isinstance(value, list) and isinstance(value[0], bool):
        return text(name) + struct.pack("<IIQ", 9, 7, len(value)) + bytes(value)
    if isinstance(value, list):
        return text(name) + struct.pack("<IIQ%di" % len(value), 9, 5, len(value), *value)
    return text(name) + struct.pack("<II", 4, value)


def write(path, arch, keys):
    body = key("general.architecture", arch) + b"".join(key(arch + "." + name, keys[name]) for name in keys)
    with open(path, "wb") as file:
        file.write(b"GGUF" + struct.pack("<IQQ", 3, 0, len(keys) + 1) + body + bytes(-(24 + len(body)) % 32))


def windowed(arch, keys, layers):
    """The window, and for each layer whether it has one."""
    window, pattern = keys.get("attention.sliding_window"), keys.get("attention.sliding_window_pattern")
    if arch == "lfm2":
        return window or 0, [bool(window)] * layers
    if arch not in WINDOWS:
        return 0, [False] * layers
    default, period, first, listed = WINDOWS[arch]
    if arch == "exaone4" and layers != 64 or window == 0 or arch == "smallthinker" and window is None:
        return 0, [False] * layers
    window = default if window is None or arch in ("llama4", "smallthinker") else window
    if window == 0:
        return 0, [False] * layers
    if listed and isinstance(pattern, list):
        return window, pattern
    if listed == "needed":
        return window, [bool(pattern) and isinstance(pattern, int)] * layers
    period = pattern if isinstance(pattern, int) and pattern else period
    if period is None:
        return 0, [False] * layers
    return window, [layer % period != 0 if first else layer % period < period - 1 for layer in range(layers)]


def random_file():
    arch = pick.choice(list(WINDOWS) + list(STATES) + PLAIN + INDEXED)
    kind, sizes = STATES.get(arch, (None, None))
    layers, heads = pick.choice([4, 5, 12, 30, 35, 64]), pick.choice([4, 8, 16])
    hidden = heads * pick.choice([32, 64, 128])
    keys = {"embedding_length": hidden, "block_count": layers, "attention.head_count": heads,
            "feed_forward_length": 256, "context_length": 131072}
    if pick.random() < 0.7:
        keys["attention.head_count_kv"] = pick.choice([1, 2, 4])
    if kind in ("no heads", "no parts") or pick.random() < 0.3:
        some = [0, 0, 1, 2, 4] if kind or arch == "deci" else [1, 2, 4]
        keys["attention.head_count_kv"] = [pick.choice(some) for _ in range(layers)]
    if kind == "no parts":
        keys["feed_forward_length"] = [0 if n else pick.choice([0, 256]) for n in keys["attention.head_count_kv"]]
    for name in ("key_length", "value_length", "key_length_swa", "value_length_swa"):
        if pick.random() < 0.5:
            keys["attention." + name] = pick.choice([32, 64, 128, 256])
    if pick.random() < 0.15:
        keys["attention.key_length_mla"] = 192
        if pick.random() < 0.6:
            keys["attention.value_length_mla"] = 128
    if pick.random() < 0.75:
        keys["attention.sliding_window"] = pick.choice([0, 128, 512, 1024, 4096])
    if pick.random() < 0.5:
        keys["attention.sliding_window_pattern"] = pick.choice(
            [[pick.random() < 0.6 for _ in range(layers)], pick.choice([0, 2, 3, 6])])
    if pick.random() < 0.2:
        keys["nextn_predict_layers"] = pick.choice([1, 2])
    if arch == "gemma4" and pick.random() < 0.5:
        keys["attention.shared_kv_layers"] = pick.choice([1, 2, 3])
    if sizes == "ssm":
        keys.update({"ssm.conv_kernel": pick.choice([3, 4]), "ssm.inner_size": pick.choice([512, 4096]),
                     "ssm.state_size": pick.choice([16, 128]), "ssm.group_count": pick.choice([0, 1, 8])})
    elif sizes == "wkv":
        keys.update({"wkv.head_size": 64, "token_shift_count": pick.choice([1, 2])})
    elif sizes == "conv":
        keys["shortconv.l_cache"] = pick.choice([3, 4])
    elif sizes == "kda":
        keys.update({"kda.head_dim": 128, "ssm.conv_kernel": 4})
    if kind == "interval" and pick.random() < 0.5:
        keys["full_attention_interval"] = pick.choice([3, 4])
    if kind == "interval" and pick.random() < 0.3:
        keys["attention.recurrent_layers"] = [pick.random() < 0.7 for _ in range(layers)]
    if arch in INDEXED and pick.random() < 0.8:
        keys["attention.indexer.key_length"] = 128
        if arch == "minimax-m3" and pick.random() < 0.5:
            keys["leading_dense_block_count"] = 3
        if arch == "glm-dsa" and pick.random() < 0.5:
            keys["attention.indexer.types"] = [pick.choice([0, 1]) for _ in range(layers)]
    return arch, keys


def state_numbers(keys, kind, sizes):
    hidden, heads = keys["embedding_length"], keys["attention.head_count"]
    if sizes == "ssm":
        inner, size = keys["ssm.inner_size"], keys["ssm.state_size"]
        return (keys["ssm.conv_kernel"] - 1) * (inner + 2 * keys["ssm.group_count"] * size) + size * inner
    if sizes == "wkv":
        return hidden * 64 + keys["token_shift_count"] * hidden
    return hidden * (keys["shortconv.l_cache"] - 1) if sizes == "conv" else 9 * heads * 128 + heads * 128 * 128


def expected(arch, keys, tokens, batch, width):
    """Bytes of the cache: of the tokens alone, and as llama.cpp allocates it (cells rounded to 256, passes of 512)."""
    kind, sizes = STATES.get(arch, (None, None))
    layers, heads = keys["block_count"], keys["attention.head_count"]
    if arch in FURTHER_WITHOUT_CACHE:
        layers -= keys.get("nextn_predict_layers", 0)
    plain = keys["embedding_length"] // heads
    full = [keys.get("attention.%s_length" % part, plain) for part in ("key", "value")]
    short = [keys.get("attention.%s_length_swa" % part, full[part == "value"]) for part in ("key", "value")]
    keys_alone = "attention.key_length_mla" in keys and "attention.value_length_mla" in keys
    window, windows = windowed(arch, keys, layers)
    owners = layers - keys.get("attention.shared_kv_layers", 0) if arch == "gemma4" else layers
    owners = min(20, layers) if arch == "gemma3n" else owners
    kv_heads = keys.get("attention.head_count_kv", heads)
    inner, interval = keys["feed_forward_length"], keys.get("full_attention_interval", 4)
    cells = -(-tokens // 256) * 256
    exact = rounded = states = 0
    for layer in range(layers):
        n = kv_heads[layer] if isinstance(kv_heads, list) else kv_heads
        state = {"all": True, "both": True, "no heads": n == 0, None: False,
                 "no parts": n == 0 and isinstance(inner, list) and inner[layer] == 0,
                 "interval": (layer + 1) % interval != 0}[kind]
        if "attention.recurrent_layers" in keys:
            state = keys["attention.recurrent_layers"][layer]
        states += state
        if n == 0 or state and kind != "both" or layer >= owners:
            continue
        size = short if windows[layer] else full
        token = width(n * size[0]) + (0 if keys_alone else width(n * size[1]))
        kept = min(tokens, window) if windows[layer] else tokens
        held = min(cells, -(-(window + min(512, tokens * batch)) // 256) * 256) if windows[layer] else cells
        exact, rounded = exact + token * kept, rounded + token * held
        indexed = keys.get("attention.indexer.types", [1] * layers)[layer]
        if "attention.indexer.key_length" in keys and layer >= keys.get("leading_dense_block_count", 0) and indexed:
            token = width(128) + (width(full[1]) if arch == "minimax-m3" else 0)
            exact, rounded = exact + token * tokens, rounded + token * cells
    state = 4 * states * state_numbers(keys, kind, sizes) if states else 0
    return batch * (exact + state), batch * (rounded + state)


failed = 0
with tempfile.TemporaryDirectory() as folder:
    path = folder + "/model.gguf"
    for case in range(cases):
        arch, keys = random_file()
        tokens, batch = pick.choice([1000, 4096, 32768, 131072]), pick.choice([1, 1, 3])
        name = pick.choice(list(BYTES))
        write(path, arch, keys)
        done = subprocess.run([tenure, "estimate", path, "--json", "--device", "1000000GiB", "--cache-type", name,
                               "--sequence", str(tokens), "--batch", str(batch)], capture_output=True, text=True)
        want = expected(arch, keys, tokens, batch, BYTES[name])
        if not done.stdout:
            print("seed %d, case %d: %s %s\n  %s" % (seed, case, arch, keys, done.stderr))
            failed = 1
            continue
        found = json.loads(done.stdout)
        got = found["parts"].get("cache", 0), found["cache"]["allocated"]
        if got != want or found["fits"]:  # the file has no tensors
            print("seed %d, case %d: %s %s, %d x %d as %s\n  %s, not %s" % (seed, case, arch, keys, batch, tokens, name,
                                                                            got, want))
            failed = 1
print("%d random .gguf files of %d architectures" % (cases, len(WINDOWS) + len(STATES) + len(PLAIN) + len(INDEXED)))
sys.exit(failed)
