#!/usr/bin/env python3
"""Seeds of the fuzzer of pickles: every kind of value, in protocols 2 to 5, and what must be refused.

    make_pickle_corpus.py FOLDER
"""
import os
import pickle
import sys

shared = ["twice", 1.5]
loop = [1]
loop.append(loop)
CASES = {
    "numbers": [0, 255, 65535, -1, 2**31, 2**63, -2**63, 2**64 - 1, 2**64, -2**200, 0.1, True, False, None],
    "texts": ["", "a", "b" * 300, "\u00e9", b"", b"bytes", b"c" * 300, bytearray(b"d" * 9)],
    "containers": {"list": [shared, shared, [], [[]]], "tuples": ((), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4)), 7: {}},
    "long": [{"key": i, "other": "text %d" % i} for i in range(20)],
    "loop": loop,
}
REFUSED = {"global": b"\x80\x02cos\nsystem\nX\x02\x00\x00\x00ls\x85R.", "claims": b"\x80\x04\x8d" + b"\xff" * 8 + b".",
           "unmarked": b"\x80\x02]e.", "memo": b"\x80\x02]r\xff\xff\xff\x7f.", "stop": b"\x80\x02]](."}

for name, value in CASES.items():
    for protocol in range(2, 6):
        with open(os.path.join(sys.argv[1], "%s%d.pickle" % (name, protocol)), "wb") as out:
            pickle.dump(value, out, protocol)
for name, content in REFUSED.items():
    with open(os.path.join(sys.argv[1], name + ".pickle"), "wb") as out:
        out.write(content)
