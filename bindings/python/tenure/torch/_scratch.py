"""Scratch memory of PyTorch's operators on the CPU, in addition to their inputs and outputs.

Elementwise operators copy operands of another type to the type of the computation, and a result that is wanted in another
type. Sums of booleans and short integers do the same.

Some operators copy inputs that are not contiguous. Products copy only matrices that are contiguous neither by rows nor by
columns.

Convolutions: PyTorch computes them by oneDNN or by itself, which depends on sizes and the number of threads. oneDNN works in
blocked formats, and PyTorch makes tensors for the copies of input, weights and output in these formats. Blocked formats
round channels up to 16, in each group. With channels last, only weights are copied. PyTorch itself uses a matrix of columns,
except for 1 x 1 convolutions; for groups it computes each apart and concatenates. Rules for usual convolutions are exact. The
buffers of oneDNN's implementations are bounded from above: they differ between processors, and grow with threads. For
bfloat16, which oneDNN computes with AVX-512, sums are in float32, and the gradient of the weights reads pictures in which
pairs of pixels are adjacent. Measured with PyTorch 1.13's profiler (check_convolutions of tests/python/torch_estimate.py).
"""
from typing import Any, List

import torch

CHANNELS = 16
SMALL = 20480  # elements of a single picture, below which PyTorch does not use oneDNN


def count(shape: Any) -> int:
    return int(torch.Size(shape).numel())


