"""Fitting: the fastest program of a model within a budget of bytes."""
import ctypes
import json
import os
from typing import Any, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

from tenure import _abi
from tenure._abi import (ALLOW, CLAIMS, FATES, NONE, OPCODES, STATUSES, tn_costs, tn_costs_model, tn_fit_answer,
                         tn_fit_options, tn_fit_request, tn_fit_result, tn_graph,
                         tn_occupancy_options, tn_program, tn_program_options, tn_rewrite_options, tn_setup_options)
from tenure._arrays import integers
from tenure._estimate import Model, opened
from tenure._graph import Graph, decoded
from tenure._library import (Context, Error, Owner, Progress, ask, call, flag, number, options, owned, real, room_for,
                             size, text)
from tenure._problem import Layout, Problem
from tenure._rules import Patterns, Swaps, rules

Costs = Union[str, "os.PathLike[str]", Sequence[int], None]


class Claim(NamedTuple):
    """The result of one set of techniques: found, proved, or not tried."""
    techniques: Tuple[str, ...]  # (): the plan as it is
    verdict: str  # "fits", "infeasible" (proved), "not_found", "stopped", "not_tried"
    bytes: int  # of the program; if none fits, of the smallest found; 0: none found
    time: int  # picoseconds; 0: unknown
    bytes_bound: int  # proved: no program of these techniques needs less; 0: no bound
    why: str  # the reason of "not_tried"


class Hint(NamedTuple):
    """Additional techniques, and the result of a call that allows them."""
    techniques: Tuple[str, ...]
    fits: bool  # it meets the requested budget; else `bytes` is a budget that it meets
    bytes: int
    more_time: Optional[float]  # predicted, as a share of the plain plan's time; None: unknown


def names_of(techniques: int) -> Tuple[str, ...]:
    return tuple(name for name, bit in ALLOW.items() if techniques & bit)


class Step(NamedTuple):
    """An instruction of the program."""
    opcode: str  # "put", "apply", "drop", "swap_out", "swap_in", "encode", "decode", "get", "free", "wait"
    operator: Optional[int]  # of "apply": index of the operator
    tensor: Optional[int]  # of the others: index of the tensor
    again: bool  # of "apply": the operator has run before (recomputation)


