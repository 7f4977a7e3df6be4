"""For PyTorch modules (1.13 or later): estimate their memory, train them within a budget, and watch its holders.

    >>> import tenure.torch
    >>> tenure.torch.estimate(module, inputs, optimizer="adam").total     # without computing anything
    >>> plan = tenure.torch.fit(module, inputs, "2GiB")                   # from now on the module trains within 2 GiB
    >>> with tenure.torch.watch(module, optimizer) as watch: ...          # `tenure watch PID`, or print(watch)

    python3 -m tenure.record runs an unchanged script and records it for `tenure simulate`.
"""
from tenure.torch._estimate import OPTIMIZERS, Estimate, estimate
from tenure.torch._fit import Plan, fit
from tenure.torch._watch import Watching, watch

__all__ = ["OPTIMIZERS", "Estimate", "Plan", "Watching", "estimate", "fit", "watch"]
