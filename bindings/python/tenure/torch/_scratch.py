"""Scratch memory of PyTorch's operators on the CPU, in addition to their inputs and outputs.

Elementwise operators copy operands of another type to the type of the computation, and a result that is wanted in another
type. Sums of booleans and short integers do the same.

Some operators copy inputs that are not contiguous. Products copy only matrices that are contiguous neither by rows nor by
columns.

Convolutions: oneDNN works in blocked formats, and PyTorch makes tensors for the copies of input, weights and output in
these formats. Blocked formats round channels up to 16. With channels last, only weights are copied. Convolutions that
oneDNN does not compute (transposed ones, small ones) use a matrix of columns. 1 x 1 convolutions need neither, except in
bfloat16. Measured with PyTorch 1.13's profiler.
"""
from typing import Any, List

import torch

CHANNELS = 16
SMALL = 20480  # elements of a single picture, below which PyTorch does not use oneDNN


def count(shape: Any) -> int:
    return int(torch.Size(shape).numel())


def blocked(shape: Any, *dimensions: int) -> int:
    """The number of elements with these dimensions rounded up."""
    return count(-(-extent // CHANNELS) * CHANNELS if at in dimensions else extent for at, extent in enumerate(shape))


def copies(x: Any, weight: Any, y: Any, groups: int) -> Any:
    """The number of elements of input, weights and output in oneDNN's formats."""
    few, alone = x.shape[1] < CHANNELS, weight.shape[1] == 1 and groups > 1
    wide = count(weight.shape) if alone else blocked(weight.shape, 0) if few else blocked(weight.shape, 0, 1)
    return 0 if few else blocked(x.shape, 1), wide, blocked(y.shape, 1)


def in_columns(x: Any, weight: Any, y: Any, transposed: bool, groups: int) -> int:
    """The number of elements of the matrix of columns; 0: oneDNN computes it."""
    if transposed:
        return count(weight.shape[1:]) * count(x.shape[2:])
    if groups == 1 and x.shape[0] == 1 and x.numel() <= SMALL and max(weight.shape[2:]) <= 3:
        return count(weight.shape[1:]) * count(y.shape[2:])
    return 0


LAST = {4: torch.channels_last, 5: torch.channels_last_3d}


def is_last(tensor: Any) -> bool:
    """Whether its channels come last, and that differs from the contiguous layout."""
    wanted = LAST.get(tensor.dim())
    return wanted is not None and not tensor.is_contiguous() and bool(tensor.is_contiguous(memory_format=wanted))


def beside_last(x: Any, weight: Any, *more: Any) -> int:
    """Elements that are copied where input or weights have their channels last; 0: neither has."""
    if not is_last(x) and not is_last(weight):
        return 0
    copied = [tensor for tensor in (x, weight, *more) if not tensor.is_contiguous(memory_format=LAST[x.dim()])]
    return blocked(weight.shape, 0, 1) + sum(count(tensor.shape) for tensor in copied)


def gradients_last(weight: Any, wanted: Any) -> int:
    """Elements of the gradients of weights and bias, which are computed in oneDNN's layout and then copied."""
    return (count(weight.shape) if wanted[1] else 0) + (int(weight.shape[0]) if wanted[2] else 0)


def is_product(weight: Any, stride: Any, padding: Any) -> bool:
    if weight.dtype == torch.bfloat16:
        return False
    return all(n == 1 for n in weight.shape[2:]) and all(n == 1 for n in stride) and not any(padding)


def forward(args: Any, y: Any) -> int:
    x, weight, _, stride, padding, _, transposed, _, groups = args
    columns: int = in_columns(x, weight, y, transposed, groups)
    if columns or is_product(weight, stride, padding):
        return columns
    beside = beside_last(x, weight)
    if beside:
        return beside
    x_copy, w_copy, y_copy = copies(x, weight, y, groups)
    return int(max(x_copy + w_copy + y_copy - y.numel(), y_copy))


def backward(args: Any) -> int:
    grad, x, weight, _, stride, padding, _, transposed, _, groups, wanted = args
    columns: int = in_columns(x, weight, grad, transposed, groups)
    if columns or is_product(weight, stride, padding):
        return columns
    beside = beside_last(x, weight, grad)
    if beside:
        return beside + gradients_last(weight, wanted)
    x_copy, w_copy, y_copy = copies(x, weight, grad, groups)
    made = [x.numel() if wanted[0] else 0, weight.numel() if wanted[1] else 0]
    # The weights' gradient comes last. It is copied from oneDNN's layout when the other copies are released.
    bias = int(weight.shape[0]) if wanted[2] else 0
    most = made[0] + w_copy + max(x_copy + y_copy, made[1] + bias) if wanted[1] else 0
    if wanted[0]:
        most = max(most, y_copy + w_copy + blocked(x.shape, 1))
    return int(max(most - sum(made), 0))


def slopes(args: Any) -> int:
    """PReLU's backward pass: the terms of the gradient of the slope, one per element, and their sums."""
    _, x, weight = args
    return int(x.numel() + weight.numel())


KNOWN = {"aten::convolution": forward, "aten::convolution_backward": lambda args, _: backward(args),
         "aten::prelu_backward": lambda args, _: slopes(args)}

# Elementwise operators that compute in one type for all operands.
ARITHMETIC = {"aten::" + name for name in (
    "add sub rsub mul div floor_divide remainder fmod pow atan2 maximum minimum fmax fmin hypot copysign xlogy "
    "logaddexp lerp addcmul addcdiv reciprocal sqrt rsqrt exp expm1 log log1p log2 log10 sin cos tan asin acos atan "
    "sinh cosh tanh erf erfc erfinv sigmoid").split()}
COMPARING = {"aten::" + name for name in "eq ne lt le gt ge".split()}
SUMMING = {"aten::" + name for name in "sum nansum mean prod cumsum cumprod".split()}

# Operators that copy operands that are not contiguous, with the indices of these among the tensors of the arguments.
IN_ROWS = {"aten::" + name: places for name, places in {
    "native_layer_norm": (0,), "native_layer_norm_backward": (0, 1), "_softmax": (0,), "_log_softmax": (0,),
    "_softmax_backward_data": (0, 1), "_log_softmax_backward_data": (0, 1), "avg_pool2d": (0,),
    "_adaptive_avg_pool2d": (0,), "max_pool2d_with_indices_backward": (0,), "avg_pool2d_backward": (0,),
    "_adaptive_avg_pool2d_backward": (0,), "upsample_nearest2d_backward": (0,), "upsample_bilinear2d_backward": (0,),
    "reflection_pad2d": (0,), "nll_loss2d_forward": (0,)}.items()}

POOLS = {"aten::" + name for name in (
    "avg_pool2d _adaptive_avg_pool2d max_pool2d_with_indices_backward avg_pool2d_backward "
    "_adaptive_avg_pool2d_backward upsample_nearest2d_backward upsample_bilinear2d_backward").split()}

# Operators that make copies or temporaries as large as the largest operand, and their number.
AS_MUCH_AGAIN = {"aten::" + name: times for name, times in {
    "logsumexp": 1, "soft_margin_loss_backward": 2, "_linalg_svd": 1, "linalg_inv_ex": 1, "_linalg_solve_ex": 1,
    "_linalg_det": 1}.items()}

# Losses that reduce to one number and need a temporary tensor of the input's size.
LOSSES = ("aten::mse_loss", "aten::smooth_l1_loss", "aten::huber_loss")

# Means divide by a number, of which PyTorch makes a tensor, and a copy in the type of the result.
NUMBER = 8  # bytes of this tensor
MEANS = ("aten::mean", "aten::binary_cross_entropy_with_logits", *LOSSES)

# Means and sums that are reduced inside the result's own storage, by the index of `reduction`: the storage keeps its size.
UNSHRUNK = {"aten::soft_margin_loss": 2, "aten::binary_cross_entropy": 3}


def tensors_of(args: Any) -> List[Any]:
    return [value for value in args if isinstance(value, torch.Tensor)]


def bytes_of(dtype: Any) -> int:
    if dtype.is_complex:
        return int(torch.finfo(dtype).bits) // 4
    return 1 if dtype == torch.bool else int((torch.finfo if dtype.is_floating_point else torch.iinfo)(dtype).bits) // 8


def in_type(tensor: Any, wanted: Any) -> int:
    """The bytes of a copy in that type; 0 if the tensor has it."""
    return 0 if tensor.dtype == wanted else int(tensor.numel()) * bytes_of(wanted)


def casts(name: str, args: Any, result: Any) -> int:
    """The bytes of operands and result in the type of the computation."""
    tensors, plain = tensors_of(args), name.rstrip("_")
    if not tensors or not isinstance(result, torch.Tensor):
        return 0
    if plain in SUMMING:
        return in_type(tensors[0], result.dtype)
    if plain not in ARITHMETIC and plain not in COMPARING:
        return 0
    wanted = result.dtype
    if plain in COMPARING or name != plain:
        wanted = torch.result_type(args[0], args[1]) if len(args) > 1 else args[0].dtype
    copies = sum(in_type(tensor, wanted) for tensor in tensors)
    return copies + (in_type(result, wanted) if name != plain else 0)


def is_in_rows_or_columns(matrix: Any) -> bool:
    rows, columns = matrix.shape[-2:]
    down, right = matrix.stride()[-2:]
    return bool((right == 1 and down >= max(columns, 1)) or (down == 1 and right >= max(rows, 1)))


def in_products(name: str, args: Any) -> int:
    """The bytes of copied matrices that BLAS cannot read: of all in a product, of one at a time in a batch."""
    if name not in ("aten::mm", "aten::addmm", "aten::mv", "aten::bmm", "aten::baddbmm"):
        return 0
    copied = [tensor.numel() // (tensor.shape[0] if tensor.dim() == 3 else 1) * tensor.element_size()
              for tensor in tensors_of(args)[-2:] if tensor.dim() > 1 and not is_in_rows_or_columns(tensor)]
    return max(copied, default=0) if name.endswith("bmm") else sum(copied)


def size(tensor: Any) -> int:
    return int(tensor.numel() * tensor.element_size())


def by_the_way(name: str, args: Any) -> int:
    """The bytes of copies and temporaries that some operators make."""
    first = args[0]
    given = tensors_of(args)
    if name in POOLS and is_last(given[min(1, len(given) - 1)]):  # the input is copied; its gradient keeps the layout
        return 0 if is_last(first) else size(given[1])
    if name in IN_ROWS:
        return sum(size(given[at]) for at in IN_ROWS[name] if not given[at].is_contiguous())
    if name in AS_MUCH_AGAIN:
        return AS_MUCH_AGAIN[name] * max(size(tensor) for tensor in given)
    if name == "aten::kthvalue":  # values and indices
        return size(first) + 8 * int(first.numel())
    if name == "aten::binary_cross_entropy_with_logits":
        return (4 if len(args) > 4 and args[4] == 0 else 5) * size(first)
    if name in LOSSES and (len(args) < 3 or args[2] != 0):
        return size(first)
    if name in ("aten::im2col", "aten::col2im"):
        return ((name == "aten::im2col") + (not first.is_contiguous())) * size(first)
    if name == "aten::native_batch_norm_backward" and any(
            all(tensor.is_contiguous(memory_format=lies) for tensor in args[:2])
            for lies in (torch.contiguous_format, LAST.get(first.dim(), torch.contiguous_format))):
        return size(first)  # the gradient is made twice, and one copy is released
    return 0


def unshrunk(name: str, args: Any, result: Any) -> int:
    """The bytes that a result holds beyond its size, since its storage was larger before."""
    if name == "aten::col2im":
        return max(0, size(args[0]) - size(result))
    place = UNSHRUNK.get(name)
    is_whole = place is None or (len(args) > place and args[place] == 0)
    return 0 if is_whole else size(args[0])


def scratch_of(name: str, args: Any, result: Any) -> int:
    """The scratch bytes of an operator; 0 if unknown."""
    first = args[0] if args else None
    if not isinstance(first, torch.Tensor) or first.device.type != "cpu":
        return 0
    if name in KNOWN:
        known = first.dtype in (torch.float32, torch.bfloat16)
        return int(first.element_size() * KNOWN[name](args, result)) if known else 0
    dividing = NUMBER + int(first.element_size()) if name in MEANS else 0
    return dividing + casts(name, args, result) + in_products(name, args) + by_the_way(name, args)
