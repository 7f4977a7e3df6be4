"""`tenure simulate` on the eight traces of DTR's simulator: every integer of its tables, and what our policy makes of them.

    published.py TENURE --logs FOLDER --baseline FILE [--policies dtr,lru] [--ours]

FOLDER has the logs (simrd/logs.zip of uwsampl/dtr-prototype, unpacked; they are not part of this tree), FILE the tables that
the simulator printed: plain peaks, overheads, nanoseconds made again, accesses, at ten shares. Without them: skipped.

Counts of accesses of `dtr-eq` are compared where --accesses-of-eq says so: the simulator joins classes in the order in which
a set of Python yields objects, which is that of their addresses. Run twice from different scripts it tells different counts
for one and the same run; ours are those of the order in which neighbours appeared.

--ours prints what `live` makes of them beside the best of the seven, and checks that it can wherever one of them can, is
below the mean of the best of seven at 0.3 and 0.5, and never 3 % above it from 0.4 on.
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys

FILES = {"U-Net": "unet-", "ResNet-32": "resnet32-", "Transformer": "transformer-", "DenseNet-121": "tv_densenet121-",
         "InceptionV4": "inceptionv4-", "TreeLSTM": "treelstm-", "Unrolled GAN": "unroll_gan-", "LSTM": "lstm-"}
NAMES = {"dtr": "DTR", "dtr-eq": "DTREqClass", "dtr-local": "DTRLocal", "lru": "LRU", "msps": "MSPS", "largest": "LargestStorage"}
SEVEN = [*NAMES.values(), "RandomStorage"]
ENDS = {"full": "OOM", "over": "thrash"}


def rows(text):
    return {name: [cell.strip() for cell in cells.split("|")]
            for name, cells in re.findall(r"^\| (\w+) \| (.*) \|$", text, flags=re.M)}


def tables(path):
    """name: (budgets, overheads, accesses, made again), each a row by the simulator's name."""
    found = {}
    for part in re.split(r"^### ", path.read_text(), flags=re.M)[1:]:
        name = re.sub(r" \(.*", "", part.splitlines()[0])
        if name in FILES:
            part = re.split(r"^## ", part, flags=re.M)[0]
            budgets = [int(size) for size in re.findall(r"[01]\.\d:(\d+)", part)]
            found[name] = budgets, *map(rows, re.split(r"^\| (?:metadata|rematerialised).*$", part, flags=re.M))
    return found


def simulate(tenure, log, policies, budgets):
    done = subprocess.run([tenure, "simulate", log, "--policy", ",".join(policies), "--budget", ",".join(map(str, budgets)),
                           "--json"], capture_output=True, text=True)
    if done.returncode not in (0, 1):
        sys.exit(done.stderr)
    answer = json.loads(done.stdout)
    return answer, {rows["policy"]: rows["runs"] for rows in answer["policies"]}


def differences(policy, run, place, table, with_accesses):
    _, overheads, accesses, again = table
    theirs = NAMES[policy]
    end = ENDS.get(run["end"])
    pairs = [("overhead", end or f"{run['overhead']:.4f}", overheads)]
    pairs += [("made again", end or str(run["remade_cost"]), again)]
    if with_accesses:
        pairs += [("accesses", f"({run['access_count']})" if end else str(run["access_count"]), accesses)]
    return [f"{what} {ours}, there {table[theirs][place]}" for what, ours, table in pairs
            if theirs in table and table[theirs][place] != ours]


def compare(asked, name, log, table):
    answer, runs = simulate(asked.tenure, log, asked.policies, table[0])
    faults = 0
    if int(answer["plain_peak"]) != table[0][9]:
        faults += 1
        print(f"{name}: plain peak {answer['plain_peak']}, there {table[0][9]}")
    for policy in asked.policies:
        for place, run in enumerate(runs[policy]):
            found = differences(policy, run, place, table, policy != "dtr-eq" or asked.accesses_of_eq)
            faults += bool(found)
            for words in found:
                print(f"{name}, {policy}, {(place + 1) / 10}: {words}")
    print(f"{name}: {len(asked.policies)} policies at 10 budgets, {faults} differ", flush=True)
    return faults


def best_of(table, place):
    values = [table[1][name][place] for name in SEVEN if name in table[1]]
    return min([float(value) for value in values if re.fullmatch(r"[\d.]+", value)], default=float("inf"))


def ours(asked, found):
    faults, sums = 0, {place: [] for place in range(10)}
    for name, table in found.items():
        _, runs = simulate(asked.tenure, log_of(asked, name), [asked.policy], table[0])
        cells = []
        for place, run in enumerate(runs[asked.policy]):
            best, value = best_of(table, place), run.get("overhead", float("inf"))
            bad = value == float("inf") > best or (place >= 3 and value > 1.03 * best)
            faults += bad
            sums[place].append((value, best))
            cells.append(f"{value:.4f} / {best:.4f}{' !' if bad else ''}")
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)
    means = [[sum(pair[i] for pair in sums[place]) / len(found) for i in (0, 1)] for place in range(10)]
    print("| mean | " + " | ".join(f"{a:.4f} / {b:.4f}" for a, b in means) + " |")
    return faults + sum(means[place][0] > means[place][1] for place in (2, 4))


def log_of(asked, name):
    return next(pathlib.Path(asked.logs).glob(FILES[name] + "*.log"))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tenure")
    parser.add_argument("--logs", default="")
    parser.add_argument("--baseline", type=pathlib.Path, required=True)
    parser.add_argument("--policies", type=lambda text: text.split(","), default=[*NAMES])
    parser.add_argument("--accesses-of-eq", action="store_true")
    parser.add_argument("--policy", default="live")
    parser.add_argument("--ours", action="store_true")
    asked = parser.parse_args()
    if not asked.baseline.exists():
        print("SKIP: no ../shared/reference")
        sys.exit(77)
    if not asked.logs or not list(pathlib.Path(asked.logs).glob("*.log")):
        print("SKIP: no folder with the traces of DTR's simulator (TENURE_DTR_LOGS)")
        sys.exit(77)
    found = tables(asked.baseline)
    faults = 0
    if not asked.ours:
        faults = sum(compare(asked, name, log_of(asked, name), table) for name, table in found.items())
    faults += ours(asked, found)
    print(f"{faults} faults")
    sys.exit(faults > 0)


main()
