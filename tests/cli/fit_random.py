#!/usr/bin/env python3
"""`tenure fit --problem` against trying everything, on small random computation graphs.

    fit_random.py TENURE [SEED]

A state is which operators have run and which values are there. From it an operator whose inputs are there runs, or a
value goes; the cheapest way to the end within a budget is the optimum, the way whose fullest moment is least full the
least budget. `exact` must say just that, and prove that a byte less is too little; `joint` must not be below, and at
most 3 % above. Some problems are in the short form; others have what the long one adds: scratch, values that are kept
or there from the start, runs again at a cost of their own, operators that run once.
"""
import heapq
import json
import os
import random
import subprocess
import sys
import tempfile

GRAPHS, MOST = 100, 8


def draw(dice):
    """Values and operators, each operator with one value of its own; those from the start come behind."""
    count = dice.randint(4, MOST)
    short, scale = dice.random() < 0.4, dice.choice((1, 1, 2**50))
    values = [{"bytes": dice.randint(0, 9)} for _ in range(count)]
    operators = []
    for i in range(count):
        inputs = sorted({dice.randrange(i) for _ in range(dice.randint(1, 3))}) if i > 0 else []
        operators.append({"cost": dice.randint(0, 9) * scale, "inputs": inputs, "outputs": [i]})
    if short:
        return True, values, operators
    for i in range(count):
        if dice.random() < 0.2:
            values[i]["kept"] = True
        if dice.random() < 0.3:
            operators[i]["scratch"] = dice.randint(1, 6)
        if dice.random() < 0.4:
            operators[i][dice.choice(("recompute_cost", "again"))] = dice.randint(0, 9) * scale
        if dice.random() < 0.15:
            operators[i]["repeats"] = False
    if dice.random() < 0.5:
        values.append({"bytes": dice.randint(1, 6)})
        for i in dice.sample(range(count), 2):
            operators[i]["inputs"].append(count)
    return False, values, operators


def write(path, short, values, operators):
    problem = {"values": values, "operators": operators}
    if short:
        edges = [[u, i] for i, operator in enumerate(operators) for u in operator["inputs"]]
        problem = {"cpu": [it["cost"] for it in operators], "ram": [it["bytes"] for it in values], "edges": edges}
    with open(path, "w") as file:
        json.dump(problem, file)


class Search:
    """Of one problem; sets of operators and of values are numbers."""

    def __init__(self, values, operators):
        count = len(operators)
        self.all = (1 << count) - 1
        self.bytes = [sum(value["bytes"] for v, value in enumerate(values) if there >> v & 1)
                      for there in range(1 << len(values))]
        self.kept = sum(1 << v for v, value in enumerate(values) if value.get("kept"))
        self.given = (1 << len(values)) - (1 << count)
        self.operators = [(sum(1 << v for v in it["inputs"]), it.get("scratch", 0), it["cost"],
                           it.get("recompute_cost", it.get("again", it["cost"])), it.get("repeats", True)) for it in operators]

    def next(self, ran, there):
        """Pairs of what comes next: state, cost, bytes while it happens. What is there at the start is there until
        something has run."""
        for i, (inputs, scratch, cost, again, repeats) in enumerate(self.operators):
            bit = 1 << i
            if there & inputs != inputs or (ran & bit and (there & bit or not repeats)):
                continue
            yield (ran | bit, there | bit), again if ran & bit else cost, self.bytes[there | bit] + scratch
        for v in range(there.bit_length() if ran else 0):
            if there >> v & 1:
                yield (ran, there & ~(1 << v)), 0, 0

    def best(self, budget):
        """The least cost within a budget, None: there is no way; of budget None the least that any way needs."""
        start = (0, self.given)
        known, queue = {start: 0}, [(0, start)]
        while queue:
            figure, state = heapq.heappop(queue)
            if figure > known[state]:
                continue
            if state[0] == self.all and state[1] & self.kept == self.kept:
                return figure
            for after, cost, bytes_ in self.next(*state):
                if budget is not None and bytes_ > budget:
                    continue
                reached = max(figure, bytes_) if budget is None else figure + cost
                if reached < known.get(after, reached + 1):
                    known[after] = reached
                    heapq.heappush(queue, (reached, after))
        return None


def ask(tenure, budget, name):
    words = [tenure, "fit", "--problem", "problem.json", "--budget", str(budget), "--pass", name, "--json"]
    made = subprocess.run(words, capture_output=True, text=True)
    return made.returncode, json.loads(made.stdout)["answers"][0] if made.returncode == 0 else made.stderr


def check_none(tenure, least):
    budget = least - 1
    code, said = ask(tenure, budget, "exact")
    assert code == 1 and "that is proved" in said, (budget, code, said)
    assert f"the least found takes {least} byte" in said, (least, said)
    code, said = ask(tenure, budget, "joint")
    assert code == 1, (budget, code, said)


def check_answer(tenure, budget, optimum):
    code, exact = ask(tenure, budget, "exact")
    assert code == 0, (budget, optimum, code, exact)
    assert exact["time"] == optimum == exact["time_bound"] and exact["bytes"] <= budget, (budget, optimum, exact)
    code, joint = ask(tenure, budget, "joint")
    assert code == 0 and joint["bytes"] <= budget, (budget, optimum, code, joint)
    assert optimum <= joint["time"] <= 1.03 * optimum and joint["time_bound"] <= optimum, (budget, optimum, joint)


def main():
    tenure, seed = os.path.abspath(sys.argv[1]), int(sys.argv[2] if len(sys.argv) > 2 else os.environ.get("TENURE_SEED", 1))
    dice = random.Random(seed)
    print(f"seed {seed}", flush=True)
    harder = 0
    for graph in range(GRAPHS):
        short, values, operators = draw(dice)
        write("problem.json", short, values, operators)
        search = Search(values, operators)
        least = search.best(None)
        plain = sum(it["cost"] for it in operators)
        try:
            if least > 1:
                check_none(tenure, least)
            for budget in {max(least, 1) + more for more in (0, 1, dice.randint(2, 9))}:
                optimum = search.best(budget)
                harder += optimum > plain
                check_answer(tenure, budget, optimum)
        except AssertionError:
            print(f"graph {graph}: {open('problem.json').read()}")
            raise
    print(f"{GRAPHS} graphs, {harder} answers with work again")
    assert harder >= GRAPHS // 8


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    main()
    os.chdir("/")
