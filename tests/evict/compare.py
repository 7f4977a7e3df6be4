"""`tenure simulate` on random small logs, beside a plain replay (reference.py): the same integers everywhere.

    compare.py TENURE [--count 40] [--seed 1]

Logs have views, operators with several results, some of which are released, values written in place, copies of references,
constants, times of 0 and equal times. Budgets go from the least that is of interest to the plain peak.
"""
import argparse
import json
import random
import subprocess
import sys
import tempfile

import reference

POLICIES = ["dtr", "dtr-eq", "dtr-local", "lru", "msps", "largest"]


class Writer:
    def __init__(self, seed):
        self.random, self.lines, self.count = random.Random(seed), [], 0
        self.live = {}  # name -> (storage, size of it)

    def put(self, what, **rest):
        self.lines.append(json.dumps({"INSTRUCTION": what, **rest}))

    def name(self):
        self.count += 1
        return f"x{self.count}"

    def constant(self):
        name, size = self.name(), self.random.choice([0, 8, 64, 100])
        self.put("CONSTANT", NAME=name)
        self.put("MEMORY", NAME=name, MEMORY=str(size))
        self.live[name] = size

    def pick(self):
        names = list(self.live)
        return self.random.choice(names[-12:] if self.random.random() < 0.7 else names)

    def call(self):
        arguments = [self.pick() for _ in range(self.random.randint(1, 3))]
        results = [self.name() for _ in range(self.random.choice([1, 1, 1, 2, 3]))]
        views = self.random.random() < 0.3
        if views:  # of one operand: with others, storages might form a cycle, where sets of Python decide by address
            arguments = arguments[:1]
        time = self.random.choice([0, 1, 5, 5, 50, 333, 10 ** 9])
        self.put("CALL", NAME="op", ARGS=arguments, RESULT=results, TIME=str(time))
        for result in results:
            alias = 0 if views and self.random.random() < 0.6 else -1
            size = self.random.choice([0, 1, 10, 10, 64, 100, 640])
            self.put("MEMORY", NAME=result, MEMORY=str(size))
            self.put("ALIAS", NAME=result, ALIAS=str(alias))
            self.live[result] = size if alias < 0 else self.live[arguments[alias]]

    def mutate(self):
        arguments = list(dict.fromkeys(self.pick() for _ in range(2)))
        changed = self.random.sample(range(len(arguments)), self.random.randint(1, len(arguments)))
        self.put("MUTATE", NAME="op_", ARGS=arguments, MUTATE=changed, TIME=str(self.random.choice([0, 3, 70])))

    def copy(self):
        source, target = self.pick(), self.name()
        self.put("COPY", DST=target, SRC=source)
        self.live[target] = self.live[source]

    def copy_from(self):
        source, target = self.pick(), self.pick()
        if source != target:
            self.put("COPY_FROM", DST=target, SRC=source)
            self.live[target] = self.live[source]

    def release(self):
        name = self.pick()
        if len(self.live) > 3:
            del self.live[name]
            self.put("RELEASE", NAME=name)

    def write(self):
        self.put("RELEASE", NAME="before")
        self.put("ANNOTATE", ANNOTATION="START")
        for _ in range(3):
            self.constant()
        length = self.random.randint(10, 120)
        for _ in range(length):
            ways = [self.call] * 10 + [self.release] * 6 + [self.copy, self.copy_from, self.mutate, self.constant]
            self.random.choice(ways)()
        while len(self.live) > 6:
            self.release()
        return "\n".join(self.lines) + "\n"


def check(tenure, text, seed):
    with tempfile.NamedTemporaryFile("w", suffix=".log") as log:
        log.write(text)
        log.flush()
        done = subprocess.run([tenure, "simulate", log.name, "--policy", ",".join(POLICIES), "--sweep", "--json"],
                              capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"seed {seed}: {done.stderr}")
    answer, count = json.loads(done.stdout), 0
    for rows in answer["policies"]:
        for run in rows["runs"]:
            limit = max(1, answer["plain_cost"])
            wanted = reference.replay(text, run["budget"], rows["policy"], limit)
            got = run["end"], run["remade_cost"], run["access_count"]
            if wanted != got:
                sys.exit(f"seed {seed}, {rows['policy']}, {run['budget']} bytes: (end, made again, accesses) is {got}, "
                         f"should be {wanted}")
            count += run["end"] == "done" and run["remade_cost"] > 0
    return count


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tenure")
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    again = 0
    for seed in range(asked.seed, asked.seed + asked.count):
        again += check(asked.tenure, Writer(seed).write(), seed)
    if again < asked.count:
        sys.exit(f"only {again} of the runs made anything again: logs are too easy")
    print(f"{asked.count} logs from seed {asked.seed}: the same, {again} runs with something made again")


if __name__ == "__main__":
    main()
