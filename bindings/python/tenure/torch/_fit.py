"""tenure.torch.fit: a module whose forward and backward pass keep to a budget."""
import contextlib
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple, Union

import torch

import tenure
from tenure._library import size
from tenure.record import tensors_in
from tenure.torch._away import speed_of, store_of
from tenure.torch._estimate import arguments_of, check_what
from tenure.torch._gauge import Gauge
from tenure.torch._keeper import Choice, Step
from tenure.torch._meter import places, summed
from tenure.torch._recording import Recording, bare

TRIES = 8
NEVER = 1 << 62  # bytes
UNIT = 1000  # tenure.fit counts picoseconds, a recording nanoseconds


class Plan:
    """How a module keeps to its budget; its forward pass does so from now on.

    budget          bytes that the forward and backward pass may hold at once beside what was there before (parameters,
                    buffers, inputs) and gradients of parameters: tensors, and copies that convolutions make
    bytes           of them, at the peak of a step that was run; plain_bytes: without the plan
    saved_bytes     the most that is held at once for the backward pass (what autograd saves, what is made again of it,
                    what the plan needs for that); plain_saved_bytes: without the plan
    of              what the budget is for: "all" of `bytes`, or "saved_bytes" alone
    predicted_bytes what the program takes that was found
    overhead        predicted: its time in that of the plain step, 1.1 is a tenth more
    recomputed      operators that run again, with how often, the costliest first
    offloaded_bytes of tensors that are put away in a step, and come back
    fit             the answer of tenure.fit, for the curious

    `remove()` makes the module what it was.
    """

    def __init__(self, module: torch.nn.Module, of: str, budget: int, plain: Tuple[int, int]) -> None:
        self.module, self.of, self.budget = module, of, budget
        self.plain_bytes, self.plain_saved_bytes = self.bytes, self.saved_bytes = plain
        self.predicted_bytes, self.overhead = self.held, 1.0
        self.recomputed: List[Tuple[str, int]] = []
        self.offloaded_bytes = 0
        self.fit: Optional[tenure.Fit] = None
        self._choice: Optional[Choice] = None
        self._before: Any = None

    @property
    def held(self) -> int:
        """What the budget is for, at the peak of a step that was run."""
        return self.bytes if self.of == "all" else self.saved_bytes

    def _apply(self) -> None:
        original = self.module.forward
        self._before = self.module.__dict__.get("forward")

        def forward(*args: Any, **kwargs: Any) -> Any:
            if self._choice is None or not torch.is_grad_enabled() or not self.module.training:
                return original(*args, **kwargs)
            step = Step(self._choice)
            try:
                with torch.autograd.graph.saved_tensors_hooks(step.pack, step.unpack), step:
                    return original(*args, **kwargs)
            finally:
                step.end_forward()

        self.module.__dict__["forward"] = forward

    def remove(self) -> None:
        """The module as it was before."""
        if self._before is None:
            self.module.__dict__.pop("forward", None)
        else:
            self.module.__dict__["forward"] = self._before

    def __repr__(self) -> str:
        plain = self.plain_bytes if self.of == "all" else self.plain_saved_bytes
        away = ", %d bytes put away" % self.offloaded_bytes if self.offloaded_bytes else ""
        return "<tenure.torch.Plan: %d bytes%s instead of %d, %d operators again%s, %.3f of the time>" % (
            self.held, "" if self.of == "all" else " saved", plain, sum(count for _, count in self.recomputed), away,
            self.overhead)


class Trial:
    """Steps of the module that leave no trace: buffers, gradients and random numbers are as before."""

    def __init__(self, module: torch.nn.Module, inputs: Any, loss: Optional[Callable[..., Any]], targets: Any) -> None:
        self.module, self.loss, self.targets = module, loss or summed, tuple(targets)
        self.args, self.kwargs = arguments_of(inputs)
        self.parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
        self.outside = [tensor for _, _, tensor in places(module)]
        self.outside += list(tensors_in([list(self.args), dict(self.kwargs), list(self.targets)]))

    @contextlib.contextmanager
    def clean(self) -> Iterator[None]:
        buffers = [(buffer, buffer.detach().clone()) for buffer in self.module.buffers()]
        inputs = [tensor for tensor in self.outside if tensor.requires_grad]
        gradients = [(tensor, tensor.grad) for tensor in inputs]
        devices = [torch.cuda.current_device()] if torch.cuda.is_initialized() else []
        try:
            for tensor in inputs:
                tensor.grad = None
            with torch.random.fork_rng(devices):
                yield
        finally:
            with torch.no_grad():
                for buffer, content in buffers:
                    buffer.copy_(content)
            for tensor, gradient in gradients:
                tensor.grad = gradient

    def leaves(self) -> List[Any]:
        return [tensor.grad for tensor in self.outside if tensor.grad is not None]

    def record(self, of: str) -> Tuple[Recording, Any]:
        recording = Recording()
        with self.clean(), recording:
            with torch.autograd.graph.saved_tensors_hooks(recording.pack, recording.unpack):
                output = self.module(*self.args, **self.kwargs)
            recording.end_forward()
            with torch.autograd.graph.saved_tensors_hooks(recording.pack_of_loss, same):
                found = self.loss(output, *self.targets)
            found.backward()
            outside, ends = recording.values_of(self.leaves()), recording.values_of([output, found])
            del output, found
            recording.end()
        return recording, recording.problem(outside, ends, of)

    def measure(self, choice: Optional[Choice] = None) -> Tuple[int, int]:
        """Bytes at the peak of a step as the module is now: all, and those that are saved. choice: what it keeps to."""
        gauge = Gauge(self.outside)
        if choice is not None:
            choice.watch = gauge.save
        try:
            with self.clean():
                with gauge, torch.autograd.graph.saved_tensors_hooks(gauge.save, same):
                    output = self.module(*self.args, **self.kwargs)
                    found = self.loss(output, *self.targets)
                    found.backward()
                gauge.sweep()
                return gauge.peak(self.leaves()), gauge.saved_peak
        finally:
            if choice is not None:
                choice.watch = bare


