"""tenure.torch.estimate: the memory to train a module, without allocating it."""
from typing import Any, Callable, Dict, Optional, Sequence, Union

import torch

from tenure.torch._detours import Detours, states_held, unchecked
from tenure.torch._meter import Meter, fake_mode, faked, mapped, places, replaced, summed

OPTIMIZERS = {"sgd": lambda parameters: torch.optim.SGD(parameters, lr=0.1),
              "momentum": lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9),
              "adam": torch.optim.Adam, "adamw": torch.optim.AdamW, "rmsprop": torch.optim.RMSprop,
              "adagrad": torch.optim.Adagrad}
Optimizer = Union[str, None, Callable[[Sequence[Any]], torch.optim.Optimizer]]


class Estimate:
    """Bytes that a module needs.

    total   the peak over all times
    parts   the peak by purpose: "weights" (parameters and buffers), "inputs", "gradients" (of parameters),
            "optimizer_state", "activations" (all computed tensors), "workspace" (scratch memory of an operator)
    phases  the peak of each phase: "load", "forward", "backward", "update" (the first), "later_steps"
    peak_operator  the operator that runs at the peak
    """

    def __init__(self, meter: Meter, phases: Dict[str, int]) -> None:
        self.total, self.parts, self.phases = meter.peak, meter.parts(), phases
        self.peak_operator = meter.operator_at_peak

    def __repr__(self) -> str:
        return "<tenure.torch.Estimate: %d bytes; %s>" % (
            self.total, ", ".join("%s %d" % row for row in sorted(self.parts.items(), key=lambda row: -row[1])))


def optimizer_of(asked: Optimizer, parameters: Sequence[Any]) -> Optional[torch.optim.Optimizer]:
    if asked is None:
        return None
    if isinstance(asked, str):
        if asked not in OPTIMIZERS:
            raise ValueError("optimizer: %r is not one of %s" % (asked, ", ".join(OPTIMIZERS)))
        return OPTIMIZERS[asked](parameters)
    if not callable(asked):
        raise TypeError("optimizer: a name, or a function of the parameters such as torch.optim.Adam")
    return asked(parameters)


def arguments_of(inputs: Any) -> Any:
    """The (positional, named) arguments of a call to the module."""
    if isinstance(inputs, dict):
        return (), inputs
    return (tuple(inputs), {}) if isinstance(inputs, (tuple, list)) else ((inputs,), {})


def check_what(module: Any, loss: Any) -> None:
    if not isinstance(module, torch.nn.Module):
        raise TypeError("module: a torch.nn.Module, not %s" % type(module).__name__)
    if loss is not None and not callable(loss):
        raise TypeError("loss: a function of (output, *targets), not %s" % type(loss).__name__)


def estimate(module: torch.nn.Module, inputs: Any, *, optimizer: Optimizer = "adam",
             loss: Optional[Callable[..., Any]] = None, targets: Any = (), train: bool = True) -> Estimate:
    """Estimates the memory that PyTorch needs to train a module, without allocating it or computing anything.

    >>> tenure.torch.estimate(resnet, torch.empty(64, 3, 224, 224, device="meta"), optimizer="adam").total

    Module and inputs may be on the device "meta", without data; they count as if they were on the CPU.

    inputs     a tensor, a tuple of arguments, or a dict of named ones
    optimizer  "sgd", "momentum", "adam", "adamw", "rmsprop", "adagrad"; a function of the parameters, such as
               functools.partial(torch.optim.SGD, lr=0.1, nesterov=True, momentum=0.9); None: no update
    loss       a function of (output, *targets); default: the sum of the output
    train      False: only the forward pass, under torch.no_grad

    A module with a path that depends on numbers (`if x.sum() > 0`) cannot be estimated: RuntimeError.
    """
    check_what(module, loss)
    positional, named = arguments_of(inputs)
    mode = fake_mode()
    meter = Meter(mode)
    phases: Dict[str, int] = {}
    tables: Dict[int, Any] = {}
    for _, _, tensor in places(module):
        if id(tensor) not in tables:
            tables[id(tensor)] = faked(mode, tensor)
    asked = mapped([positional, named, tuple(targets)], lambda tensor: faked(mode, tensor))
    meter.name(tables.values(), "weights")
    meter.name(asked, "inputs")
    meter.look(0, "")
    phases["load"] = meter.phase()
    with replaced(module, tables), unchecked(), states_held(meter), Detours(meter), mode, meter:
        if train:
            run_steps(module, asked, loss or summed, optimizer, meter, phases)
        else:
            with torch.no_grad():
                module(*asked[0], **asked[1])
            phases["forward"] = meter.phase()
    return Estimate(meter, phases)


def run_steps(module: torch.nn.Module, asked: Any, loss: Callable[..., Any], optimizer: Optimizer, meter: Meter,
              phases: Dict[str, int]) -> None:
    parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
    update = optimizer_of(optimizer, parameters)
    for turn in range(2):
        if update is not None:
            update.zero_grad(set_to_none=True)
        found = loss(module(*asked[0], **asked[1]), *asked[2])
        if turn == 0:
            phases["forward"] = meter.phase()
        meter.backward = True
        found.backward()
        meter.passed()
        del found
        meter.name([parameter.grad for parameter in parameters if parameter.grad is not None], "gradients")
        if turn == 0:
            phases["backward"] = meter.phase()
        if update is None:
            break
        update.step()
        meter.name([state for states in update.state.values() for state in states.values()], "optimizer_state")
        phases["later_steps" if turn else "update"] = meter.phase()
