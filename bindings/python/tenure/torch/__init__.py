"""For modules of PyTorch (1.13 and later): what they take, what they did, and how they fit in less.

    >>> import tenure.torch
    >>> tenure.torch.estimate(module, inputs, optimizer="adam").total
"""
from tenure.torch._estimate import OPTIMIZERS, Estimate, estimate

__all__ = ["OPTIMIZERS", "Estimate", "estimate"]
