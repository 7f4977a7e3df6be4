#!/usr/bin/env python3
"""Seeds of the fuzzer of snapshots: small ones of every kind that the tests' generator makes.

    make_snapshot_corpus.py FOLDER
"""
import os
import pickle
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "tests", "snapshot"))
import make_snapshots  # noqa: E402

CASES = {
    "plain2": ({"seed": 1}, 2),
    "plain3": ({"seed": 2, "stacks": "none"}, 3),
    "ring": ({"seed": 3, "ring": 30}, 4),
    "expandable": ({"seed": 4, "expandable": True, "stacks": "mixed"}, 5),
    "oom": ({"seed": 6, "limit": 230000000}, 4),
    "devices": ({"seed": 7, "devices": 2, "ring": 12}, 4),
    "list": ({"seed": 8, "layout": "list"}, 2),
}

for name, (case, protocol) in CASES.items():
    snapshot, _, _ = make_snapshots.make(enough=40, **case)
    with open(os.path.join(sys.argv[1], name + ".pickle"), "wb") as out:
        pickle.dump(snapshot, out, protocol)
