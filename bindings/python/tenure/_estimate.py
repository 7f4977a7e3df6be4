"""What a model needs, asked before anything runs."""
import ctypes
from typing import Any, Dict, Mapping, Optional, Sequence, Union

from tenure import _abi
from tenure._abi import PARTS, PHASES, SIZE_UNKNOWN, tn_estimate, tn_estimate_options, tn_rewrite_options
from tenure._graph import Graph, Setup, decoded, load
from tenure._library import Path, ask, call, options, room_for, size, text

Model = Union[Graph, Path]


class Estimate:
    """Bytes that a model needs.

    total   the most at any time
    parts   of it, at that time, by what it is for: "weights", "gradients", "optimizer_state", "activations",
            "workspace", "overhead", "runtime"; they add up to it
    phases  the most in each: "load", "forward", "backward", "first_step", "later_steps", "checkpoint"; only
            those that there are
    fixed   weights and state; arena: all else, as planned; of a pool all that it reserves
    peak_operator  that runs at the peak, as "Conv 'conv1'"; "" where none does
    """

    def __init__(self, raw: tn_estimate, peak_operator: str) -> None:
        self.total, self.fixed, self.arena = raw.total, raw.fixed, raw.arena
        self.parts: Dict[str, int] = dict(zip(PARTS, raw.part))
        self.phases: Dict[str, int] = {name: most for name, most in zip(PHASES, raw.phase) if most != SIZE_UNKNOWN}
        self.peak_operator = peak_operator

    def __repr__(self) -> str:
        return "<tenure.Estimate: %d bytes, %d fixed, %d in the arena>" % (self.total, self.fixed, self.arena)


def opened(model: Model, batch: int, dims: Optional[Mapping[str, int]],
           shapes: Optional[Mapping[str, Sequence[int]]]) -> Graph:
    if not isinstance(model, Graph):
        return load(model, dims=dims, shapes=shapes, batch=batch)
    if batch or dims or shapes:
        raise TypeError("batch, dims and shapes are for files; a Graph has them already (tenure.load)")
    return model


def estimate(model: Model, *, train: bool = False, optimizer: str = "sgd", loss: str = "cross-entropy",
             batch: int = 0, dims: Optional[Mapping[str, int]] = None,
             shapes: Optional[Mapping[str, Sequence[int]]] = None, kernels: bool = False,
             pool: Optional[str] = None, pool_capacity: Union[int, str] = 0,
             runtime: Union[int, str] = 0) -> Estimate:
    """How much memory a model needs, to run or to train, in a planned arena or with a pool.

    >>> tenure.estimate("mobilenet_v2.onnx", train=True, optimizer="adam", batch=8).total
    262499844

    model    a file, or a Graph
    kernels  count the scratch of the kernels that would run it on this machine; else for the graph alone
    pool     in the place of a planned arena: "caching", "bfc", "best-fit", ... (`tenure list pools`)
    runtime  bytes that the run time keeps for itself

    What a module of PyTorch needs, as PyTorch runs it: tenure.torch.estimate.
    """
    graph = opened(model, batch, dims, shapes)
    use = _abi.TO_RUN
    if train:
        graph, use = graph._step(loss, optimizer, rewrite=kernels), _abi.TRAINED
    setup = Setup(graph, kernels=kernels, rewrite=options(tn_rewrite_options, use=use) if kernels else None)
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
