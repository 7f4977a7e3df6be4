#!/usr/bin/env python3
"""Every planner answers on every kind of problem, and the verifier accepts the answer.

    planners.py TENURE PROBLEMS [SHARED]

PROBLEMS and SHARED are folders of .csv; SHARED may be missing. A planner may refuse a problem (status 2) or stop at the
limit (status 3); an internal error or a plan that is not valid is a failure.
"""
import pathlib
import random
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from count import case_count  # noqa: E402

tenure, folders = sys.argv[1], [pathlib.Path(folder) for folder in sys.argv[2:]]
MOST = 5000  # rows: some planners are quadratic
LIMIT = "20000"
failed = plans = 0
random.seed(7)


def run(*words):
    return subprocess.run([tenure, *map(str, words)], capture_output=True, text=True, timeout=300)


def kinds(folder):
    """Small problems of each kind; in `flat` all buffers live where most bytes do."""
    texts = {
        "flat": "id,lower,upper,size\n" + "".join(f"{i},0,9,{8 * i + 8}\n" for i in range(12)),
        "steps": "id,lower,upper,size\n" + "".join(f"{i},{i},{i + 6},{64 + i % 5}\n" for i in range(60)),
        "pins": "id,lower,upper,size,offset,pinned\na,0,5,64,128,1\nb,1,6,64,,0\nc,2,9,32,,0\n",
        "gaps": "id,lower,upper,size,gaps\na,0,9,64,2-4\nb,1,6,64,\nc,2,9,32,3-5@0:8\n",
        "banks": "id,lower,upper,size,bank,any_bank\na,0,9,64,0,0\nb,1,6,64,1,0\nc,2,9,32,0,1\n",
        "ties": "id,lower,upper,size,leader,delta\na,0,9,64,,\nb,1,6,64,a,64\nc,2,9,32,,\n",
        "streams": "id,lower,upper,size,begins,ends\na,0,9,64,0 0,4 4\nb,1,6,64,1 0,2 9\nc,2,9,32,2 2,9 9\n",
        "aligned": "id,lower,upper,size,alignment\na,0,9,3,256\nb,1,6,64,64\nc,2,9,32,1\n",
        "empty": "id,lower,upper,size\n",
        "nothing": "id,lower,upper,size\na,0,9,0\nb,1,6,0\n",
    }
    for name, text in texts.items():
        (folder / f"{name}.csv").write_text(text)
    return sorted(folder.glob("*.csv"))


with tempfile.TemporaryDirectory() as scratch:
    problems = kinds(pathlib.Path(scratch))
    for folder in folders:
        some = [path for path in sorted(folder.glob("*.csv")) if len(path.read_text().splitlines()) <= MOST]
        problems += random.sample(some, case_count(len(some), min(len(some), 12)))
    planners = [line.split()[0] for line in run("list", "planners").stdout.splitlines()]
    answer = pathlib.Path(scratch) / "answer.json"
    for problem in problems:
        for planner in planners:
            said = run("plan", problem, "--planner", planner, "--work-limit", LIMIT, "-q", "-o", answer)
            if said.returncode in (2, 3) and "left body" not in said.stderr:
                continue
            judged = run("verify", problem, "--plan", answer) if said.returncode == 0 else said
            plans += 1
            if judged.returncode != 0:
                failed = 1
                print(f"FAILED: {problem.name}, {planner}: {judged.returncode}: {judged.stdout}{judged.stderr}")
print(f"{len(problems)} problems, {len(planners)} planners: {plans} plans accepted")
sys.exit(failed)
