"""For modules of PyTorch (1.13 and later): what they take, what they did, and how they fit in less.

    >>> import tenure.torch
    >>> tenure.torch.estimate(module, inputs, optimizer="adam").total     # nothing is computed
    >>> plan = tenure.torch.fit(module, inputs, "2GiB")                   # module trains within it from now on

    python3 -m tenure.record runs an unchanged script and writes what it did, for `tenure simulate`.
"""
from tenure.torch._estimate import OPTIMIZERS, Estimate, estimate
from tenure.torch._fit import Plan, fit

__all__ = ["OPTIMIZERS", "Estimate", "Plan", "estimate", "fit"]
