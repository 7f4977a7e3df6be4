"""Replaces functions that PyTorch 1.13 cannot run on tensors without data by others with the same memory use."""
import contextlib
from typing import Any, Callable, Dict, Iterator, Tuple

import torch
from torch.nn import functional
from torch.overrides import TorchFunctionMode


def repeated(*args: Any, **kwargs: Any) -> Any:
    """repeat_interleave with a number of repeats: PyTorch makes an index and selects by it."""
    given = dict(zip(("input", "repeats", "dim"), args), **kwargs)
    if not isinstance(given.get("repeats"), int):
        return torch.repeat_interleave(*args, **kwargs)
    x, dim = given["input"], given.get("dim")
    if dim is None:
        x, dim = x.flatten(), 0
    return x.index_select(dim, torch.empty(x.shape[dim] * given["repeats"], dtype=torch.long, device=x.device))


def smoothed(output: Any, target: Any, *args: Any, **kwargs: Any) -> Any:
    """The mean with label_smoothing excludes ignored labels, and their number does not follow from shapes."""
    if kwargs.get("label_smoothing", 0) == 0 or kwargs.get("reduction", "mean") != "mean":
        return functional.cross_entropy(output, target, *args, **kwargs)
    return functional.cross_entropy(output, target, *args, **dict(kwargs, reduction="none")).mean()


def unaligned(log_probs: Any, targets: Any, inputs: Any, lengths: Any, blank: int = 0, reduction: str = "mean",
              zero_infinity: bool = False) -> Any:
    """The mean makes a tensor of the lengths, which no mode sees."""
    if reduction != "mean":
        return functional.ctc_loss(log_probs, targets, inputs, lengths, blank, reduction, zero_infinity)
    found = functional.ctc_loss(log_probs, targets, inputs, lengths, blank, "none", zero_infinity)
    return (found / torch.empty_like(found).clamp_min(1)).mean()


def drawn(input: Any, num_samples: int, replacement: bool = False, *, generator: Any = None) -> Any:
    """multinomial rejects zeroes as probabilities. During the draw, a copy of these exists."""
    beside = torch.empty_like(input)
    return beside.new_empty((*input.shape[:-1], num_samples), dtype=torch.long)


DETOURS: Dict[Any, Callable[..., Any]] = {
    torch.repeat_interleave: repeated, torch.Tensor.repeat_interleave: repeated, functional.cross_entropy: smoothed,
    functional.ctc_loss: unaligned, torch.multinomial: drawn, torch.Tensor.multinomial: drawn}


# Functions that add a bias to a product: with tensor subclasses, PyTorch makes a new tensor of the sum.
BIASED = {"linear", "lstm", "gru", "rnn_tanh", "rnn_relu", "lstm_cell", "gru_cell", "rnn_tanh_cell", "rnn_relu_cell"}


class Detours(TorchFunctionMode):
    def __init__(self, meter: Any) -> None:
        super().__init__()
        self.meter = meter

    def __torch_function__(self, function: Any, types: Any, args: Tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        before = self.meter.biased
        self.meter.biased = getattr(function, "__name__", "") in BIASED
        try:
            return DETOURS.get(function, function)(*args, **(kwargs or {}))
        finally:
            self.meter.biased = before


@contextlib.contextmanager
def states_held(meter: Any) -> Iterator[None]:
    """Counts the states of the random generator that a program keeps, as torch.utils.checkpoint does for each part. No
    mode sees the operator that makes them."""
    before = torch.get_rng_state

    def state() -> Any:
        found = before()
        meter.hold(found, "activations")
        return found
    torch.get_rng_state = state
    try:
        yield
    finally:
        torch.get_rng_state = before


@contextlib.contextmanager
def unchecked() -> Iterator[None]:
    """Disables the checks of distributions, since there is no data to check."""
    distribution = torch.distributions.Distribution
    before = distribution._validate_args
    distribution.set_default_validate_args(False)
    try:
        yield
    finally:
        distribution.set_default_validate_args(before)
