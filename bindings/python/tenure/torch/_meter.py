"""Counts the memory of a training step without using it, on tensors that have shapes but no data.

Module, autograd and optimizer run as usual on fake tensors (torch's FakeTensorMode), so PyTorch itself decides which
tensors are created and released. Scratch memory of operators does not follow from shapes; _scratch.py has rules for the
important ones.
"""
import contextlib
from typing import Any, Dict, Iterator, List, Optional, Set, Tuple

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from tenure.record import Storage, tensors_in, untyped_of
from tenure.torch._scratch import LAST, NUMBER, is_last, scratch_of, unshrunk


class Held(Storage):
    """A counted storage, and its purpose."""

    def __init__(self, untyped: Any, part: str) -> None:
        super().__init__(untyped, "")
        self.bytes, self.part = untyped.nbytes(), part
        self.beside = 0  # of `bytes`: held in addition to the size of the storage


def gradients_of(args: Any) -> Any:
    """A convolution's gradients (of input, weights, bias), from their shapes: PyTorch 1.13 would compute them."""
    grad, x, weight, bias, wanted = args[0], args[1], args[2], args[3], args[10]
    shapes = (x.shape, weight.shape, bias or weight.shape[:1])
    found = [grad.new_empty(shape) if is_wanted else None for shape, is_wanted in zip(shapes, wanted)]
    if found[0] is not None and (is_last(x) or is_last(weight)):
        found[0] = torch.empty_like(found[0], memory_format=LAST[x.dim()])
    return tuple(found)


# With tensor subclasses, autograd copies the zeroes that it writes these gradients into; otherwise it does not.
INTO_ZEROES = {"aten::" + name for name in ("scatter", "scatter_add", "index_add", "index_put")}
MAKING = ("aten::lift", "aten::lift_fresh", "aten::lift_fresh_copy")  # these make a tensor without data from numbers
ZEROES = ("aten::zeros", "aten::new_zeros", "aten::zeros_like")


def numbers_of(schema: Any, args: Any) -> int:
    """How many numbers the program passed in the place of tensors, as in `x / 3.0`."""
    return sum(1 for declared, value in zip(schema.arguments, args)
               if isinstance(value, (bool, int, float, complex)) and declared.type.kind() == "TensorType")


