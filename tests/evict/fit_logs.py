"""`tenure fit --problem RUN.log`: recorded runs as problems, beside two others that read them.

    fit_logs.py TENURE [--count 30] [--seed 1]

Logs as DTR's authors write them, at random (compare.py), are the problem that bench/dtr_problem.py makes of them: the same
plain bytes, time and bounds. Logs with what is ours (SCRATCH, ONCE, IN_PLACE) are replayed here,
plainly: what lives while each operator runs, from when it is made until it is read last.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import compare

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "bench"))
import dtr_problem  # noqa: E402

ROOM = 1 << 40  # bytes


def fit(tenure, text):
    with tempfile.NamedTemporaryFile("w") as file:
        file.write(text)
        file.flush()
        done = subprocess.run([tenure, "fit", "--problem", file.name, "--budget", str(ROOM), "--json"],
                              capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    return json.loads(done.stdout)["answers"][0]


class Ours(compare.Writer):
    """Whatever is written in place is so right after it was made."""

    def call(self):
        at = len(self.lines)
        super().call()
        line, results = json.loads(self.lines[at]), [json.loads(alias) for alias in self.lines[at + 2::2]]
        fresh = [result["NAME"] for result in results if result["ALIAS"] == "-1"]
        if fresh:
            line["SCRATCH"] = str(self.random.choice([0, 0, 50, 300]))
        if self.random.random() < 0.2:
            line["ONCE"] = 1
        self.lines[at] = json.dumps(line)
        if fresh and self.random.random() < 0.4:
            self.put("MUTATE", NAME="op_", ARGS=[fresh[0]], MUTATE=[0], TIME="7", IN_PLACE=1)

    copy = copy_from = mutate = call


class Plain:
    """Steps of a log: what each reads and makes, in values; a storage holds one value after the other."""

    def __init__(self):
        self.storage, self.holds, self.size, self.repeats = {}, {}, [], []  # by name, by storage, by value
        self.steps, self.kept, self.time = [], set(), 0

    def value(self, storage, size, repeats):
        self.size.append(size)
        self.repeats.append(repeats)
        self.storage[storage], self.holds[storage] = storage, len(self.size) - 1
        return len(self.size) - 1

    def step(self, reads, made, scratch=0, over=None):
        self.steps.append((set(reads), set(made), scratch, over))

    def call(self, line, results):
        reads = [self.holds[self.storage[name]] for name in line["ARGS"]]
        self.time += int(line["TIME"])
        made = [self.value(name, size, "ONCE" not in line) for name, size, alias in results if alias < 0]
        for name, _, alias in results:
            if alias >= 0:
                self.storage[name] = self.storage[line["ARGS"][alias]]
        viewed = {self.holds[self.storage[name]] for name, _, alias in results if alias >= 0}
        if made or len(viewed) > 1 or not all(self.repeats[value] for value in viewed):
            self.step(reads, made, int(line.get("SCRATCH", 0)))

    def mutate(self, line):
        name, = line["ARGS"]
        storage, self.time = self.storage[name], self.time + int(line["TIME"])
        old = self.holds[storage]
        self.step([old], [self.value(storage, self.size[old], True)], 0, old)
        self.storage[name] = storage

    def replay(self, text):
        lines = iter([json.loads(line) for line in text.splitlines()])
        next(line for line in lines if line.get("ANNOTATION") == "START")
        for line in lines:
            if line["INSTRUCTION"] == "CONSTANT":
                value = self.value(line["NAME"], int(next(lines)["MEMORY"]), False)
                self.kept.add(value)
                self.step([], [value])
            elif line["INSTRUCTION"] == "CALL":
                pairs = [(next(lines), next(lines)) for _ in line["RESULT"]]
                self.call(line, [(m["NAME"], int(m["MEMORY"]), int(a["ALIAS"])) for m, a in pairs])
            elif line["INSTRUCTION"] == "MUTATE":
                self.mutate(line)
            elif line["NAME"] in self.storage:
                self.storage.pop(line["NAME"])
        self.kept |= {self.holds[storage] for storage in self.storage.values()}

    def peak(self):
        last = {value: i for i, (reads, made, _, _) in enumerate(self.steps) for value in reads | made}
        born = {value: i for i, (_, made, _, _) in enumerate(self.steps) for value in made}
        last.update((value, len(self.steps)) for value in self.kept)
        most = 0
        for i, (_, _, scratch, over) in enumerate(self.steps):
            live = [value for value in born if born[value] <= i <= last[value] and not (value == over and last[over] == i)]
            most = max(most, scratch + sum(self.size[value] for value in live))
        return most


def check_ours(tenure, seed):
    text, plain = Ours(seed).write(), Plain()
    plain.replay(text)
    answer = fit(tenure, text)
    got, want = (answer["plain_bytes"], answer["plain_time"]), (plain.peak(), plain.time)
    if got != want:
        sys.exit(f"seed {seed}: plain bytes and time {got}, should be {want}")


def check_theirs(tenure, seed):
    text = compare.Writer(seed).write()
    with tempfile.NamedTemporaryFile("w") as file:
        file.write(text)
        file.flush()
        problem = json.dumps(dtr_problem.read(file.name).finish("log"))
    fields = "plain_bytes", "plain_time", "bytes_bound", "time_bound"
    got, want = ([fit(tenure, each)[field] for field in fields] for each in (text, problem))
    if got != want:
        sys.exit(f"seed {seed}: {fields} are {got}, should be {want}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tenure")
    parser.add_argument("--count", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    for seed in range(asked.seed, asked.seed + asked.count):
        check_theirs(asked.tenure, seed)
        check_ours(asked.tenure, seed)
    print(f"{asked.count} logs of each kind from seed {asked.seed}: the same problems")


if __name__ == "__main__":
    main()
