#!/usr/bin/env python3
"""Random problems of dsa-solver, their plans and solutions: dsa.py TENURE [--seed N] [--count N]

Problems have pools with capacities and reserved ranges, colocations, separations, temporal exclusions, pins and reuse
penalties. The rules of the format are written here a second time: `violations` lists what is wrong with a solution,
`cost` adds the penalties, `fingerprint` hashes the canonical text, and `least` tries all placements of small problems.
Plans of `tenure plan` must be valid, no proof may contradict `least`, and `tenure verify` must agree with `violations`
on solutions that were changed: bytes shared across an exclusion, a colocated buffer moved, another fingerprint.
"""
import argparse
import itertools
import json
import math
import pathlib
import random
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from count import case_count  # noqa: E402

REASONS = ["generic", "pipeline_stage", "target_hazard", "semantic_no_alias", "cross_pipe"]
LEAST = 40000  # placements that `least` tries at most


def run(tenure, *words):
    done = subprocess.run([tenure, *map(str, words)], capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def check(name, word, told, expected):
    if told != expected:
        sys.exit(f"{name}: {word} is {told}, expected {expected}")


# --- the rules of the format ---

class Rules:
    """A problem with the facts that its rules need."""

    def __init__(self, document):
        self.document, self.problem = document, document["problem"]
        self.buffers = {b["id"]: b for b in self.problem["buffers"]}
        self.pools = {p["id"]: p for p in self.problem["pools"]}
        self.constraints = self.problem["constraints"]
        self.classes = {i: {i} for i in self.buffers}
        for pair in self.constraints["colocations"]:
            union = self.classes[pair["first"]] | self.classes[pair["second"]]
            for i in union:
                self.classes[i] = union
        self.extent = {i: max(self.buffers[k]["size"] for k in self.classes[i]) for i in self.buffers}
        self.excluded = {frozenset((p["first"], p["second"])) for p in self.constraints["temporal_exclusions"]}
        self.exclusive = {p["buffer"] for p in self.constraints["pinned_allocations"] if p["exclusive_for_all_time"]}

    def meet(self, i, j):
        if frozenset((i, j)) in self.excluded:
            return False
        return any(x["lower"] < y["upper"] and y["lower"] < x["upper"]
                   for x in self.buffers[i]["live_intervals"] for y in self.buffers[j]["live_intervals"])

    def share(self, at, i, j):
        (pool, x), (other, y) = at[i], at[j]
        return pool == other and x < y + self.extent[j] and y < x + self.extent[i]

    def violations(self, at):
        """The set of what is wrong with placements {buffer: (pool, offset)}, each with the buffers that it names."""
        wrong = set()
        for i, b in self.buffers.items():
            pool, offset = at[i]
            end = offset + b["size"]
            if pool not in b["allowed_pools"]:
                wrong.add(("pool", i))
                continue
            if offset % b["alignment"]:
                wrong.add(("alignment", i))
            capacity = self.pools[pool]["capacity"]
            if capacity is not None and end > capacity:
                wrong.add(("capacity", i))
            if any(offset < r["end"] and r["begin"] < end for r in self.pools[pool]["reserved_ranges"]):
                wrong.add(("reserved", i))
        for i, j in itertools.combinations(self.buffers, 2):
            if j in self.classes[i]:
                if at[i] != at[j]:
                    wrong.add(("colocation", i, j))
            elif self.share(at, i, j) and (self.meet(i, j) or i in self.exclusive or j in self.exclusive):
                wrong.add(("overlap", i, j))
        for pair in self.constraints["separations"]:
            if self.share(at, pair["first"], pair["second"]):
                wrong.add(("separation", pair["first"], pair["second"]))
        for pin in self.constraints["pinned_allocations"]:
            if at[pin["buffer"]] != (pin["pool"], pin["offset"]):
                wrong.add(("pin", pin["buffer"]))
        return wrong

    def cost(self, at):
        return sum(p["cost"] for p in self.problem["cost_model"]["reuse_penalties"]
                   if self.share(at, p["first"], p["second"]) and p["second"] not in self.classes[p["first"]]
                   and not self.meet(p["first"], p["second"]))

    def peak(self, at):
        ends = {}
        for i, b in self.buffers.items():
            pool, offset = at[i]
            ends[pool] = max(ends.get(pool, 0), offset + b["size"])
        return sum(ends.values())

    def least(self):
        """The least peak and the least cost of all placements up to some height; None: there are too many."""
        names = sorted({min(c) for c in self.classes.values()})
        height = 16 + sum(self.extent[i] + 3 for i in names)  # reserved ranges end below 16
        ranges = []
        for i in names:
            align = math.lcm(*(self.buffers[k]["alignment"] for k in self.classes[i]))
            pool = self.buffers[i]["allowed_pools"][0]
            capacity = self.pools[pool]["capacity"]
            end = (height if capacity is None else min(capacity, height)) - self.extent[i]
            starts = [p["offset"] for p in self.constraints["pinned_allocations"] if p["buffer"] in self.classes[i]]
            ranges.append([(pool, at) for at in (starts[:1] or range(0, end + 1, align))])
        if math.prod(map(len, ranges)) > LEAST:
            return None
        best = []
        for places in itertools.product(*ranges):
            at = {k: place for i, place in zip(names, places) for k in self.classes[i]}
            if not self.violations(at):
                best.append((self.peak(at), self.cost(at)))
        if not best:
            return ()
        return min(peak for peak, _ in best), min(cost for _, cost in best)


def fingerprint(document):
    whole = dict(document, metadata=document.get("metadata", {}))
    for pair in whole["problem"]["constraints"]["separations"]:
        if pair.get("reasons") == []:
            del pair["reasons"]
    number = 14695981039346656037
    for byte in (json.dumps(whole, indent=2, sort_keys=True, ensure_ascii=False) + "\n").encode():
        number = ((number ^ byte) * 1099511628211) % 2 ** 64
    return f"{number:016x}"


# --- random problems ---

def pairs(rng, ids, count):
    for _ in range(count):
        if len(ids) > 1:
            first, second = rng.sample(ids, 2)
            yield {"first": first, "second": second}


def make(rng, small):
    pools = []
    for i in rng.sample(range(1, 9), 1 if small else rng.randint(1, 3)):
        reserved = [{"begin": 4 * k, "end": 4 * k + rng.randint(1, 4)} for k in rng.sample(range(3), rng.randint(0, 2))]
        pools.append({"id": i, "name": f"pool{i}", "reserved_ranges": reserved,
                      "capacity": rng.choice([None, 24] if small else [None, 48, 200])})
    ids = rng.sample(range(1000), rng.randint(1, 4) if small else rng.randint(2, 24))
    buffers = []
    for i in ids:
        intervals = [{"lower": at, "upper": at + rng.randint(1, 4)} for at in rng.sample(range(-3, 9), rng.randint(1, 2))]
        buffers.append({"id": i, "name": rng.choice([f"b{i}", ""]), "size": rng.randint(1, 9), "live_intervals": intervals,
                        "alignment": rng.choice([1, 1, 2, 4]), "allowed_pools": [rng.choice(pools)["id"]]})
    pool_of = {b["id"]: b["allowed_pools"][0] for b in buffers}
    colocations = [p for p in pairs(rng, ids, rng.randint(0, 3)) if pool_of[p["first"]] == pool_of[p["second"]]]
    constraints = {"colocations": colocations, "separations": [], "pinned_allocations": [],
                   "temporal_exclusions": list(pairs(rng, ids, rng.randint(0, len(ids))))}
    document = {"schema_version": 1, "profile": "pypto_research_v1", "instance": rng.choice(["x", "k\u00e9rn \"a\" \\"]),
                "metadata": {"lifetime_ordering": "pypto_read_before_write", "solver_input": "pre_memory_reuse",
                             "note": "\t\u0001\u007f\u2028/<"},
                "problem": {"pools": pools, "buffers": buffers, "constraints": constraints,
                            "cost_model": {"reuse_penalties": []},
                            "objective": {"aggregation": "lexicographic", "terms": ["capacity_overflow", "reuse_cost"]}}}
    rules = Rules(document)
    for pair in pairs(rng, ids, rng.randint(0, 3)):
        if pair["second"] not in rules.classes[pair["first"]]:
            constraints["separations"].append(dict(pair, reasons=rng.sample(REASONS, rng.randint(0, 2))))
    for i in rng.sample(ids, min(len(ids), rng.choice([0, 0, 1, 2]))):
        b = rules.buffers[i]
        pool = rules.pools[pool_of[i]]
        align = math.lcm(*(rules.buffers[k]["alignment"] for k in rules.classes[i]))
        at = align * rng.randint(0, 16 // align)
        free = all(at >= r["end"] or r["begin"] >= at + b["size"] for r in pool["reserved_ranges"])
        if free and (pool["capacity"] is None or at + b["size"] <= pool["capacity"]):
            constraints["pinned_allocations"].append({"buffer": i, "pool": pool["id"], "offset": at,
                                                      "exclusive_for_all_time": rng.random() < 0.5})
    document["problem"]["cost_model"]["reuse_penalties"] = [
        dict(p, cost=rng.randint(0, 5), reason="generic") for p in pairs(rng, ids, rng.randint(0, 12))]
    return document


def shuffled(rng, value):
    """The same document with members in another order."""
    if isinstance(value, dict):
        return {key: shuffled(rng, value[key]) for key in rng.sample(list(value), len(value))}
    return [shuffled(rng, item) for item in value] if isinstance(value, list) else value


# --- one problem ---

class Case:
    def __init__(self, tenure, folder, rng, name, small):
        self.tenure, self.rng, self.name, self.small = tenure, rng, name, small
        self.document = make(rng, small)
        self.rules = Rules(self.document)
        self.path, self.solution = folder / "p.json", folder / "p.solution.json"
        text = json.dumps(shuffled(rng, self.document), indent=rng.choice([None, 1]), ensure_ascii=rng.random() < 0.5)
        self.path.write_text(text)
        self.named = {b["name"] or str(b["id"]): b["id"] for b in self.document["problem"]["buffers"]}

    def verify(self, solution, expected, what):
        self.solution.write_text(solution if isinstance(solution, str) else json.dumps(solution))
        status, out, err = run(self.tenure, "verify", self.path, "--plan", self.solution, "--json")
        check(self.name, f"status of {what} ({out}{err})", status, expected)
        return json.loads(out) if status < 2 else err

    def plan(self, objective):
        status, out, err = run(self.tenure, "plan", self.path, "-o", self.solution, "--objective", objective, "--json",
                               "--work-limit", 20000)
        least = self.rules.least() if self.small else None
        if status != 0:
            check(self.name, "a proof that nothing fits", status == 1 and bool(least), False)
            if status not in (1, 3) and "has no capacity" not in err:
                sys.exit(f"{self.name}: status {status}: {err}")
            return None
        check(self.name, "an impossible plan", least == (), False)
        told, solution = json.loads(out), json.loads(self.solution.read_text())
        at = {p["buffer"]: (p["pool"], p["offset"]) for p in solution["placements"]}
        check(self.name, "buffers placed", sorted(at), sorted(self.rules.buffers))
        check(self.name, "violations", self.rules.violations(at), set())
        check(self.name, "fingerprint", solution["problem_fingerprint"], fingerprint(self.document))
        check(self.name, "cost", told.get("reuse_cost", 0), self.rules.cost(at))
        check(self.name, "peak", told["peak"], self.rules.peak(at))
        proved = told["status"] == "optimal"
        if least:
            check(self.name, f"lower bound {told['lower_bound']} above {least[0]}", told["lower_bound"] > least[0], False)
            if proved and objective == "bytes":
                check(self.name, "the least peak", told["peak"], least[0])
            if proved and objective == "pairs":
                check(self.name, "the least cost", told.get("reuse_cost", 0), least[1])
        again = self.verify(solution, 0, "a plan of Tenure")
        check(self.name, "cost by verify", again.get("reuse_cost", 0), self.rules.cost(at))
        return solution

    def spoil(self, solution):
        """Changes some placements; `verify` agrees with `violations`, and names two buffers of one of them."""
        changed = json.loads(json.dumps(solution))
        for place in self.rng.sample(changed["placements"], min(len(changed["placements"]), self.rng.randint(1, 2))):
            if self.rng.random() < 0.5:
                place["offset"] = self.rng.randint(0, 12)
            elif self.rng.random() < 0.8:
                other = self.rng.choice(changed["placements"])
                place["offset"] = other["offset"]
            else:
                place["pool"] = self.rng.choice(list(self.rules.pools))
        at = {p["buffer"]: (p["pool"], p["offset"]) for p in changed["placements"]}
        wrong = self.rules.violations(at)
        told = self.verify(changed, 1 if wrong else 0, f"a changed solution with {wrong}")
        check(self.name, "valid", told["valid"], not wrong)
        if not wrong:
            check(self.name, "cost of a changed solution", told.get("reuse_cost", 0), self.rules.cost(at))
            return
        found = [self.named[word] for word in re.findall(r"'([^']*)'", told["conflict"]) if word in self.named]
        pair = re.search(r"(share bytes|tied)", told["conflict"])
        if pair and not any(set(found) <= set(row[1:]) or self.classmates(found, row) for row in wrong):
            sys.exit(f"{self.name}: '{told['conflict']}' is none of {wrong}")

    def classmates(self, found, row):
        """Whether a conflict names other members of the two classes of a violation."""
        return len(row) == 3 and all(any(i in self.rules.classes[k] for k in row[1:]) for i in found)

    def refuse(self, solution):
        """What cannot be read, or is for another problem, has status 2; a missing placement has status 1."""
        digits = solution["problem_fingerprint"]
        for what, change in {"another fingerprint": {"problem_fingerprint": digits[1:] + digits[0] + "0"},
                             "another instance": {"instance": "y"}, "another profile": {"profile": "standard_dsa"},
                             "a version": {"schema_version": 2}, "an unknown member": {"more": 1}}.items():
            self.verify(dict(solution, **change), 2, what)
        if "2" not in self.verify(dict(solution, schema_version=2), 2, "a version"):
            sys.exit(f"{self.name}: the unknown version is not named")
        self.verify({key: solution[key] for key in solution if key != "problem_fingerprint"}, 2, "no fingerprint")
        self.verify(dict(solution, placements=solution["placements"] + solution["placements"][:1]), 2, "a placement twice")
        self.verify(dict(solution, placements=solution["placements"][1:]), 1, "a missing placement")
        more = [dict(solution["placements"][0], buffer=5000)]
        self.verify(dict(solution, placements=solution["placements"] + more), 1, "an unknown buffer")
        self.verify(json.dumps(solution)[:-9], 2, "half a file")
        status, _, err = run(self.tenure, "plan", self.solution)
        check(self.name, "status of a solution as a problem " + err, status, 2)


def sabotage(tenure, folder):
    """One problem in which each rule alone decides."""
    def buffer(i, lower, upper, size=8):
        return {"id": i, "name": f"n{i}", "size": size, "alignment": 1, "allowed_pools": [1],
                "live_intervals": [{"lower": lower, "upper": upper}]}
    case = Case(tenure, folder, random.Random(1), "saboteurs", True)
    case.document = {"schema_version": 1, "profile": "pypto_research_v1", "instance": "s",
                     "metadata": {"lifetime_ordering": "pypto_read_before_write", "solver_input": "pre_memory_reuse"},
                     "problem": {"pools": [{"id": 1, "name": "p", "capacity": 40, "reserved_ranges": []}],
                                 "buffers": [buffer(1, 0, 4), buffer(2, 0, 4), buffer(3, 0, 4), buffer(4, 6, 8),
                                             buffer(5, 0, 9, 4), buffer(6, 8, 9, 2)],
                                 "constraints": {"colocations": [{"first": 4, "second": 6}],
                                                 "separations": [],
                                                 "temporal_exclusions": [{"first": 1, "second": 2}],
                                                 "pinned_allocations": [{"buffer": 6, "pool": 1, "offset": 32,
                                                                         "exclusive_for_all_time": True}]},
                                 "cost_model": {"reuse_penalties": []},
                                 "objective": {"aggregation": "lexicographic", "terms": ["total_peak"]}}}
    case.rules = Rules(case.document)
    case.named = {b["name"]: b["id"] for b in case.document["problem"]["buffers"]}
    case.path.write_text(json.dumps(case.document))

    def solution(**at):
        places = {1: 0, 2: 0, 3: 8, 4: 32, 5: 16, 6: 32} | {int(i[1:]): offset for i, offset in at.items()}
        return {"schema_version": 1, "profile": "pypto_research_v1", "instance": "s", "metadata": {},
                "problem_fingerprint": fingerprint(case.document),
                "placements": [{"buffer": i, "pool": 1, "offset": offset} for i, offset in places.items()]}
    case.verify(solution(), 0, "buffers 1 and 2, which never coexist, at one offset")
    for what, at, names in (("1 and 3 coexist", {"n3": 4}, ("n1", "n3")),
                            ("2 and 3 coexist", {"n2": 5, "n1": 20, "n5": 30}, ("n2", "n3")),
                            ("4 and 6 are colocated", {"n4": 20}, ("n4", "n6")),
                            ("the class of 6 has 8 bytes for all time", {"n1": 32}, ("n1", "n6")),
                            ("6 is pinned", {"n4": 0, "n6": 0}, ("n6",))):
        told = case.verify(solution(**at), 1, what)
        for name in names:
            if f"'{name}'" not in told["conflict"] and not (name == "n6" and "'n4'" in told["conflict"]):
                sys.exit(f"saboteurs: {what}: '{told['conflict']}' does not name {name}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tenure")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=150)
    arguments = parser.parse_args()
    planned = refused = 0
    with tempfile.TemporaryDirectory() as name:
        sabotage(arguments.tenure, pathlib.Path(name))
        for number in range(case_count(arguments.count, 6)):
            rng = random.Random(arguments.seed * 1000003 + number)
            case = Case(arguments.tenure, pathlib.Path(name), rng, f"seed {arguments.seed}, problem {number}", number % 2 == 0)
            solution = case.plan("bytes")
            case.plan("pairs")
            if solution is None:
                refused += 1
                continue
            planned += 1
            for _ in range(3):
                case.spoil(solution)
            if number % 16 == 0:
                case.refuse(solution)
    if planned == 0:
        sys.exit("no problem was planned")
    print(f"{planned} problems planned and their solutions checked, {refused} have no plan")


if __name__ == "__main__":
    main()