class Meter(TorchDispatchMode):
    """Counts the bytes of all storages, their peak, and the storages at the peak.

    PyTorch does not report released storages; they are found when the count matters. Until then no address is reused.
    """

    def __init__(self, mode: Any) -> None:
        super().__init__()
        converter = getattr(mode.fake_tensor_converter, "meta_converter", None)
        self.memo: Dict[Any, Any] = getattr(converter, "storage_memo", {})
        self.mode = mode
        self.live: Dict[int, Held] = {}
        self.held = self.peak = self.phase_peak = 0
        self.at_peak: List[Held] = []
        self.scratch_at_peak, self.saved_at_peak, self.operator_at_peak = 0, 0, ""
        self.backward = False
        self.saved = 0  # bytes of numbers that may be saved for the backward pass
        self.zeroes: Tuple[int, ...] = ()  # the storage of zeroes that the last operator made
        self.last = 0  # the storage of the last operator's result
        self.biased = False  # inside a function that adds a bias to a product

    def hold(self, tensor: Any, part: str) -> Optional[Held]:
        """Counts the tensor's storage, unless it is counted already."""
        untyped = untyped_of(tensor)
        if untyped is None:
            return None
        known = self.live.get(untyped._cdata)
        if known is None:
            known = self.live[untyped._cdata] = Held(untyped, part)
            self.held += known.bytes
        elif known.bytes != untyped.nbytes() + known.beside:  # it was resized
            self.held += untyped.nbytes() + known.beside - known.bytes
            known.bytes = untyped.nbytes() + known.beside
        return known

    def name(self, tensors: Any, part: str) -> None:
        """Sets the purpose of these tensors, unless a better one is known."""
        for tensor in tensors_in(list(tensors)):
            held = self.hold(tensor, part)
            if held is not None and held.part in ("", "activations"):
                held.part = part

    def without_contents(self, tensor: Any) -> Any:
        """Makes a constant of the program a fake tensor; constants are unknown before their first use."""
        if type(tensor) is not torch.Tensor or tensor.requires_grad or tensor.is_meta:
            return tensor
        guard = torch._C._DisableTorchDispatch()
        tensor = self.mode.from_tensor(tensor)
        del guard
        self.hold(tensor, "weights")
        return tensor

    def find_gone(self) -> None:
        for key in [key for key, held in self.live.items() if held.is_gone()]:
            held = self.live.pop(key)
            self.held -= held.bytes
            held.forget()

    def look(self, scratch: int, operator: str) -> None:
        if self.held + scratch > self.phase_peak:  # otherwise released storages cannot matter
            self.find_gone()
        now = self.held + scratch
        self.phase_peak = max(self.phase_peak, now)
        if now > self.peak:
            self.peak, self.scratch_at_peak, self.operator_at_peak = now, scratch, operator
            self.at_peak, self.saved_at_peak = list(self.live.values()), self.saved

    def __torch_dispatch__(self, function: Any, types: Any, args: Tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        if function._schema.name.startswith("profiler::"):  # markers for profilers
            guard = torch._C._DisableTorchDispatch()
            result = function(*args, **(kwargs or {}))
            del guard
            return result
        if function._schema.name not in MAKING:
            args, kwargs = mapped([args, kwargs or {}], self.without_contents)
        if function._schema.name == "aten::_cdist_forward" and args[3] is None:
            args = (*args[:3], 0)  # the meaning of None here
        if function._schema.name == "aten::convolution_backward":
            result = gradients_of(args)
        elif function._schema.name == "aten::huber_loss_backward":
            result = torch.empty_like(args[1])  # PyTorch 1.13 has no shape rule for it
        elif self.backward and function._schema.name in INTO_ZEROES and self.zeroes == (untyped_of(args[0])._cdata,):
            packet = getattr(torch.ops.aten, function._schema.name[len("aten::"):] + "_")
            result = getattr(packet, function._schema.overload_name or "default")(*args, **(kwargs or {}))
        elif self.biased and function._schema.name == "aten::add" and not torch.is_grad_enabled() and (
                self.last == untyped_of(args[0])._cdata):
            result = torch.ops.aten.add_(*args, **(kwargs or {}))
        else:
            result = without_numbers(function, args, kwargs or {})
            self.memo.clear()  # PyTorch 1.13 keeps references to results of operators without a shape rule
        if function._schema.name == "aten::convolution" and is_last(args[1]) and not is_last(result):
            result = torch.empty_like(result, memory_format=LAST[result.dim()])  # the weights alone decide the layout
        for tensor in tensors_in([result]):
            self.hold(tensor, "activations")
        self.note(function._schema.name, args, result)
        scratch = scratch_of(function._schema.name, args, result) + self.as_tensors(function._schema, args, result)
        self.look(scratch, function._schema.name)
        return result

    def as_tensors(self, schema: Any, args: Any, result: Any) -> int:
        """The scratch bytes of numbers in the place of tensors: a tensor each, and a copy in the type of the result.

        Autograd saves some of them until their operator's backward pass; all count until the end of the whole pass.
        """
        count = numbers_of(schema, args)
        if count and not self.backward and torch.is_grad_enabled():
            self.saved += NUMBER * count
            self.held += NUMBER * count
        return count * (NUMBER + (int(result.element_size()) if isinstance(result, torch.Tensor) else NUMBER))

    def passed(self) -> None:
        """The backward pass has ended."""
        self.backward = False
        self.held -= self.saved
        self.saved = 0

    def note(self, name: str, args: Any, result: Any) -> None:
        beside, held = unshrunk(name, args, result), None
        if name != "prim::device":
            untyped = untyped_of(result) if isinstance(result, torch.Tensor) else None
            self.last = 0 if untyped is None else untyped._cdata
            self.zeroes = (untyped_of(result)._cdata,) if name in ZEROES else ()
        if beside:
            held = self.hold(result, "activations")
        if held is not None:
            self.held += beside - held.beside
            held.bytes, held.beside = held.bytes + beside - held.beside, beside

    def phase(self) -> int:
        """The peak since the last call."""
        self.find_gone()
        most, self.phase_peak = self.phase_peak, self.held
        return max(most, self.held)

    def parts(self) -> Dict[str, int]:
        found: Dict[str, int] = {}
        for held in self.at_peak:
            found[held.part] = found.get(held.part, 0) + held.bytes
        if self.scratch_at_peak:
            found["workspace"] = self.scratch_at_peak
        if self.saved_at_peak:
            found["activations"] = found.get("activations", 0) + self.saved_at_peak
        return found


def places(module: torch.nn.Module) -> Iterator[Tuple[Dict[str, Any], str, Any]]:
    for part in module.modules():
        for table in (part._parameters, part._buffers):
            for name, tensor in table.items():
                if tensor is not None:
                    yield table, name, tensor


@contextlib.contextmanager
def replaced(module: torch.nn.Module, tables: Dict[int, Any]) -> Iterator[None]:
    """Replaces the module's parameters and buffers (tables: by identity), and restores them at the end."""
    before = list(places(module))
    grown = [(part, part._flat_weights) for part in module.modules() if isinstance(part, torch.nn.RNNBase)]
    try:
        for table, name, tensor in before:
            table[name] = tables[id(tensor)]
        for part, weights in grown:
            part._flat_weights = [tables[id(weight)] for weight in weights]
        yield
    finally:
        for table, name, tensor in before:
            table[name] = tensor
        for part, weights in grown:
            part._flat_weights = weights


def fake_mode() -> Any:
    try:
        from torch._subclasses.fake_tensor import FakeTensorMode
    except ImportError:
        raise RuntimeError("tenure.torch.estimate needs PyTorch 1.13 or later") from None
    try:  # by default PyTorch 1.13 returns 0 for a data-dependent number
        return FakeTensorMode(throw_on_data_dependent_ops=True)
    except TypeError:
        return FakeTensorMode()


def without_numbers(function: Any, args: Any, kwargs: Any) -> Any:
    try:
        return function(*args, **kwargs)
    except RuntimeError as error:
        if type(error).__name__ in ("DataDependentOutputException", "DynamicOutputShapeException"):
            name = function._schema.name
            raise RuntimeError("%s: its result depends on numbers, and an estimate has no numbers" % name) from None
        raise


def faked(mode: Any, tensor: Any) -> Any:
    if tensor.is_meta:
        with mode:
            fake = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="cpu")
    else:
        fake = mode.from_tensor(tensor.detach())
    if isinstance(tensor, torch.nn.Parameter):
        return torch.nn.Parameter(fake, tensor.requires_grad)
    return fake.requires_grad_(tensor.requires_grad)


def mapped(value: Any, function: Any) -> Any:
    """Applies a function to all tensors in lists, tuples and dicts."""
    if isinstance(value, torch.Tensor):
        return function(value)
    if isinstance(value, dict):
        return type(value)((key, mapped(item, function)) for key, item in value.items())
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(mapped(item, function) for item in value))
    if isinstance(value, (list, tuple)):
        return type(value)(mapped(item, function) for item in value)
    return value


def summed(output: Any) -> Any:
    """The sum of all floating outputs: the default loss."""
    found = [tensor.sum() for tensor in tensors_in([output]) if tensor.is_floating_point() and tensor.requires_grad]
    if not found:
        raise ValueError("the module's output does not depend on a trained parameter; pass a loss")
    return sum(found[1:], found[0])