class Fit:
    """The fastest program found within a budget.

    bytes        bytes that it needs on the device in total; plain_bytes: without fitting
    bytes_bound  proved: no program needs less
    time         predicted; plain_time: without fitting; time_bound: proved, no program within the budget takes less.
                 Picoseconds, or the unit of the given costs
    tensors, decisions   the names of all tensors, and for each "kept", "recomputed", "swapped" or "encoded"
    steps        the program, instruction by instruction
    passed       the pass that found it ("none": the plan fits as it is); seconds, rounds: of the search
    stopped      a limit ended the search early
    to_host_bytes, from_host_bytes, stall   bytes swapped each way, and the time that computation waits for them
    layout       the offsets of all buffers, verified
    claims       for a model: the result of each set of techniques; hints: what else would fit
    """

    def __init__(self, raw: tn_fit_result, budget: int, fixed: int, abstract: bool, keeps: object, name: str,
                 answer: Optional[tn_fit_answer] = None) -> None:
        self._raw = raw
        self.claims, self.hints = told(answer) if answer is not None else ([], [])
        self.budget, self.fixed_bytes = budget, fixed
        self.bytes, self.plain_bytes, self.bytes_bound = raw.bytes, raw.plain_bytes, raw.bytes_bound
        self.live_bytes = raw.live_bytes
        self.time, self.plain_time, self.time_bound = raw.time, raw.plain_time, raw.time_bound
        self.passed: str = getattr(raw, "pass").decode()
        self.seconds, self.rounds, self.work, self.stopped = raw.seconds, raw.rounds, raw.work, raw.stopped
        self.to_host_bytes, self.from_host_bytes, self.stall = raw.to_host_bytes, raw.from_host_bytes, raw.stall
        problem = Problem._borrow(ask("tn_occupancy_problem", raw.occupancy), self)
        self.layout = Layout._borrow(problem, raw.layout, self)
        self.layout._occupancy = raw.occupancy
        self.layout._report = {"input": name, "fit": (raw, budget, fixed, abstract)}
        if answer is None:
            owned(self, "tn_fit_release", ctypes.pointer(raw), keeps)
        else:  # the answer owns the result
            owned(self, "tn_fit_answer_release", ctypes.pointer(answer), keeps)

    @property
    def overhead(self) -> float:
        """Predicted time relative to the program without fitting: 1.1 is 10 % more."""
        return float(self.time / self.plain_time) if self.plain_time else 1.0

    @property
    def decisions(self) -> List[str]:
        """The decision for each tensor, in the order of `tensors`."""
        found = (ctypes.c_uint8 * max(len(self.tensors), 1))()
        ask("tn_program_fates", self._raw.program, found)
        return [FATES[fate] for fate in found[:len(self.tensors)]]

    fates = decisions  # its name in version 0.1

    @property
    def tensors(self) -> List[str]:
        """Names, in the order of `steps` and `decisions`. Encoded forms follow the tensors of the model."""
        graph = ask("tn_program_graph", self._raw.program)
        count = ask("tn_graph_tensor_count", graph)
        return [decoded(ask("tn_graph_tensor", graph, index).contents.name) for index in range(count)]

    @property
    def steps(self) -> List[Step]:
        """The program, instruction by instruction."""
        found, ran = ask("tn_program_instructions", self._raw.program), set()
        made = []
        for it in found[:ask("tn_program_count", self._raw.program)]:
            operator, tensor = (None if at == NONE else at for at in (it.op, it.tensor))
            made.append(Step(OPCODES[it.opcode], operator, tensor, operator is not None and operator in ran))
            ran.add(operator)
        return made

    def __repr__(self) -> str:
        return "<tenure.Fit: %d bytes instead of %d, %.4f of the time>" % (self.bytes, self.plain_bytes, self.overhead)

    def _repr_html_(self) -> str:
        from tenure import _html, _report
        made = self.decisions
        counts = ", ".join("%d %s" % (made.count(kind), kind) for kind in sorted(set(made)))
        table = _html.sizes([("budget", int(self.budget)), ("bytes", int(self.bytes)),
                             ("without fitting", int(self.plain_bytes)), ("predicted time", "%.3f times" % self.overhead),
                             ("tensors", counts), ("pass", self.passed)])
        small = len(self.layout) <= _html.PICTURE_BODIES
        return table + (_report.report(self, format="svg") if small else "")


class Search(NamedTuple):
    """The input of a search: a program, its costs, and the memory options."""
    program: Any
    costs: Any
    memory: tn_occupancy_options
    fixed: int
    abstract: bool  # a problem without a model: live bytes count, and costs have their own unit
    name: str
    keeps: object


def problem_search(what: Mapping[str, Any]) -> Search:
    owner, raw = Owner(), json.dumps(what).encode()
    graph, costs, program = (ctypes.POINTER(kind)() for kind in (tn_graph, tn_costs, tn_program))
    call("tn_fit_problem_load_memory", b"problem", raw, len(raw), None, ctypes.byref(graph), ctypes.byref(costs))
    owner.own("tn_graph_destroy", graph)
    owner.own("tn_costs_destroy", costs)
    call("tn_program_create", graph, None, ctypes.byref(program))
    owner.own("tn_program_destroy", program)
    return Search(program, costs, options(tn_occupancy_options, alignment=1, inplace=_abi.INPLACE_NONE), 0, True,
                  "problem", owner)


def told(answer: tn_fit_answer) -> Tuple[List[Claim], List[Hint]]:
    claims = [Claim(names_of(it.techniques), CLAIMS[it.kind], it.bytes, it.time, it.bytes_bound, it.why.decode())
              for it in answer.claims[:answer.claim_count]]
    hints = [Hint(names_of(it.techniques), it.fits, it.bytes, it.more_time if it.more_time >= 0 else None)
             for it in answer.hints[:answer.hint_count]]
    return claims, hints


