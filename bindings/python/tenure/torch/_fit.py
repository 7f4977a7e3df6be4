"""tenure.torch.fit: makes the forward and backward pass of a module keep to a budget."""
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
    """A module's plan to keep to its budget; the module's forward pass follows it.

    budget          peak bytes of the forward and backward pass: tensors, and temporary copies made by convolutions. It
                    excludes memory that existed before (parameters, buffers, inputs) and gradients of parameters
    bytes           the measured peak of these bytes in a step; plain_bytes: without the plan
    saved_bytes     the measured peak of bytes held for the backward pass (tensors saved by autograd, recomputed tensors,
                    inputs for recomputation); plain_saved_bytes: without the plan
    of              what the budget limits: "all" (`bytes`), or "saved" (`saved_bytes`)
    predicted_bytes the predicted peak of the program
    overhead        the predicted time relative to the plain step: 1.1 is 10 % more
    recomputed      the recomputed operators with their counts, the most expensive first
    offloaded_bytes bytes of tensors that are offloaded and fetched in a step
    fit             the result of tenure.fit

    `remove()` restores the module.
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
        """The measured peak of the bytes that the budget limits."""
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
        """Restores the module's forward."""
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
    """Runs steps of the module without side effects: buffers, gradients and random state are restored."""

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
        """Runs one step and returns its peak bytes: all, and those saved. choice: the plan that the module follows."""
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
    """The techniques besides recomputation: offloading over a link (bytes per second), and packing."""

    def __init__(self, store: Any = None, link: float = 0, packs: bool = False) -> None:
        self.store, self.link, self.packs = store, link, packs
        self.allow = ["recompute"] if store is None else ["recompute", "swap"]


def choice_of(recording: Recording, found: tenure.Fit, ways: Ways) -> Choice:
    """Translates the program found into the terms of the recording."""
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
    """The plain program, with saved tensors packed into fewer bytes if possible."""
    return Choice(recording.names, {}, recording.made, {}, [(NEVER, value) for _, value in recording.unpacked], packs=True)


def spans(made: List[int], read: List[int]) -> List[Tuple[int, int]]:
    """Spans from each definition to the last read before the next definition."""
    ends = made[1:] + [NEVER]
    return [(begin, max([at for at in read if begin < at < end], default=begin)) for begin, end in zip(made, ends)]


def events_of(recording: Recording, ran: Dict[int, List[int]]) -> List[Tuple[int, Optional[int]]]:
    """The position of each unpacking in the program: at the next operator."""
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
    """Makes the module's forward and backward pass keep to a budget, by recomputing or offloading saved tensors.

    >>> plan = tenure.torch.fit(module, inputs, "2GiB", loss=torch.nn.functional.cross_entropy, targets=(labels,))
    >>> plan.bytes, plan.overhead          # the training loop stays unchanged

    tenure.fit finds the fastest program within the budget for the operators of a recorded step. The module's `forward` is
    then wrapped, so that PyTorch follows that program: it drops saved tensors that are not to stay, and recomputes them
    from those that stay when autograd asks for them, operator by operator, with the same random numbers. Results and
    gradients are the same bit for bit if PyTorch's operators are deterministic. A step is then run and measured; if it
    exceeds the budget, the search is repeated with a smaller one. Buffers, gradients and random state of the module are
    restored.

    inputs   a tensor, a tuple of arguments, or a dict of named ones, in the shapes used for training
    budget   bytes, or text such as "2GiB": the peak of the two passes, without parameters, buffers, inputs and gradients
             of parameters; or a share of the plain peak, such as 0.5
    of       "all": the budget limits all of these bytes. "saved": only those held for the backward pass, as activation
             checkpointing is usually measured; temporary tensors of operators are added to that
    loss     a function of (output, *targets); default: the sum of the output
    by       the pass that decides (`tenure list passes`); timeout: seconds for each search
    offload  where to store saved tensors: "cpu", the host's memory, for a module on another device; or a folder, in a
             temporary file. link: bytes per second each way; 0: measured. Copies block the step
    pack     store saved booleans as bits, and 64-bit integers in 32 bits if they fit; lossless

    Evaluation mode and torch.no_grad are unaffected. Inputs of other shapes work, but their memory is not limited. If
    nothing fits: tenure.Error. The plain step runs three times, so it must fit in memory; if it does not, use a smaller
    batch and give the budget as a share.
    """
    check_what(module, loss)
    if not module.training:
        raise ValueError("the module is in evaluation mode and has no backward pass; call module.train() first")
    if of not in ("all", "saved"):
        raise ValueError('of: "all" or "saved", not %r' % (of,))
    share = budget if isinstance(budget, float) and 0 < budget <= 1 else None
    asked = 0 if share is not None else size(budget, "budget")  # type: ignore[arg-type]
    if share is None and asked == 0:
        raise ValueError("budget: must be above 0 bytes")
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
        raise ValueError("link: expected bytes per second, not %r" % (link,))
    if offload is None:
        if link:
            raise ValueError("link: has no effect without `offload`")
        return Ways(packs=pack)
    store = store_of(offload, trial.outside)
    device = next((tensor.device for tensor in trial.outside if tensor.device.type != "cpu"), torch.device("cpu"))
    return Ways(store, link or speed_of(store, device), pack)


def search(plan: Plan, trial: Trial, recording: Recording, problem: Any, by: str, timeout: float, ways: Ways) -> None:
    """Repeats the search with smaller budgets until the measured step keeps to the budget."""
    asked, least = plan.budget, None
    for _ in range(TRIES):
        try:
            found = tenure.fit(problem, asked, allow=ways.allow, link=UNIT * ways.link, by=by, timeout=timeout)
        except tenure.Error as error:
            if plan.fit is None:
                raise
            least = error.least  # this proof is for less than the budget
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
