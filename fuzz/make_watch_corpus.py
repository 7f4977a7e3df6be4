#!/usr/bin/env python3
"""Seeds of the fuzzer of published tables: small ones, as this package publishes them.

    TENURE_LIBRARY=build/libtenure.so make_watch_corpus.py FOLDER
"""
import os
import pathlib
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "bindings", "python"))
import tenure  # noqa: E402


def empty(watch):
    pass


def steps(watch):
    for step in range(40):
        watch.hold(step, 100 + step, line="train.py:%d" % (step % 3), module="encoder.%d" % (step % 2), category="activation")
        watch.step()


def full(watch):
    for key in range(9):
        watch.hold(key, 10 ** key, line="line %d" % key)
    watch.step()
    watch.label(3, category="gradient")
    for key in range(6):
        watch.release(key)


for make, rows in ((empty, 1), (steps, 8), (full, 4)):
    with tenure.Watch("seed", rows) as watch:
        make(watch)
        table = pathlib.Path("/dev/shm/tenure-watch-%d-seed" % os.getpid()).read_bytes()
    # without the room for mappings at its end, which the fuzzed reader does not see
    pathlib.Path(sys.argv[1], make.__name__ + ".bin").write_bytes(table[:-65536])
