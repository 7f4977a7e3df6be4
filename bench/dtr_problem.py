"""A log of the DTR simulator (repository uwsampl/dtr-prototype, simrd/logs.zip) as a problem for `tenure fit --problem`.

    dtr_problem.py LOG > problem.json

A storage is a value. Costs are nanoseconds, bytes those of the log. What the simulator charges is charged here, never less:

* CALL is an operator that may run again, with all of its outputs. MUTATE is one whose outputs are new storages, as large as those it writes to.
* An ALIAS has no memory of its own. Whoever makes its storage again makes its views again: their time is part of that operator's, each time it runs.
  (The simulator makes only those views again that are asked for.) Views of a constant are made once.
* CONSTANT is held: from the start or, behind the first CALL, from where it stands, made by an operator that costs nothing and runs once.
* What is still referenced when the log ends is kept.
"""
import json
import sys


class Problem:
    def __init__(self):
        self.values, self.operators = [], []
        self.maker = []  # of each value: an operator that may repeat, or None
        self.tensors = {}  # name -> [value, references], shared by copies

    def value(self, name, size, maker=None, held=False):
        self.values.append({"bytes": size, "name": name} | ({"held": True} if held else {}))
        self.maker.append(maker)
        return len(self.values) - 1

    def constant(self, name, size):
        index = self.value(name, size, held=True)
        if self.operators:
            self.operators.append({"cost": 0, "inputs": [], "outputs": [index], "repeats": False, "name": "constant"})
        self.tensors[name] = [index, 1]

    def call(self, name, arguments, results, cost):
        """results: (name, bytes, argument that it is a view of or -1)"""
        tensors = [self.tensors[a] for a in arguments]
        if results and all(alias >= 0 for _, _, alias in results):
            self.view(name, tensors, results, cost)
        else:
            self.operator(name, tensors, results, cost)

    def view(self, name, tensors, results, cost):
        sources = {tensors[alias][0] for _, _, alias in results}
        maker = self.maker[next(iter(sources))]
        if len(sources) > 1 or maker is None:  # once: what it reads stays
            self.operators.append({"cost": cost, "inputs": sorted(sources), "outputs": [], "repeats": False, "name": name})
        else:
            self.operators[maker]["cost"] += cost
        for result, _, alias in results:
            self.tensors[result] = [tensors[alias][0], 1]

    def operator(self, name, tensors, results, cost):
        index, outputs = len(self.operators), []
        for result, size, alias in results:
            fresh = self.value(result, size, index) if alias < 0 else tensors[alias][0]
            outputs += [fresh] if alias < 0 else []
            self.tensors[result] = [fresh, 1]
        inputs = sorted({value for value, _ in tensors})
        self.operators.append({"cost": cost, "inputs": inputs, "outputs": outputs, "name": name})

    def mutate(self, line):
        tensors = [self.tensors[a] for a in line["ARGS"]]
        changed = [(line["ARGS"][i] + "$", self.values[tensors[i][0]]["bytes"], -1) for i in line["MUTATE"]]
        self.operator(line["NAME"], tensors, changed, int(line["TIME"]))
        for i, (fresh, _, _) in zip(line["MUTATE"], changed):
            self.tensors[line["ARGS"][i]][1] -= 1
            self.tensors[line["ARGS"][i]] = self.tensors.pop(fresh)

    def finish(self, name):
        for value, references in self.tensors.values():
            if references > 0:
                self.values[value]["kept"] = True
        return {"name": name, "values": self.values, "operators": self.operators}


def lines_of(path):
    with open(path) as file:
        lines = iter([json.loads(line) for line in file])
    for line in lines:
        if line.get("ANNOTATION") == "START":
            return lines
    sys.exit(f"{path}: no line says START")


def read(path):
    problem, lines = Problem(), lines_of(path)
    for line in lines:
        what = line["INSTRUCTION"]
        if what == "CONSTANT":
            problem.constant(line["NAME"], int(next(lines)["MEMORY"]))
        elif what == "CALL":
            results = []
            for result in line["RESULT"]:
                size, alias = int(next(lines)["MEMORY"]), int(next(lines)["ALIAS"])
                results.append((result, size, alias))
            problem.call(line["NAME"], line["ARGS"], results, int(line["TIME"]))
        elif what == "MUTATE":
            problem.mutate(line)
        elif what in ("COPY", "COPY_FROM"):
            problem.tensors.get(line["DST"], [0, 0])[1] -= 1
            problem.tensors[line["DST"]] = problem.tensors[line["SRC"]]
            problem.tensors[line["SRC"]][1] += 1
        elif what == "RELEASE" and line["NAME"] in problem.tensors:
            problem.tensors[line["NAME"]][1] -= 1
    return problem


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    problem = read(sys.argv[1]).finish(sys.argv[1].rsplit("/", 1)[-1].split("-")[0])
    json.dump(problem, sys.stdout, separators=(",", ":"))
    print()


if __name__ == "__main__":
    main()
