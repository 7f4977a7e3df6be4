#!/usr/bin/env python3
"""Node data for Model Explorer: node_data.py TENURE MODELS

The live bytes at each operator are summed here from the buffers and steps of the plan as JSON. The file must have
the form that Model Explorer documents, and one entry for each operator, under the name of one of its outputs.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

tenure, models = sys.argv[1], pathlib.Path(sys.argv[2])


def run(*words):
    done = subprocess.run([tenure, *map(str, words)], capture_output=True, text=True)
    return done.returncode, done.stderr


def live_at(plan, step):
    """Bytes of the sections that are live; a buffer without sections is one."""
    total = 0
    for buffer in plan["buffers"]:
        for piece in buffer.get("sections") or [{"first": buffer["first"], "last_excl": buffer["last_excl"], "lo": 0, "hi": buffer["size"]}]:
            if piece["first"] <= step < piece["last_excl"]:
                total += piece["hi"] - piece["lo"]
    return total


def check(model, *options):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        status, err = run("plan", model, *options, "--quiet", "-o", folder / "plan.json", "-o", folder / "plan.nodes.json")
        assert status == 0, err
        plan = json.loads((folder / "plan.json").read_text())
        data = json.loads((folder / "plan.nodes.json").read_text(), object_pairs_hook=no_twins)
    assert set(data) == {"name", "results", "gradient"} and data["name"] == "live MiB"
    assert [stop["stop"] for stop in data["gradient"]] == [0, 1]
    outputs = {}
    for tensor in plan["tensors"]:
        if tensor["node"] is not None:
            outputs.setdefault(tensor["node"], set()).add(tensor["name"])
    expected, checked = {}, 0
    for step, made in enumerate(plan["steps"]):
        if "node" in made:
            expected[made["node"]] = max(expected.get(made["node"], 0), live_at(plan, step))
    for node, live in expected.items():
        found = [data["results"][name]["value"] for name in outputs.get(node, ()) if name in data["results"]]
        for value in found:
            assert abs(value * 2**20 - live) <= 1e-6 * live, (model.name, node, value * 2**20, live)
            checked += 1
    assert checked >= 0.8 * len(expected) > 0, (model.name, checked, len(expected))
    assert len(data["results"]) <= len(expected)
    return checked


def no_twins(pairs):
    keys = [key for key, _ in pairs]
    assert len(set(keys)) == len(keys), "a key is given twice"
    return dict(pairs)


total = 0
for each in sorted(models.glob("*.onnx")) + sorted(models.glob("*.tflite")):
    total += check(each)
total += check(models / "two_branches.onnx", "--order", "memory")
problem = models.parent / "problems" / "nine_buffers.csv"
with tempfile.TemporaryDirectory() as name:
    status, err = run("plan", problem, "--quiet", "-o", f"{name}/x.nodes.json")
    assert status == 2 and "the format is for models" in err, err
print(f"{total} operators: all as expected")