def same(tensor: Any) -> Any:
    return tensor


class Ways:
    """What a plan may do beside computing again: put tensors away, over a link of so many bytes a second; pack them."""

    def __init__(self, store: Any = None, link: float = 0, packs: bool = False) -> None:
        self.store, self.link, self.packs = store, link, packs
        self.allow = ["recompute"] if store is None else ["recompute", "swap"]


def choice_of(recording: Recording, found: tenure.Fit, ways: Ways) -> Choice:
    """The program that was found, in terms of the recording."""
    ran: Dict[int, List[int]] = {}
    reads: Dict[int, List[int]] = {}
    back: Dict[int, List[int]] = {}
    for position, step in enumerate(found.steps):
        if step.opcode == "apply" and step.operator is not None:
            ran.setdefault(step.operator, []).append(position)
            for value in recording.nodes[step.operator].inputs:
                reads.setdefault(value, []).append(position)
        if step.opcode == "swap_in" and step.tensor is not None:
            back.setdefault(step.tensor, []).append(position)
    groups: Dict[int, int] = {}
    holds: Dict[int, List[Tuple[int, int]]] = {}
    away = set()
    for index, node in enumerate(recording.nodes):
        if len(ran[index]) > 1:
            groups.update((op, node.ops[0]) for op in node.ops)
        for value in node.outputs:
            if len(ran[index]) > 1:
                holds[value] = spans(ran[index], reads.get(value, []))
            elif value in back:
                holds[value] = spans(ran[index] + back[value], reads.get(value, []))
                away.add(value)
    return Choice(recording.names, groups, recording.made, holds, events_of(recording, ran), away, ways.store, ways.packs)


def packing(recording: Recording) -> Choice:
    """The plain program, what is saved in fewer bytes where it has such a form."""
    return Choice(recording.names, {}, recording.made, {}, [(NEVER, value) for _, value in recording.unpacked], packs=True)


def spans(made: List[int], read: List[int]) -> List[Tuple[int, int]]:
    """From each making to the last reading before the next."""
    ends = made[1:] + [NEVER]
    return [(begin, max([at for at in read if begin < at < end], default=begin)) for begin, end in zip(made, ends)]


def events_of(recording: Recording, ran: Dict[int, List[int]]) -> List[Tuple[int, Optional[int]]]:
    """Where in the program each unpacking is: at the next operator."""
    made, at = [], 0
    for count, value in recording.unpacked:
        while at < len(recording.nodes) - 1 and recording.nodes[at].ops[0] < count:
            at += 1
        made.append((ran[at][0], value))
    return made


def again(recording: Recording, found: tenure.Fit) -> List[Tuple[str, int]]:
    counts: Dict[str, List[int]] = {}
    for step in found.steps:
        if step.again and step.operator is not None:
            node = recording.nodes[step.operator]
            row = counts.setdefault(node.name, [0, 0])
            row[0] += 1
            row[1] += node.cost
    return [(name, row[0]) for name, row in sorted(counts.items(), key=lambda item: -item[1][1])]


