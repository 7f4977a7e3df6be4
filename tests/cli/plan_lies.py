#!/usr/bin/env python3
"""A plan of Tenure that states a wrong fact is refused, and the answer names it: plan_lies.py TENURE EXAMPLES

Every number of the first entries of each list is made one more and one less, every word gets a letter, every yes becomes no.
What records how the plan was found cannot be checked (RECORDS), and stays free.
"""
import copy
import json
import pathlib
import subprocess
import sys
import tempfile

tenure, examples = sys.argv[1], pathlib.Path(sys.argv[2]).resolve()
PLANS = [("models/five_operators.onnx",), ("models/two_branches.onnx", "--parallel", "safe"), ("models/unet64.onnx", "--train"),
         ("models/two_branches.onnx", "--streams", "2"), ("problems/allreduce.csv",),
         ("models/five_operators.onnx", "--bank", "a=8KiB@8GB/s", "--bank", "b=none@1GB/s"),
         # optimal for the objective, above the bound of the bytes; the first has no costs
         ("problems/branches.json", "--objective", "pairs"), ("problems/reuse_costs.csv", "--objective", "pairs", "--capacity", "5"),
         ("models/two_branches.onnx", "--objective", "waits", "--capacity", "8KiB"),
         ("models/two_branches.onnx", "--objective", "pairs", "--capacity", "8KiB")]
RECORDS = {"version", "input", "library", "command", "result.planner", "result.seed", "result.work"}


def facts(node, path=()):
    """(path, other values) of every fact, in the first two entries of each list."""
    if isinstance(node, dict):
        for name, value in node.items():
            yield from facts(value, path + (name,))
    elif isinstance(node, list):
        for i, value in enumerate(node[:2]):
            yield from facts(value, path + (i,))
    elif isinstance(node, bool):
        yield path, [not node]
    elif isinstance(node, (int, float)):
        yield path, [node + 1] + [node - 1] * (node > 0)
    elif isinstance(node, str):
        yield path, [node + "x"]


def is_true(path, value, said, buffers):
    """A lower bound may be lower than the one that the plan states: that claims less. An offset of a buffer without alignment
    may be another one that is free."""
    if path[-1] == "lower_bound":
        return path[0] == "pools" and value < said
    return path[0] == "buffers" and path[-1] == "offset" and buffers[path[1]].get("alignment", 1) == 1


def verify(source, plan):
    return subprocess.run([tenure, "verify", source, "--plan", plan], capture_output=True, text=True, timeout=120)


failed = tried = 0
with tempfile.TemporaryDirectory() as folder:
    plan, lie = f"{folder}/plan.json", f"{folder}/lie.json"
    for name, *words in PLANS:
        source = str(examples / name)
        subprocess.run([tenure, "plan", source, *words, "-q", "-o", plan], check=True, timeout=120)
        document = json.loads(pathlib.Path(plan).read_text())
        assert verify(source, plan).returncode == 0, (name, words)
        # "optimal" of an objective needs its value and its bound, also if a lie changes all of them
        for objective, bound in (("waits", "waits_bound"), ("time", "time_bound")):
            for changes in ({bound: None}, {bound: "0"}, {bound: -1}, {bound: 2 ** 60}):
                changed = copy.deepcopy(document)
                changed["result"].update({"status": "optimal", "objective": objective, **changes})
                changed["result"] = {key: value for key, value in changed["result"].items() if value is not None}
                pathlib.Path(lie).write_text(json.dumps(changed))
                done = verify(source, lie)
                tried += 1
                if done.returncode not in (1, 2):
                    failed += 1
                    print(f"FAILED: {name} {words}: optimal for {objective} with {changes} is accepted")
        for path, values in facts(document):
            dotted = ".".join(str(part) for part in path)
            if dotted in RECORDS or path[0] == "kernels":
                continue
            for value in values:
                changed = copy.deepcopy(document)
                at = changed
                for part in path[:-1]:
                    at = at[part]
                said, at[path[-1]] = at[path[-1]], value
                pathlib.Path(lie).write_text(json.dumps(changed))
                done = verify(source, lie)
                tried += 1
                if is_true(path, value, said, document["buffers"]):
                    continue
                if done.returncode not in (1, 2) or len(done.stdout + done.stderr) < 20:
                    failed += 1
                    print(f"FAILED: {name} {words}: {dotted} = {value!r} instead of {said!r} is accepted: {done.stdout}{done.stderr}")
print(f"{tried} changed plans of {len(PLANS)}, {failed} accepted")
sys.exit(failed > 0 or tried < 400)
