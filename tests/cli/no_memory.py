#!/usr/bin/env python3
"""Every allocation of every command fails in turn, once and with all that follow: no_memory.py TENURE LIBRARY SOURCE [--all]

A run must end with exit status 4 (no memory) or as it does with memory; never by a signal. LIBRARY (failing.c) runs the program again
and again. Without --all it takes every so many-th allocation; TENURE_SEED chooses the first of them.
oneDNN is left out (--plain): it does not survive such a failure, as SECURITY.md says.
"""
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
from count import case_seed  # noqa: E402

TENURE, LIBRARY, SOURCE = (os.path.abspath(word) for word in sys.argv[1:4])
ALL = "--all" in sys.argv
MODELS, CORPUS = f"{SOURCE}/examples/models", f"{SOURCE}/fuzz/corpus"
FIRST = 1 + case_seed() % 9

# stride, then words; {m} models, {c} corpus
COMMANDS = [
    (1, "plan b.csv -o o.json -o o.csv"), (1, "plan {m}/five_operators.onnx -o o.html"), (1, "plan {m}/keywords.tflite --kernels any"),
    (1, "plan p.json --explain"), (1, "diff p.csv p.json"), (3, "diff {m}/five_operators.onnx five.json"),
    (9, "verify {m}/five_operators.onnx --plan five.json"), (1, "verify b.csv --plan p.csv"), (1, "arena {m}/keywords.tflite -o h.h"),
    (1, "estimate {m}/two_branches.onnx"), (1, "estimate {c}/config/gpt2.json"), (1, "estimate {c}/weights/plain.safetensors"),
    (1, "estimate {c}/config/gpt2.json --train --json"), (1, "estimate {c}/config/gpt2.json --train --batch 8 --sweep --devices 4 --device a100-80"),
    (1, "run {m}/five_operators.onnx --plain --trace t2.trace.json"), (5, "run {m}/two_branches.onnx --plain --weights random:1"),
    (7, "fit {m}/five_operators.onnx --budget 320 --costs model:v100-16"), (3, "split {m}/wake_words.tflite"),
    (3, "simulate {c}/log/in_place.log --policy window --budget 0.9 -o s.svg -o s.csv"), (1, "replay t.trace.csv -o r.svg -o r.pickle"),
    (1, "report {c}/snapshot/plain2.pickle -o r.html"), (1, "embed create new --rows 100 --dim 4"), (1, "embed show e.rows"),
    (1, "list planners"), (1, "help plan all"), (2, "completion bash"), (1, "plan --no-such-option"),
    (1, "plan -"), (3, "estimate shards"), (3, "estimate {c}/weights/llama.gguf"), (9, "plan {m}/five_operators.onnx --split"), (3, "diff p.csv p.json --json"),
    (9, "run {m}/five_operators.onnx --plain --input A=a.npy --output-dir ."), (9, "run {m}/five_operators.onnx --plain --input A=a.pb"),
    (9, "split {m}/wake_words.tflite -o w.tflite"), (9, "report t.pickle -o r2.svg"),
    (97, "plan lm.onnx --train --dim n=4"), (97, "train nothing.onnx --plain --data fashion-mnist:set --batch 4 --steps 1 --weights random:1"),
    (211, "train quantised.onnx --plain --data x=reals.npy,labels=y.npy --batch 16 --steps 2 --prune 0.5 --checkpoint p.ck --save-model s.onnx"),
    (211, "train lm.onnx --plain --data text:book.txt --batch 4 --steps 4 --resume d.ck --log d.csv --checkpoint e.ck"),
    (211, "train lm.onnx --plain --data text:book.txt --batch 4 --steps 2 --checkpoint c.ck --log l.csv --weights random:1"),
]


def quiet(*words):
    subprocess.run([TENURE, *words, "-q"], check=True)


def prepare():
    pathlib.Path("b.csv").write_text("id,lower,upper,size\na,0,3,600\nb,1,4,500\nc,3,6,700\n")
    quiet("plan", "b.csv", "-o", "p.csv", "-o", "p.json")
    quiet("plan", f"{MODELS}/five_operators.onnx", "-o", "five.json")
    quiet("run", f"{MODELS}/five_operators.onnx", "--plain", "--pool", "best-fit", "--trace", "t.trace.csv", "--trace", "t.pickle")
    os.mkdir("shards")
    shutil.copy(f"{CORPUS}/weights/plain.safetensors", "shards/model.safetensors")
    with open("a.npy", "wb") as file:
        head = "{'descr': '<f4', 'fortran_order': False, 'shape': (4, 4), }"
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", 118) + head.ljust(117).encode() + b"\n" + bytes(64))
    pathlib.Path("a.pb").write_bytes(b"\x08\x04\x08\x04\x10\x01\x4a\x40" + bytes(64))
    quiet("embed", "create", "e.rows", "--rows", "100", "--dim", "4")
    subprocess.run([sys.executable, f"{SOURCE}/tests/cli/train_models.py", "."], check=True)
    quiet("train", "lm.onnx", "--plain", "--data", "text:book.txt", "--batch", "4", "--steps", "2", "--checkpoint", "d.ck", "--log", "d.csv",
          "--weights", "random:1")


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    prepare()
    failed = tried = 0
    for stride, words in COMMANDS:
        words = words.format(m=MODELS, c=CORPUS).split()
        environment = dict(os.environ, LD_PRELOAD=LIBRARY, FAIL_TELL="tell", FAIL_REMOVE="new", FAIL_INPUT="b.csv", FAIL_FIRST="1" if ALL else str(FIRST),
                           FAIL_STRIDE="1" if ALL else str(9 * stride))
        begun = time.monotonic()
        done = subprocess.run([TENURE, *words], env=environment, capture_output=True)
        *wrong, summary = pathlib.Path("tell").read_text().splitlines()
        tried += int(summary.split()[0])
        if "--show" in sys.argv:
            print(words, summary, "%.1f s" % (time.monotonic() - begun), flush=True)
        assert int(summary.split()[0]) > 0, (words, summary)
        if done.returncode != 0:
            failed += 1
            print("FAILED: tenure", *words, "\n ", "\n  ".join(wrong[:5]), f"\n  {summary}")
    print(f"{tried} failing allocations in {len(COMMANDS)} commands, from {FIRST} on")
    os.chdir("/")
    sys.exit(failed != 0)
