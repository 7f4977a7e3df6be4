"""A budget that a training meets on this processor: what an operator needs of scratch memory differs by processor."""
import re
import subprocess


def budget_of(command, whole, share, allowed):
    """A share of the whole; where the least that is found on this processor is above it, halfway from there to the whole.

    None: the least is the whole, as what an operator needs of scratch memory differs by processor."""
    budget = whole * share // 100
    done = subprocess.run([*command, "--budget", str(budget), *allowed], capture_output=True, text=True, timeout=1200)
    least = re.search(r"the least found takes [^(]*\(([\d,]+) bytes\)", done.stderr)
    if done.returncode == 1 and least:
        least = int(least[1].replace(",", ""))
        if least >= whole:
            return None
        budget = (least + whole) // 2
    return ["--budget", str(budget), *allowed]
