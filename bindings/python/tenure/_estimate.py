"""Estimates of the memory that a model needs, without running it."""
import ctypes
from typing import Any, Dict, Mapping, Optional, Sequence, Union

from tenure import _abi
from tenure._abi import PARTS, PHASES, SIZE_UNKNOWN, tn_estimate, tn_estimate_options, tn_rewrite_options
from tenure._graph import Graph, Setup, decoded, load
from tenure._library import Path, ask, call, flag, options, room_for, size, text
from tenure._rules import Patterns, Swaps, rules

Model = Union[Graph, Path]


class Estimate:
    """Bytes that a model needs.

    total   the peak over all times
    parts   the peak by purpose: "weights", "gradients", "optimizer_state", "activations", "workspace", "overhead",
            "runtime"; the sum is `total`
    phases  the peak of each phase that occurs: "load", "forward", "backward", "update", "later_steps", "checkpoint"
    fixed   weights and state; arena: everything else, as planned; with a pool, all that it reserves
    peak_operator  the operator that runs at the peak, such as "Conv 'conv1'"; "" if none does
    """

    def __init__(self, raw: tn_estimate, peak_operator: str) -> None:
        self.total, self.fixed, self.arena = raw.total, raw.fixed, raw.arena
        self.parts: Dict[str, int] = dict(zip(PARTS, raw.part))
        self.phases: Dict[str, int] = {name: most for name, most in zip(PHASES, raw.phase) if most != SIZE_UNKNOWN}
        self.peak_operator = peak_operator

    def __repr__(self) -> str:
        return "<tenure.Estimate: %d bytes, %d fixed, %d in the arena>" % (self.total, self.fixed, self.arena)

    def _repr_html_(self) -> str:
        from tenure import _html
        peak = " at %s" % self.peak_operator if self.peak_operator else ""
        title = "%s (%s bytes)%s" % (_html.people(self.total), format(self.total, ","), peak)
        return _html.bars(title, self.parts) + _html.bars("peak of each phase", self.phases)


def opened(model: Model, batch: int, dims: Optional[Mapping[str, int]],
           shapes: Optional[Mapping[str, Sequence[int]]]) -> Graph:
    if not isinstance(model, Graph):
        return load(model, dims=dims, shapes=shapes, batch=batch)
    if batch or dims or shapes:
        raise TypeError("batch, dims and shapes are for files; give them to tenure.load when you make the Graph")
    return model


def estimate(model: Model, *, train: bool = False, optimizer: str = "adam", loss: str = "cross-entropy",
             batch: int = 0, dims: Optional[Mapping[str, int]] = None,
             shapes: Optional[Mapping[str, Sequence[int]]] = None, kernels: bool = False,
             pool: Optional[str] = None, pool_capacity: Union[int, str] = 0,
             runtime: Union[int, str] = 0, keep: Patterns = (), recompute: Patterns = (), swap: Swaps = (),
             segments: int = 0, order: str = "file") -> Estimate:
    """Estimates the memory that a model needs to run or to train, in a planned arena or with a pool.

    >>> tenure.estimate("mobilenet_v2.onnx", train=True, optimizer="adam", batch=8).total
    267874756

    model    a file, or a Graph
    kernels  True: count the scratch of this machine's kernels; False: the graph only
    pool     use this pool instead of a planned arena: "caching", "bfc", "best-fit", ... (`tenure list pools`)
    runtime  bytes that the run time uses itself
    keep, recompute, swap, segments: rules about the results of operators, as for tenure.fit
    order    order of the operators, as in `tenure list orders`: "file", in which tenure.train and tenure.fit run them, or
             "memory"; "auto": the one with the smallest arena

    For a PyTorch module as PyTorch runs it: tenure.torch.estimate.
    """
    graph = opened(model, batch, dims, shapes)
    use = _abi.TO_RUN
    flag(kernels, "kernels")
    if train:
        graph, use = graph._step(loss, optimizer, rewrite=kernels), _abi.TRAINED
    setup = Setup(graph, kernels=kernels, order=order, rewrite=options(tn_rewrite_options, use=use) if kernels else None,
                  rules=rules(keep, recompute, swap, segments))
    count = ctypes.c_uint32()
    statics = setup.ask("statics", ctypes.byref(count))
    raw = options(tn_estimate_options, pool=text(pool, "pool"), pool_capacity=size(pool_capacity, "pool_capacity"),
                  layout=setup.ask("layout"), statics=statics, static_count=count.value,
                  runtime=size(runtime, "runtime"))
    found = room_for(tn_estimate)
    call("tn_estimate_make", setup.ask("occupancy"), ctypes.byref(raw), ctypes.byref(found))
    return Estimate(found, operator_name(setup.ask("graph"), found.peak_op))


def operator_name(graph: Any, index: int) -> str:
    if index == _abi.NONE:
        return ""
    raw = ask("tn_graph_op", graph, index).contents
    return "%s '%s'" % (decoded(raw.type), decoded(raw.name))
