#!/usr/bin/env python3
"""The samples of ../shared/data/foreign: samples.py TENURE FOLDER

Their answers come from a separate program. Without the folder the test is skipped.
"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import dsa


def run(tenure, *words):
    done = subprocess.run([tenure, *map(str, words)], capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def check(name, word, told, expected):
    if told != expected:
        sys.exit(f"{name}: {word} is {told}, expected {expected}")


def check_xla(tenure, name, path, answer):
    told = json.loads(run(tenure, "report", path, "--json")[1])
    uses = told["bytes"]
    check(name, "arenas", told["arenas"], answer["allocations"])
    check(name, "values", told["values"], answer["values"])
    check(name, "all bytes", sum(uses.values()), answer["total_bytes"])
    check(name, "parameters", uses["parameters"] + uses["donated_parameters"], answer["parameter_bytes"])
    check(name, "donated", uses["donated_parameters"], answer["aliased_parameter_bytes"])
    check(name, "outputs", uses["outputs"] + uses["donated_parameters"], answer["live_out_bytes"])
    check(name, "constants", uses["constants"], answer["constant_bytes"])
    check(name, "thread-local", uses["thread_local"], answer["thread_local_bytes"])
    check(name, "planned", told["planned"], answer["temp_bytes"])
    check(name, "live", told["live"], answer["temp_bound"])
    check(name, "step", told["planned_arenas"][0]["step"], answer["temp_bound_at"])
    check(name, "without a live range", told["without_life"], answer["values_without_range"])
    check(name, "joined", told["joined"], answer["same_place_touching_pairs"])
    status, out, _ = run(tenure, "verify", path, "--json")
    check(name, "status of verify", status, 1 if answer["conflicts"] else 0)
    told = json.loads(out)
    if answer["first_conflict"]:
        allocation, a, b, step, low, high = answer["first_conflict"]
        for word in (f"'{a}'", f"'{b}'", f"[{low}, {high}) of allocation {allocation} at step {step} "):
            if word not in told["conflict"]:
                sys.exit(f"{name}: no {word} in: {told['conflict']}")
    else:
        check(name, "buffers", told["buffers"], answer["temp_blocks"])


def check_pte(tenure, name, path, answer):
    told = json.loads(run(tenure, "report", path, "--json", "--top", 100)[1])
    check(name, "values", told["values"], answer["planned"])
    check(name, "steps", told["steps"], answer["instructions"])
    for arena in told["planned_arenas"]:
        expected = answer["memories"][arena["name"].split()[1]]
        check(name, arena["name"], (arena["size"], arena["step"]), (expected["size"], expected["at"]))
        # the answers round each tensor up to 16 bytes, as the exporter does
        if not 0 <= expected["bound"] - arena["live"] < 16 * told["values"] or arena["live"] % 16 > expected["bound"]:
            sys.exit(f"{name}: {arena['live']} bytes are live, the bound is {expected['bound']}")
    state = [holder["name"] for holder in told["holders"] if holder["op"] == "state"]
    if state:
        check(name, "state", state, [f"value {n}" for n in answer["state"]])
    status, out, _ = run(tenure, "verify", path, "--json")
    check(name, "status of verify", status, 1 if answer["conflicts"] else 0)
    if answer["first_conflict"]:
        for number in answer["first_conflict"][:2]:
            if f"'value {number}'" not in json.loads(out)["conflict"]:
                sys.exit(f"{name}: no 'value {number}' in: {out}")


def check_pt2(tenure, folder):
    """The live bytes of PyTorch's own operators at the peak."""
    for path in sorted(folder.glob("*.pt2")):
        named = folder / f"{path.stem.removesuffix('_torch27')}.answer.json"
        answer = json.loads(named.read_text())
        cases = answer.get("by_batch", {"": answer})
        for batch, expected in cases.items():
            words = ["--dim", f"{answer['symbol']}={batch}"] if batch else []
            told = json.loads(run(tenure, "plan", path, "--keep-aten", "--no-inplace", "--alignment", 1, "--json", *words)[1])
            check(path.name, "the lower bound", told["lower_bound"], expected["peak_live_bytes"])
            if run(tenure, "plan", path, "--quiet", *words)[0] != 0:
                sys.exit(f"{path.name}: no plan with operators of ONNX")
        random = [] if len(path.stem.split("_torch")) == 1 else ["--weights", "random:1"]  # older archives pickle weights
        status, _, err = run(tenure, "run", path, *words, *random)
        if status != 0:
            sys.exit(f"{path.name}: status {status} of run: {err}")


def check_jax(tenure, path):
    answer, name = json.loads(pathlib.Path(f"{path}.answer.json").read_text()), path.name
    told = json.loads(run(tenure, "report", path, "--json", "--top", 100000)[1])
    check(name, "samples", told["samples"], answer["samples"])
    check(name, "kinds", {row["name"]: row["bytes"] for row in told["kinds"]}, answer["by_kind"])
    check(name, "devices", {row["name"]: row["bytes"] for row in told["devices"]}, answer["by_device"])
    check(name, "lines", [[row["name"], row["bytes"]] for row in told["lines"][:5]], answer["top_innermost"])


