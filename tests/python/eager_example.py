#!/usr/bin/python3
"""examples/eager_tree_lstm.py and .c as users run them: the same ten losses, to the last bit, with and without a budget.

    eager_example.py SOURCE LIBRARY PROGRAM      PROGRAM: the C example

Exit status: 0 they are, 1 not, 77 numpy is not installed.
"""
import os
import pathlib
import subprocess
import sys

try:
    import numpy  # noqa: F401
except ImportError:
    print("SKIP: numpy is not installed")
    sys.exit(77)
source = pathlib.Path(sys.argv[1]).resolve()
at = dict(os.environ, TENURE_LIBRARY=os.path.abspath(sys.argv[2]), PYTHONPATH=str(source / "bindings/python"),
          PYTHONDONTWRITEBYTECODE="1")
lines = []
for command in ([sys.executable, str(source / "examples/eager_tree_lstm.py")], [os.path.abspath(sys.argv[3])]):
    told = subprocess.run(command, env=at, stdout=subprocess.PIPE, universal_newlines=True, check=True).stdout
    print(told)
    lines.append([line for line in told.splitlines() if line.startswith(("losses", "the same"))])
sys.exit(0 if lines[0] == lines[1] and len(lines[0]) == 2 and len(lines[0][0].split()) == 11 else 1)