def model_fit(graph: Graph, search: tn_fit_options, costs: Costs, kernels: bool, order: str, context: Any) -> Fit:
    """Calls tn_fit_graph, the one function of the library that combines techniques, with the command's options."""
    use = _abi.TRAINED if graph._is_step else _abi.TO_RUN
    program = options(tn_program_options, order=text(order, "order"))
    rewrite = options(tn_rewrite_options, use=use)
    setup = options(tn_setup_options, context=context, no_kernels=not kernels, program=ctypes.pointer(program),
                    rewrite=ctypes.pointer(rewrite) if kernels else None)
    raised: List[BaseException] = []

    def make(_: Any, made: Any, out: Any, error: Any) -> int:
        try:
            whole_alone = not (isinstance(costs, str) and ask("tn_hardware_find", text(costs, "costs")))
            if whole_alone and ask("tn_setup_splits", made):
                return STATUSES.index("E_UNSUPPORTED")
            out[0] = given_costs(costs, ask("tn_setup_graph", made))
            return 0
        except BaseException as failure:
            raised.append(failure)
            error.contents.status = STATUSES.index("E_INVALID")
            return STATUSES.index("E_INVALID")

    request = options(tn_fit_request, setup=ctypes.pointer(setup), search=ctypes.pointer(search), timed=True,
                      costs=_abi.MAKE_COSTS(make) if costs is not None else None)
    answer, failure = room_for(tn_fit_answer), None
    try:
        call("tn_fit_graph", graph._handle, ctypes.byref(request), ctypes.byref(answer))
    except Error as error:
        failure = error
    if raised or (failure is not None and not answer.result.program):
        ask("tn_fit_answer_release", ctypes.byref(answer))
        raise raised[0] if raised else failure  # type: ignore[misc]
    found = Fit(answer.result, search.budget, answer.fixed_bytes, False, graph, graph.name, answer)
    if failure is None:
        return found
    failure.least, failure.claims, failure.hints = found, found.claims, found.hints
    raise failure


def given_costs(costs: Costs, graph: Any) -> Any:
    """Costs of a graph as it runs: from the two rates of a device, from a file, or one number per operator."""
    made = ctypes.POINTER(tn_costs)()
    if isinstance(costs, str) and ask("tn_hardware_find", text(costs, "costs")):
        device = ask("tn_hardware_find", text(costs, "costs")).contents
        model = options(tn_costs_model, flops_per_s=device.fp32, bytes_per_s=device.bytes_per_s)
        call("tn_costs_create_model", graph, ctypes.byref(model), ctypes.byref(made))
    elif isinstance(costs, (str, os.PathLike)):
        call("tn_costs_read", os.fsencode(costs), None, graph, ctypes.byref(made))
    else:
        given = integers(costs, "costs", 0, (1 << 64) - 1)
        call("tn_costs_given", None, graph, (ctypes.c_uint64 * max(len(given), 1))(*given), None, len(given), 0,
             ctypes.byref(made))
    return made


def allowed(allow: Sequence[str], link: float) -> int:
    if isinstance(allow, str):
        raise TypeError("allow: a list of names, not a single text")
    unknown = [name for name in allow if name not in ALLOW]
    if unknown:
        raise ValueError("allow: %r is not one of %s" % (unknown[0], ", ".join(ALLOW)))
    if "swap" in allow and not link > 0:
        raise ValueError("allow: swap needs `link`, in bytes per second")
    names = set(allow)
    if names and names <= {"lossy", "split", "stream"}:  # as `--allow split`: next to what needs no option
        more = {"order", "recompute"} | ({"split"} if names == {"lossy"} else set())
        names |= more | ({"swap"} if link > 0 else set())
    if "lossy" in names:
        names.add("compress")
    return sum(ALLOW[name] for name in names)


