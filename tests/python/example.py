#!/usr/bin/python3
"""examples/pytorch/fit.py as a user runs it: both losses that it prints are one.

    example.py SOURCE LIBRARY

Exit status: 0 they are, 1 not, 77 python3-torch is absent.
"""
import os
import pathlib
import subprocess
import sys

try:
    import torch  # noqa: F401
except ImportError:
    print("SKIP: python3-torch is not installed")
    sys.exit(77)
source = pathlib.Path(sys.argv[1]).resolve()
at = dict(os.environ, TENURE_LIBRARY=os.path.abspath(sys.argv[2]), PYTHONPATH=str(source / "bindings/python"),
          PYTHONDONTWRITEBYTECODE="1", OMP_NUM_THREADS="1")
told = subprocess.run([sys.executable, str(source / "examples/pytorch/fit.py")], env=at, stdout=subprocess.PIPE,
                      universal_newlines=True, check=True).stdout
print(told)
losses = [line for line in told.splitlines() if line.startswith("loss")]
sys.exit(0 if len(losses) == 2 and losses[0] == losses[1] and "instead of" in told else 1)
