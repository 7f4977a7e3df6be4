"""The preloaded library under a program that is hard on it (crowd.c): 64 threads, forks, signals, allocations before main and after it.

    crowd.py LIBRARY CROWD SOURCE_DIR

Blocks keep their bytes, and large blocks never take more than the budget, by the program's count and by the library's.
"""
import os
import subprocess
import sys

library, crowd, source = sys.argv[1:4]
sys.path.insert(0, source + "/tests")
from count import case_count, case_seed  # noqa: E402

seed, operations = case_seed(), case_count(8000000, 200000)
for pool, budget in (("iteration", 16 << 20), ("best-fit", 16 << 20), ("iteration", 0)):
    environment = dict(os.environ, LD_PRELOAD=library, TENURE_POOL=pool, TENURE_BUDGET=str(budget), TENURE_STATS="1")
    result = subprocess.run([crowd, str(operations), str(seed), str(budget)], env=environment, capture_output=True, text=True, timeout=1200)
    print(pool, budget, "seed", seed, result.stdout.strip(), flush=True)
    assert result.returncode == 0 and result.stdout.startswith("%d operations" % operations), result
    words = result.stdout.split()
    forks, signals, refused = int(words[2]), int(words[4]), int(words[6])
    assert forks > 0 and (signals > 0 or operations < 1000000) and (refused > 0) == (budget > 0), result
    reserved = int(result.stderr.split("in use, ")[1].split("(")[1].split()[0].replace(",", ""))
    assert budget == 0 or 0 < reserved <= budget, result