def fit(model: Union[Model, Mapping[str, Any]], budget: Union[int, str], *, train: bool = False,
        optimizer: str = "adam", loss: str = "cross-entropy", batch: int = 0, dims: Optional[Mapping[str, int]] = None,
        shapes: Optional[Mapping[str, Sequence[int]]] = None, costs: Costs = None,
        allow: Sequence[str] = (), link: float = 0, host_budget: Union[int, str] = 0,
        by: Optional[str] = None, order: str = "file", timeout: float = 0, work_limit: int = 0, seed: int = 0,
        kernels: Optional[bool] = None, keep: Patterns = (), recompute: Patterns = (), swap: Swaps = (),
        segments: int = 0, progress: Progress = None) -> Fit:
    """Finds the fastest program of a model within a budget: which tensors to keep, recompute or swap.

    >>> found = tenure.fit("unet64.onnx", "500MB", train=True, optimizer="adam", costs="v100-16")
    >>> found.bytes, round(found.overhead, 4)
    (499525508, 1.0633)

    model   a file or a Graph; or a problem without a model, {"values": [...], "operators": [...]} (docs/fit.md), for
            which live bytes count
    budget  bytes for everything on the device, or text such as "2GiB"
    costs   times of the operators. None: measured on this machine; or a device of `tenure list hardware`, "t4" or
            "model:t4"; a file written by `tenure fit --save-costs`; or one number per operator
    allow   techniques: "order", "recompute", "swap" (over a link of `link` bytes per second), "compress", "lossy",
            "split", "stream". Default, as in `tenure fit`: those that keep every bit and need no further information
            (with `link` also swap). "split" or "stream" without any other adds them to order and recompute
    by      the pass that decides: `tenure list passes`
    kernels True: count scratch and packed weights of this machine's kernels; False: the graph only. None: True, but
            False with the costs of a device
    keep, recompute, swap
            rules about the results of operators: patterns of operator names ("encoder*"), or of types ("type:Conv").
            A swap may state the number of operators by which the copy back starts early: "type:Conv:prefetch=4", or in a
            mapping, {"type:Conv": 4}
    segments
            recompute the inner results of all but the last of this many segments of the forward pass

    If nothing fits: tenure.Error with E_INFEASIBLE (proved) or E_EXHAUSTED. Its `least` is the smallest answer found;
    `claims` lists the results by technique, `hints` further options. For PyTorch modules: tenure.torch.fit.
    """
    if isinstance(costs, str) and costs.startswith("model:"):  # as on the command line
        costs = costs[len("model:"):]
    most = size(budget, "budget")
    if most == 0:
        raise ValueError("budget: must be above 0 bytes")
    rate = real(link, "link")
    asked_rules = rules(keep, recompute, swap, segments)
    with Context(progress) as context:
        asked = options(tn_fit_options, context=context, budget=most, allow=allowed(allow, rate),
                        host_budget=size(host_budget, "host_budget"), to_host_bytes_per_s=rate,
                        from_host_bytes_per_s=rate, seed=number(seed, "seed"),
                        work_limit=number(work_limit, "work_limit"), timeout_s=real(timeout, "timeout"),
                        rules=None if asked_rules is None else ctypes.pointer(asked_rules), **{"pass": text(by, "by")})
        if isinstance(model, Mapping):
            if train or batch or dims or shapes or costs is not None or kernels is not None:
                raise TypeError("train, batch, dims, shapes, costs and kernels are for models; a problem contains its "
                                "own costs")
            search = problem_search(model)
            asked.memory, asked.live = ctypes.pointer(search.memory), True
            return solved(search, asked)
        graph = opened(model, batch, dims, shapes)
        if kernels is None:
            kernels = not (isinstance(costs, str) and bool(ask("tn_hardware_find", text(costs, "costs"))))
        flag(kernels, "kernels")
        if train:
            graph = graph._step(loss, optimizer, rewrite=kernels)
        return model_fit(graph, asked, costs, kernels, order, context)


def solved(search: Search, asked: tn_fit_options) -> Fit:
    raw = room_for(tn_fit_result)
    failure = None
    try:
        call("tn_fit", search.program, search.costs, ctypes.byref(asked), ctypes.byref(raw))
    except Error as error:
        failure = error
    found = None
    if raw.program:
        found = Fit(raw, asked.budget, search.fixed, search.abstract, search.keeps, search.name)
    else:
        ask("tn_fit_release", ctypes.byref(raw))
    if failure is not None:
        failure.least = found
        raise failure
    assert found is not None
    return found
