"""For PyTorch modules (1.13 or later): estimate their memory, and train them within a budget.

    >>> import tenure.torch
    >>> tenure.torch.estimate(module, inputs, optimizer="adam").total     # without computing anything
    >>> plan = tenure.torch.fit(module, inputs, "2GiB")                   # from now on the module trains within 2 GiB

    python3 -m tenure.record runs an unchanged script and records it for `tenure simulate`.
"""
from tenure.torch._estimate import OPTIMIZERS, Estimate, estimate
from tenure.torch._fit import Plan, fit

__all__ = ["OPTIMIZERS", "Estimate", "Plan", "estimate", "fit"]
