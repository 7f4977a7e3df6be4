#!/usr/bin/env python3
"""A little of bench/budgets.py and bench/same_bits.py, on networks that tests make: campaign.py WHICH TENURE MODELS BENCH"""
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
from count import case_count  # noqa: E402

WHICH, TENURE, MODELS, BENCH = sys.argv[1], *(os.path.abspath(word) for word in sys.argv[2:])
HERE = os.path.dirname(os.path.abspath(__file__))
WORDS = {
    "budgets": ["--count", str(case_count(6, 3)), "{folder}/cnn.onnx --batch 8 data=1x8x8:10", "{folder}/drop.onnx --batch 8 data=1x8x8:10",
                "{models}/two_branches.onnx"],
    "same_bits": ["--steps", str(case_count(12, 6)), "{folder}/drop.onnx --batch 8 data=1x8x8:10"],
}

with tempfile.TemporaryDirectory() as folder:
    subprocess.run([sys.executable, f"{HERE}/train_models.py", folder], check=True)
    words = [word.format(folder=folder, models=MODELS) for word in WORDS[WHICH]]
    sys.exit(subprocess.run([sys.executable, f"{BENCH}/{WHICH}.py", TENURE, *words], check=False).returncode)
