"""How many cases a test tries that could try any number (tests/count.h says the same for C), and which of them."""
import os


def case_count(full, least):
    """The number of cases out of `full`, at least `least`, by the percentage TENURE_COUNT (default: 100) divided by TENURE_SLOWER."""
    percent = int(os.environ.get("TENURE_COUNT", "100")) // int(os.environ.get("TENURE_SLOWER", "1"))
    return full if percent >= 100 else min(full, max(least, full * percent // 100))


def case_seed():
    """The seed of the cases that a test chooses at random: TENURE_SEED, by default always the same, so that a run can be repeated."""
    return int(os.environ.get("TENURE_SEED", "1"))
