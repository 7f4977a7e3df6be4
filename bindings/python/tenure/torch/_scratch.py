"""What some operators of PyTorch take on the CPU while they run, beside what goes in and comes out.

Of convolutions: oneDNN works in blocked formats: input, weights and output are copied into those, and back, and the copies are tensors
of PyTorch's. Blocked formats round channels up to 16. What oneDNN does not compute (transposed ones, small ones) goes
through a matrix of columns. Products of pixels (1 x 1) need neither. Found with PyTorch 1.13's profiler.
"""
from typing import Any

import torch

CHANNELS = 16
SMALL = 20480  # elements of a single picture, below which oneDNN is not asked


def count(shape: Any) -> int:
    return int(torch.Size(shape).numel())


def blocked(shape: Any, *dimensions: int) -> int:
    """Elements with these dimensions rounded up."""
    return count(-(-extent // CHANNELS) * CHANNELS if at in dimensions else extent for at, extent in enumerate(shape))


def copies(x: Any, weight: Any, y: Any, groups: int) -> Any:
    """Elements of input, weights and output in oneDNN's formats."""
    few, alone = x.shape[1] < CHANNELS, weight.shape[1] == 1 and groups > 1
    wide = count(weight.shape) if alone else blocked(weight.shape, 0) if few else blocked(weight.shape, 0, 1)
    return 0 if few else blocked(x.shape, 1), wide, blocked(y.shape, 1)


def in_columns(x: Any, weight: Any, y: Any, transposed: bool, groups: int) -> int:
    """Elements of the matrix of columns; 0: oneDNN computes it."""
    if transposed:
        return count(weight.shape[1:]) * count(x.shape[2:])
    if groups == 1 and x.shape[0] == 1 and x.numel() <= SMALL and max(weight.shape[2:]) <= 3:
        return count(weight.shape[1:]) * count(y.shape[2:])
    return 0


def is_product(weight: Any, stride: Any, padding: Any) -> bool:
    return all(n == 1 for n in weight.shape[2:]) and all(n == 1 for n in stride) and not any(padding)


def forward(args: Any, y: Any) -> int:
    x, weight, _, stride, padding, _, transposed, _, groups = args
    columns: int = in_columns(x, weight, y, transposed, groups)
    if columns or is_product(weight, stride, padding):
        return columns
    x_copy, w_copy, y_copy = copies(x, weight, y, groups)
    return int(max(x_copy + w_copy + y_copy - y.numel(), y_copy))


def backward(args: Any) -> int:
    grad, x, weight, _, stride, padding, _, transposed, _, groups, wanted = args
    columns: int = in_columns(x, weight, grad, transposed, groups)
    if columns or is_product(weight, stride, padding):
        return columns
    x_copy, w_copy, y_copy = copies(x, weight, grad, groups)
    made = [x.numel() if wanted[0] else 0, weight.numel() if wanted[1] else 0]
    most = made[0] + x_copy + y_copy + w_copy if wanted[1] else 0  # the weights' gradient comes last
    if wanted[0]:
        most = max(most, y_copy + w_copy + blocked(x.shape, 1))
    return int(max(most - sum(made), 0))


def slopes(args: Any) -> int:
    """PReLU's backward pass: what each element adds to the gradient of its slope, and the sums."""
    _, x, weight = args
    return int(x.numel() + weight.numel())


KNOWN = {"aten::convolution": forward, "aten::convolution_backward": lambda args, _: backward(args),
         "aten::prelu_backward": lambda args, _: slopes(args)}


def scratch_of(name: str, args: Any, result: Any) -> int:
    """Bytes; 0 of all that is not known."""
    if name not in KNOWN:
        return 0
    first = args[0]
    if first.dtype != torch.float32 or first.device.type != "cpu":
        return 0
    return 4 * KNOWN[name](args, result)
