#!/usr/bin/env python3
"""Ctrl-C while `tenure fit` works, at any moment: the best so far, or that there is none. interrupt.py TENURE MODELS

Each command is run once to its end, then interrupted at moments over all that time. Whatever comes out is a whole answer
that keeps to what was asked, or status 3 and nothing; or the process was ended by the signal before it listened. Files are
as they were, or complete. Among all there are answers that say that they were stopped early.
"""
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time

TENURE, MODELS = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
UNET = [TENURE, "fit", f"{MODELS}/unet64.onnx", "--train"]
MODEL = ["--costs", "model:v100-16"]
BUDGET = 470000000
SEED = int(sys.argv[3]) if len(sys.argv) > 3 else random.randrange(1 << 30)
MOMENTS = 3


def start(words):
    """As from a terminal: not ignored, as it is of what a script runs beside itself."""
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))


def check_fit(answers):
    assert len(answers) == 1 and answers[0]["bytes"] <= BUDGET, answers


def check_curve(answers):
    times = [answer["time"] for answer in answers]
    assert len(answers) == 3 and times == sorted(times, reverse=True), times
    assert all(answer["bytes"] <= answer["budget"] for answer in answers), answers


def check_batch(answers):
    assert len(answers) == 1 and answers[0]["bytes"] <= 160 << 20, answers


def check_any(answers):
    assert len(answers) == 1, answers


COMMANDS = [
    (UNET + MODEL + ["--budget", str(BUDGET), "-o", "plan.json"], check_fit),
    (UNET + MODEL + ["--sweep", "3", "-o", "plan.json"], check_curve),
    ([TENURE, "fit", f"{MODELS}/mobilenet_v2.onnx", "--train", "--max-batch", "--budget", "160MiB", *MODEL], check_batch),
    ([TENURE, "fit", f"{MODELS}/mobilenet_v2.onnx", "--batch", "1", "--budget", "1GiB", "--save-costs", "costs.json"],
     check_any),
]


def whole_files():
    """A file that is there is complete; nothing else is left."""
    for name in os.listdir("."):
        assert name in ("plan.json", "costs.json"), name
        with open(name, encoding="utf-8") as file:
            json.load(file)
        os.remove(name)


def interrupted(words, check, after):
    process = start(words + ["--json"])
    time.sleep(after)
    process.send_signal(signal.SIGINT)
    out, told = process.communicate()
    kind = "killed"
    if process.returncode == 0:
        answers = json.loads(out)["answers"]
        check(answers)
        kind = "stopped" if any(answer["stopped"] for answer in answers) else "whole"
    elif process.returncode == 3:
        assert out == "" and told.startswith("tenure: "), (out, told)
        kind = "none"
    else:
        assert process.returncode == -signal.SIGINT and out == "", (process.returncode, out, told)
    whole_files()
    return kind


def main():
    rng = random.Random(SEED)
    kinds = []
    for words, check in COMMANDS:
        began = time.monotonic()
        out, told = start(words + ["--json"]).communicate()
        took = time.monotonic() - began
        assert out != "", told
        check(json.loads(out)["answers"])
        whole_files()
        row = [interrupted(words, check, took * (moment + rng.random()) / MOMENTS) for moment in range(MOMENTS)]
        print(" ".join(words[2:]), "".join(f" {kind}" for kind in row), f"of {took:.1f} s", flush=True)
        kinds += row
    assert "stopped" in kinds, kinds


print(f"seed {SEED}", flush=True)
with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    main()
    os.chdir("/")