def check_kineto(tenure, path):
    answer, name = json.loads(pathlib.Path(f"{path}.answer.json").read_text()), path.name
    devices = json.loads(run(tenure, "report", path, "--json", "--no-pools")[1])["devices"]
    check(name, "events", sum(d["events"] for d in devices), answer["memory_events"])
    for told in devices:
        kind = "0" if told["device_name"] == "cpu" else "1"
        check(name, "peak", told["requested_peak"], answer["peak_of_recorded"][kind])
        check(name, "older", told["before_blocks"], answer["frees_of_older"][kind])
        check(name, "live", told["requested"], answer["still_live"][kind])
        check(name, "blocks", told["blocks"], answer["allocations"][kind] + answer["frees_of_older"][kind])


def check_dsa(tenure, folder):
    """Each solution is judged as its answer says, and no other problem has it. Plans of Tenure are solutions, too; their
    cost and peak are computed from the placements by the rules in dsa.py."""
    for path in sorted(folder.glob("*.answer.json")):
        answer = json.loads(path.read_text())
        name = path.name.partition(".")[0]
        problem = folder / f"{name}.json"
        for kind in ("solution", "plain", "broken"):
            expected = answer[kind]
            solution = folder / (f"{name}.solution.json" if kind == "solution" else f"{name}.{kind}.solution.json")
            if expected is None:
                continue
            status, out, err = run(tenure, "verify", problem, "--plan", solution, "--json")
            told = json.loads(out) if out else {}
            check(solution.name, f"status {err}{out}", status, 0 if expected["valid"] else 1)
            if expected["valid"]:
                check(solution.name, "cost", told["reuse_cost"], expected["reuse_cost"])
                check(solution.name, "peak", told["peak"], expected["total_peak"])
            else:
                named = sorted(int(n) for n in re.findall(r"'mem_(\d+)'", told["conflict"]))
                check(solution.name, f"violation '{told['conflict']}' is expected",
                      any(row[1:] == named for row in expected["violations"]), True)
            other = next(p for p in sorted(folder.glob("*.answer.json")) if p != path).name.partition(".")[0]
            check(solution.name, f"status for {other}", run(tenure, "verify", folder / f"{other}.json", "--plan", solution)[0], 2)
        document = json.loads(problem.read_text())
        for objective in ("bytes", "pairs"):
            check_dsa_plan(tenure, problem, dsa.Rules(document), objective, answer["fingerprint"])


def check_dsa_plan(tenure, problem, rules, objective, fingerprint):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "plan.solution.json"
        status, out, err = run(tenure, "plan", problem, "--objective", objective, "-o", path, "--json")
        check(problem.name, f"status of {objective} {err}", status, 0)
        told, solution = json.loads(out), json.loads(path.read_text())
        at = {p["buffer"]: (p["pool"], p["offset"]) for p in solution["placements"]}
        check(problem.name, "fingerprint", solution["problem_fingerprint"], fingerprint)
        check(problem.name, "violations", rules.violations(at), set())
        check(problem.name, "cost", rules.cost(at), told["reuse_cost"])
        check(problem.name, "peak", rules.peak(at), told["peak"])
        verified = json.loads(run(tenure, "verify", problem, "--plan", path, "--json")[1])
        check(problem.name, "cost by verify", verified["reuse_cost"], told["reuse_cost"])


def check_hostile(tenure, folder):
    for path in sorted(folder.glob("dsa_*.json")):
        status, _, err = run(tenure, "plan", path)
        if status != 2 or path.name not in err:
            sys.exit(f"{path.name}: status {status}: {err}")
    for path in sorted(folder.glob("trace_*.json")):
        for command in ("report", "replay"):
            status, _, err = run(tenure, command, path)
            check(path.name, f"status of {command} {err}", status, 2)
    for path in sorted(folder.glob("*.prof")):
        status, _, err = run(tenure, "report", path)
        check(path.name, "status " + err, status, 2)
    for path in sorted(folder.glob("*.pt2")):
        status, _, err = run(tenure, "plan", path)
        if status != 2:
            sys.exit(f"{path.name}: status {status}: {err}")
    for path in sorted(folder.glob("*.pte")) + sorted(folder.glob("*-buffer-assignment.txt")):
        for command in ("report", "verify", "plan"):
            status, _, err = run(tenure, command, path)
            if status != 2 and not (path.name == "noise.pte" and status in (0, 1)):
                sys.exit(f"{path.name}: status {status}: {err}")


def main():
    tenure, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    if not folder.is_dir():
        print("SKIP: shared/data/foreign is not there")
        sys.exit(77)
    for kind, each in (("xla", check_xla), ("pte", check_pte)):
        answers = json.loads((folder / kind / "answers.json").read_text())
        for name, answer in answers.items():
            each(tenure, name, folder / kind / name, answer)
    check_pt2(tenure, folder / "pt2")
    for path in sorted((folder / "jax").glob("*.prof")):
        check_jax(tenure, path)
    check_kineto(tenure, folder / "kineto" / "train.pt.trace.json")
    check_dsa(tenure, folder / "dsa")
    check_hostile(tenure, folder / "hostile")
    print("all samples as expected")


main()
