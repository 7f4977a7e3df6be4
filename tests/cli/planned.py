"""Plans inside .tflite models, read back by a reader that is not ours.

    planned.py TENURE FOLDER...

Every model of the folders is planned into a copy of itself. In the copy: the metadata has a number for each
tensor of all subgraphs, -1 for constants and variables, multiples of 16 for what lives in the arena; every tensor and
operator is what it was; the old file stands in it byte for byte. `tenure verify` accepts the copy, and
refuses one in which all tensors are moved to one place.
Exit status: 0 all right, 1 not, or there are no models.
"""
import glob
import os
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "import"))
from tflite import Model  # noqa: E402


def entries(model):
    return [e for e in model.metadata if e.blob(0) == b"OfflineMemoryAllocation"]


def numbers(model):
    blob = model.buffers[entries(model)[0].number(1, "I")].blob(0)
    return list(struct.unpack(f"<{len(blob) // 4}i", blob))


def check(tenure, path, folder):
    copy = os.path.join(folder, "copy.tflite")
    subprocess.run([tenure, "plan", path, "-o", copy], check=True, capture_output=True)
    with open(path, "rb") as file:
        old_bytes = file.read()
    with open(copy, "rb") as file:
        new_bytes = file.read()
    old, new = Model(path), Model(copy)
    plan = numbers(new)
    counts = [len(g.tables(0)) for g in new.graphs]
    used = {}  # of subgraph 0: name -> role
    assert new_bytes.endswith(old_bytes) and (len(new_bytes) - len(old_bytes)) % 16 == 0, "bytes"
    assert (new.tensors, new.ops, new.codes) == (old.tensors, old.ops, old.codes), "contents"
    assert len(entries(new)) == 1 and plan[:3] == [1, len(counts), sum(counts)], "head"
    assert len(plan) == 3 + sum(counts), "size"
    assert all(n == -1 or n >= 0 and n % 16 == 0 for n in plan[3:]), "alignment"
    for block, role, _, _, _, name in new.tensors:
        if block == 0:
            used[name] = role
    for i, tensor in enumerate(new.graphs[0].tables(0)):
        name = tensor.blob(3).decode("utf-8", "replace") or f"tensor {i}"
        planned = used.get(name) == "arena" and not tensor.number(5, "B")  # variables: the run time's tail
        assert (plan[3 + i] >= 0) == planned, f"place of {name}"
    answer = subprocess.run([tenure, "verify", copy], capture_output=True, text=True)
    assert answer.returncode == 0 and answer.stdout.startswith("valid"), answer.stdout + answer.stderr
    # all in one place: the first operator that does not work in place would overwrite what it reads
    at = new_bytes.index(struct.pack("<3i", *plan[:3])) + 12
    moved = b"".join(struct.pack("<i", min(n, 0)) for n in plan[3:])
    with open(copy, "wb") as file:
        file.write(new_bytes[:at] + moved + new_bytes[at + len(moved):])
    answer = subprocess.run([tenure, "verify", copy], capture_output=True, text=True)
    crowded = sum(n >= 0 for n in plan[3:]) > 1
    assert answer.returncode == 1 and answer.stdout.startswith("not valid") or not crowded, answer.stdout + answer.stderr
    # planned again, the plan is replaced
    again = os.path.join(folder, "again.tflite")
    subprocess.run([tenure, "plan", copy, "-o", again], check=True, capture_output=True)
    assert numbers(Model(again)) == plan and len(Model(again).buffers) == len(new.buffers), "again"


def main():
    paths = [p for folder in sys.argv[2:] for deep in ("", "/*")
             for p in sorted(glob.glob(folder + deep + "/*.tflite"))]
    bad = 0
    with tempfile.TemporaryDirectory() as folder:
        for path in paths:
            try:
                check(sys.argv[1], path, folder)
            except (AssertionError, subprocess.CalledProcessError) as problem:
                bad += 1
                print(f"FAILED: {path}: {problem}")
    print(f"{len(paths)} models planned inside, {bad} wrong")
    return 1 if bad or not paths else 0


sys.exit(main())