def up(channels: int) -> int:
    """The channels of a blocked format."""
    return -(-channels // CHANNELS) * CHANNELS


def blocked(shape: Any) -> int:
    """The elements of a picture in a blocked format."""
    return count(shape) // max(int(shape[1]), 1) * up(int(shape[1]))


def is_by_depth(weight: Any, groups: int) -> bool:
    """Whether each group has one channel."""
    return bool(groups > 1 and weight.shape[1] == 1 and weight.shape[0] == groups)


def blocked_weights(weight: Any, groups: int, few: bool, last: bool) -> int:
    """The elements of weights in a blocked format. `few`: the channels of the input are not rounded up."""
    outputs, inputs = int(weight.shape[0]) // groups, int(weight.shape[1])
    kernel = count(weight.shape[2:])
    if is_by_depth(weight, groups) and not last:
        return up(groups) * kernel
    narrow = inputs + (inputs % 2 if weight.dtype == torch.bfloat16 else 0)  # bfloat16 is read in pairs
    return groups * up(outputs) * (narrow if few else up(inputs)) * kernel


def is_ours(x: Any, weight: Any, stride: Any, dilation: Any, groups: int) -> bool:
    """Whether PyTorch computes the convolution itself (ConvParams::use_mkldnn)."""
    kernel = [1, *weight.shape[2:]][-2:]
    if x.dtype != torch.float32:
        return bool(x.dtype != torch.bfloat16)
    simple = all(n == 1 for n in (*stride, *dilation, *kernel)) and x.shape[0] < 16 and torch.get_num_threads() == 1
    small = groups == 1 and min(kernel) <= 3 and x.shape[0] == 1 and count(x.shape[:4]) <= SMALL
    return bool(simple or small)


def in_columns(x: Any, weight: Any, y: Any, stride: Any, padding: Any, transposed: bool) -> int:
    """The number of elements of the matrix of columns."""
    if transposed:
        return count(weight.shape[1:]) * count(x.shape[2:])
    if all(n == 1 for n in (*weight.shape[2:], *stride)) and not any(padding):
        return 0
    return int(y.shape[0]) * count(weight.shape[1:]) * count(y.shape[2:])


LAST = {4: torch.channels_last, 5: torch.channels_last_3d}


def is_last(tensor: Any) -> bool:
    """Whether its channels come last, and that differs from the contiguous layout."""
    wanted = LAST.get(tensor.dim())
    return wanted is not None and not tensor.is_contiguous() and bool(tensor.is_contiguous(memory_format=wanted))


def copied(last: bool, *tensors: Any) -> int:
    """The elements of the tensors that are copied because they have another layout."""
    wanted = LAST[tensors[0].dim()] if last else torch.contiguous_format
    return sum(count(tensor.shape) for tensor in tensors if not tensor.is_contiguous(memory_format=wanted))


def buffers(x: Any, weight: Any, y: Any, stride: Any, groups: int, last: bool) -> int:
    """An upper bound of the elements that oneDNN's implementations need in addition."""
    threads, found = torch.get_num_threads(), 0
    if any(n != 1 for n in stride) and all(n == 1 for n in weight.shape[2:]):  # the pixels that are read
        found += threads * -(-int(x.shape[1]) // 64) * 64 * (count(y.shape[2:]) + CHANNELS)
    if last:
        found += threads * 2080
    if groups > 1 and weight.shape[1] > 1:
        found += count(weight.shape) // 8 + 64
    if weight.shape[0] % CHANNELS:  # the bias
        found += 4 * CHANNELS
    if x.dtype == torch.bfloat16:  # the bounds above are for float32; and the bias in float32
        found = 2 * found + 2 * up(int(weight.shape[0])) + 64 + (threads * 4160 if last else 0)
    return found


def sums(made: Any, weight: Any, y: Any, dilation: Any, groups: int) -> int:
    """A bound of bfloat16's sums in float32: the pixels of a picture in 1 x 1 convolutions; with dilation, which some
    implementations do not know, also a matrix of columns."""
    spread = any(n != 1 for n in dilation)
    simple = all(n == 1 for n in weight.shape[2:]) and not is_by_depth(weight, groups)
    if weight.dtype != torch.bfloat16 or not spread and not simple:
        return 0
    pixels = (up(int(made.shape[1])) + CHANNELS) * (count(made.shape[2:]) + CHANNELS)
    columns = count(weight.shape[1:]) * groups * count(y.shape[2:]) if spread else 0
    return 2 * int(torch.get_num_threads()) * (pixels + columns)


def pairs(x: Any, weight: Any, grad: Any, padding: Any, dilation: Any, groups: int, last: bool) -> int:
    """A bound of what bfloat16's gradient of the weights needs: its sums in float32, and a picture of the input and
    one of the output's gradient in which pairs of pixels are adjacent, with rows of the padded length and more."""
    if weight.dtype != torch.bfloat16:
        return 0
    wide, longer = blocked_weights(weight, groups, False, last), 2 * int(padding[-1]) + 2 * CHANNELS
    outputs, inputs = groups * up(int(weight.shape[0]) // groups), groups * up(int(weight.shape[1]))
    by_depth = is_by_depth(weight, groups) and not last
    if by_depth:
        outputs = inputs = up(groups)
    picture = inputs * count(x.shape[2:-1]) * (int(x.shape[-1]) + longer)
    one = 2 * wide + picture + outputs * count(grad.shape[2:-1]) * (int(grad.shape[-1]) + longer) + 2048
    odd = int(weight.shape[0]) // groups % CHANNELS or int(weight.shape[1]) % CHANNELS
    if by_depth or odd and not is_by_depth(weight, groups) or any(n != 1 for n in dilation):
        one += 6 * wide + 2 * groups * count(weight.shape[1:]) * count(grad.shape[2:])
    return int(torch.get_num_threads()) * one


def has_few(x: Any, weight: Any, groups: int, last: bool) -> bool:
    """Whether the input is read as it is, because it has few channels."""
    return bool(groups == 1 and x.shape[1] < CHANNELS and not last and any(n != 1 for n in weight.shape[2:]))


def forward(args: Any, y: Any) -> int:
    x, weight, _, stride, padding, dilation, transposed, _, groups = args
    columns, last = in_columns(x, weight, y, stride, padding, transposed), is_last(x) or is_last(weight)
    if transposed or is_ours(x, weight, stride, dilation, groups):
        apart = 0 if groups == 1 else max(count(y.shape), (count(x.shape) + count(weight.shape)) // groups)
        return int(copied(last, x, weight) + columns + apart)
    few = has_few(x, weight, groups, last)
    wide = blocked_weights(weight, groups, few, last)
    beside = copied(last, x, weight) + buffers(x, weight, y, stride, groups, last) + sums(
        y, weight, y, dilation, groups)
    if last:
        return beside + wide
    y_copy = blocked(y.shape)
    return int(beside + max((0 if few else blocked(x.shape)) + wide + y_copy - count(y.shape), y_copy))


def backward(args: Any) -> int:
    grad, x, weight, _, stride, padding, dilation, transposed, _, groups, wanted = args
    columns, last = in_columns(x, weight, grad, stride, padding, transposed), is_last(x) or is_last(weight)
    bias = int(weight.shape[0]) if wanted[2] else 0
    of_x = count(x.shape) if wanted[0] else 0
    made = of_x + (count(weight.shape) if wanted[1] else 0) + bias
    if transposed or is_ours(x, weight, stride, dilation, groups):
        one = (count(x.shape) + count(weight.shape) + count(grad.shape)) // groups  # tensors of one group
        return int(copied(last, grad, x, weight) + columns + (0 if groups == 1 else max(made, one)))
    few = has_few(x, weight, groups, last)
    wide, narrow = blocked_weights(weight, groups, False, last), blocked_weights(weight, groups, few, last)
    of_grad, of_input = (0, 0) if last else (blocked(grad.shape), blocked(x.shape))
    read = 0 if last or few and x.shape[1] <= 3 else count(x.shape) if few else blocked(x.shape)
    most = made
    if wanted[0]:  # first the gradient of the input; it is copied from its blocked format
        most = max(most, of_grad + wide + (of_x if last else of_input) + sums(x, weight, grad, dilation, groups), of_x + of_input)
    if wanted[1] or wanted[2]:  # then that of the weights, when the other copies are released
        most = max(most, of_x + read + of_grad + narrow + bias,
                   of_x + narrow + (2 if last else 1) * count(weight.shape) + 2 * bias)
        if is_by_depth(weight, groups):  # bounds for its sums, and for channels that the implementations do not divide
            most = max(most, of_x + narrow + 4 * up(groups) * count(weight.shape[2:]) + 2048 + bias)
        elif is_odd(weight, groups):
            most = max(most, of_x + read + of_grad + 3 * wide + count(weight.shape) + 1024 + 2 * bias)
        if torch.get_num_threads() > 1:
            most += narrow
        most = max(most, of_x + read + of_grad + narrow + bias + pairs(x, weight, grad, padding, dilation, groups, last))
    return int(copied(last, grad, x, weight) + buffers(x, weight, grad, stride, groups, last) + most - made)


def is_odd(weight: Any, groups: int) -> bool:
    """Whether the channels are not divided by the blocks of oneDNN's usual implementations."""
    outputs, inputs = int(weight.shape[0]) // groups, int(weight.shape[1])
    if groups > 1:
        return bool(outputs % CHANNELS or inputs % CHANNELS)
    return bool(outputs % 8 or inputs % 8 and inputs > 3)


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
        return int(first.element_size() * KNOWN[name](args, result))
    dividing = NUMBER + int(first.element_size()) if name in MEANS else 0
    return dividing + casts(name, args, result) + in_products(name, args) + by_the_way(name, args)