def fit(module: torch.nn.Module, inputs: Any, budget: Union[int, float, str], *,
        loss: Optional[Callable[..., Any]] = None, targets: Any = (), of: str = "all", by: str = "joint",
        timeout: float = 10, offload: Optional[str] = None, link: float = 0, pack: bool = False) -> Plan:
    """Makes the module's forward and backward pass keep to a budget: what does not fit is computed again, or put away.

    >>> plan = tenure.torch.fit(module, inputs, "2GiB", loss=torch.nn.functional.cross_entropy, targets=(labels,))
    >>> plan.bytes, plan.overhead          # and the training loop goes on as it was

    A step is recorded; libtenure's `fit` finds the fastest program of its operators that keeps to the budget; and the
    module's `forward` is wrapped so that PyTorch does what that program does: tensors that are saved for the backward
    pass and are not to stay are let go, and made again from those that stay when autograd asks for them, operator by
    operator, with the same random numbers: results and gradients are the same bit for bit where PyTorch's operators
    give the same twice. Then a step is run and counted; where it takes more than the budget, the program is looked
    for again with less. The module's buffers, gradients and random numbers are what they were.

    inputs   a tensor, a tuple of arguments, or a dict of named ones; of the shapes that are trained with
    budget   bytes, or text such as "2GiB", that the two passes may hold at once beside parameters, buffers, inputs and
             gradients of parameters; or a share of what they hold plainly, such as 0.5
    of       "all": the budget is for all of that. "saved": for what is held for the backward pass alone, as activation
             checkpointing is usually counted; what an operator reads and makes for a moment comes on top
    loss     a function of (output, *targets); else the sum of the output
    by       the pass that decides (`tenure list passes`); timeout: seconds of each search
    offload  where saved tensors may be meanwhile: "cpu", the host's memory, of a module on another device; or a folder,
             in a file without a name. link: bytes a second there and back; 0: measured. A copy is waited for
    pack     truths that are saved are kept as bits, whole numbers of 64 bits as 32 where they fit; nothing is lost

    In evaluation mode and under torch.no_grad nothing is done. Inputs of other shapes work, and take what they take.
    Where nothing fits: tenure.Error. The plain step is run three times, so it must fit as it is: record on a smaller
    batch and give the budget as a share, where it does not.
    """
    check_what(module, loss)
    if not module.training:
        raise ValueError("the module is in evaluation mode: there is no backward pass to save for (module.train())")
    if of not in ("all", "saved"):
        raise ValueError('of: "all" or "saved", not %r' % (of,))
    share = budget if isinstance(budget, float) and 0 < budget <= 1 else None
    asked = 0 if share is not None else size(budget, "budget")  # type: ignore[arg-type]
    if share is None and asked == 0:
        raise ValueError("budget: 0 bytes hold nothing")
    trial = Trial(module, inputs, loss, targets)
    ways = ways_of(trial, offload, link, pack)
    trial.record(of)  # the first is slow
    recording, problem = trial.record(of)
    plan = Plan(module, of, asked, trial.measure())
    if share is not None:
        plan.budget = int(plan.held * share)
    plan._apply()
    try:
        if plan.held > plan.budget and ways.packs:
            plan._choice = packing(recording)
            plan.bytes, plan.saved_bytes = trial.measure(plan._choice)
        if plan.held > plan.budget:
            search(plan, trial, recording, problem, by, timeout, ways)
    except BaseException:
        plan.remove()
        raise
    return plan


def ways_of(trial: Trial, offload: Optional[str], link: float, pack: bool) -> Ways:
    if not isinstance(link, (int, float)) or not 0 <= link < float("inf"):
        raise ValueError("link: bytes a second, not %r" % (link,))
    if offload is None:
        if link:
            raise ValueError("link: there is nowhere to put tensors (offload)")
        return Ways(packs=pack)
    store = store_of(offload, trial.outside)
    device = next((tensor.device for tensor in trial.outside if tensor.device.type != "cpu"), torch.device("cpu"))
    return Ways(store, link or speed_of(store, device), pack)


def search(plan: Plan, trial: Trial, recording: Recording, problem: Any, by: str, timeout: float, ways: Ways) -> None:
    """Less is asked for until what is run keeps to the budget."""
    asked, least = plan.budget, None
    for _ in range(TRIES):
        try:
            found = tenure.fit(problem, asked, allow=ways.allow, link=UNIT * ways.link, by=by, timeout=timeout)
        except tenure.Error as error:
            if plan.fit is None:
                raise
            least = error.least  # what is proved here is of less than the budget
            break
        plan._choice, plan.fit = choice_of(recording, found, ways), found
        plan.bytes, plan.saved_bytes = trial.measure(plan._choice)
        plan.predicted_bytes, plan.overhead = found.bytes, found.overhead
        plan.recomputed = again(recording, found)
        plan.offloaded_bytes = sum(recording.bytes[value] for value in plan._choice.away)
        if plan.held <= plan.budget:
            return
        asked = min(asked, found.bytes) - (plan.held - plan.budget)
        if asked <= 0:
            break
    failure = tenure.Error("E_EXHAUSTED", "no program was found that keeps to %d bytes when it is run; the last one took "
                           "%d" % (plan.budget, plan.held))
    failure.least = least
    raise failure
