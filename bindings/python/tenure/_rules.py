"""Rules about single tensors: keep, recompute or swap the results of operators that match a pattern."""
from typing import List, Mapping, Optional, Sequence, Tuple, Union

from tenure._abi import RULES, tn_rule, tn_rules
from tenure._library import number, options, text

Patterns = Sequence[str]
Swaps = Union[Sequence[str], Mapping[str, int]]  # patterns, also "PATTERN:prefetch=N"; or {pattern: distance in operators}
MOST = (1 << 32) - 1
PREFETCH, PREFETCH_MOST = ":prefetch=", 4096  # as on the command line


def cut(pattern: str) -> Tuple[str, int]:
    """A pattern of a swap without its end ":prefetch=N", and N, or 0 without such an end."""
    before, found, distance = pattern.rpartition(PREFETCH)
    if not found:
        return pattern, 0
    if not (distance.isascii() and distance.isdecimal()) or not 0 < int(distance) <= PREFETCH_MOST:
        raise ValueError("swap: '%s' is not a number of operators from 1 to %d" % (distance, PREFETCH_MOST))
    return before, int(distance)


def rules(keep: Patterns, recompute: Patterns, swap: Swaps, segments: int) -> Optional[tn_rules]:
    """The rules as a struct of the library; None: there are none."""
    found: List[Tuple[str, str, int]] = []
    for kind, patterns in (("keep", keep), ("recompute", recompute), ("swap", swap)):
        if isinstance(patterns, str):
            raise TypeError("%s: a list of patterns, not a single text" % kind)
        for pattern in patterns:
            ahead = patterns[pattern] if isinstance(patterns, Mapping) else 0
            if isinstance(ahead, bool):
                raise TypeError("%s: a number of operators, not %r" % (kind, ahead))
            if kind == "swap" and isinstance(pattern, str):
                if not isinstance(patterns, Mapping):
                    pattern, ahead = cut(pattern)
                elif PREFETCH in pattern:
                    raise ValueError("swap: '%s': in a mapping, the distance is the value: {'%s': 4}"
                                     % (pattern, pattern.rpartition(PREFETCH)[0]))
            found.append((kind, pattern, number(ahead, "swap", PREFETCH_MOST)))
    count = number(segments, "segments", MOST)
    if not found and not count:
        return None
    raw = (tn_rule * max(1, len(found)))(*[tn_rule(text(pattern, kind), RULES[kind], ahead)
                                           for kind, pattern, ahead in found])
    return options(tn_rules, list=raw, count=len(found), segments=count)
