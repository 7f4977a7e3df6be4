"""Models from files, their training steps, and their plans."""
import ctypes
from typing import Any, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

from tenure import _abi
from tenure._abi import (LOSSES, NONE, OPTIMIZERS, SIZE_UNKNOWN, tn_dim, tn_graph, tn_import_options, tn_input_shape,
                         tn_occupancy_options, tn_program_options, tn_program_streams_options, tn_rewrite_options,
                         tn_setup, tn_setup_options, tn_stream_rule, tn_train_options, tn_training)
from tenure._library import Context, Path, Progress, ask, call, number, options, owned, path, room_for, text
from tenure._problem import TIME, Layout, Problem, plan_options
from tenure._rules import MOST

HANDLE = ctypes.POINTER(tn_graph)


class Tensor(NamedTuple):
    """A tensor of a Graph. None stands for an unknown extent or size."""
    name: str
    dtype: str
    kind: str  # "activation", "input", "output", "parameter", "constant", "gradient", "optimizer_state"
    shape: Tuple[Optional[int], ...]
    bytes: Optional[int]


class Operator(NamedTuple):
    """An operator of a Graph, with its operands by index; None: an omitted operand."""
    name: str
    type: str
    inputs: Tuple[Optional[int], ...]
    outputs: Tuple[Optional[int], ...]


def decoded(raw: Optional[bytes]) -> str:
    return (raw or b"").decode("utf-8", "replace")


class Graph:
    """A model: tensors and operators, without order, time or address. `load` makes one.

    >>> graph = tenure.load("mobilenet_v2.onnx")
    >>> tenure.plan(graph).peak
    6021120
    """

    def __init__(self) -> None:
        raise TypeError("use tenure.load to make a Graph from a model's file")

    @classmethod
    def _make(cls, handle: Any, name: str, keeps: object = None) -> "Graph":
        made = cls.__new__(cls)
        made._handle, made.name, made._keeps, made._is_step = handle, name, keeps, False
        return made

    _handle: Any
    _keeps: object  # the owner of the handle, if it is borrowed
    _is_step: bool  # it is the graph of a training step
    name: str

    @property
    def tensors(self) -> List[Tensor]:
        """All tensors; operators refer to them by index in this list."""
        return [self._tensor(index) for index in range(ask("tn_graph_tensor_count", self._handle))]

    def _tensor(self, index: int) -> Tensor:
        raw = ask("tn_graph_tensor", self._handle, index).contents
        shape = () if raw.rank == NONE else tuple(None if n == -TIME - 1 else n for n in raw.shape[:raw.rank])
        return Tensor(decoded(raw.name), ask("tn_dtype_name", raw.dtype).decode(), _abi.KINDS[raw.kind], shape,
                      None if raw.bytes == SIZE_UNKNOWN else raw.bytes)

    @property
    def operators(self) -> List[Operator]:
        """All operators, in the order of the file."""
        return [self._operator(index) for index in range(ask("tn_graph_op_count", self._handle))]

    def _operator(self, index: int) -> Operator:
        raw = ask("tn_graph_op", self._handle, index).contents

        def operands(pointer: Any, count: int) -> Iterator[Optional[int]]:
            return (None if at == NONE else at for at in pointer[:count])
        return Operator(decoded(raw.name), decoded(raw.type), tuple(operands(raw.inputs, raw.input_count)),
                        tuple(operands(raw.outputs, raw.output_count)))

    def training_step(self, *, loss: str = "cross-entropy", optimizer: str = "adam", output: int = 0,
                      freeze: Sequence[str] = (), micro_batches: int = 1) -> "Graph":
        """Makes the graph of one training step: forward, backward, update.

        loss       "cross-entropy", "mean-squared", or "output": output number `output` is the loss itself
        optimizer  "sgd", "momentum", "adam", "adamw", "none": compute gradients only
        freeze     patterns with * and ? of parameters not to train
        """
        return self._step(loss, optimizer, output, freeze, micro_batches, rewrite=False)

    def _step(self, loss: str, optimizer: str, output: int = 0, freeze: Sequence[str] = (), micro_batches: int = 1, *,
              rewrite: bool) -> "Graph":
        """rewrite: fuse operators for the kernels, before the gradients are made."""
        frozen = (ctypes.c_char_p * len(freeze))(*(text(pattern, "freeze") for pattern in freeze))
        raw = options(tn_train_options, loss=choice(loss, LOSSES, "loss"),
                      optimizer=choice(optimizer, OPTIMIZERS, "optimizer"), output=number(output, "output", NONE),
                      freeze=frozen if freeze else None, freeze_count=len(freeze),
                      micro_batches=number(micro_batches, "micro_batches", NONE, 1))
        model = HANDLE()
        call("tn_train_model", self._handle, ctypes.byref(raw), ctypes.byref(model))
        kept = Graph._make(model, self.name, self)
        owned(kept, "tn_graph_destroy", model, self)
        if rewrite:
            kept = kept._rewritten()
        training = room_for(tn_training)
        call("tn_train", kept._handle, ctypes.byref(raw), ctypes.byref(training))
        made = Graph._make(training.graph, self.name, kept)
        made._is_step = True
        owned(made, "tn_training_release", ctypes.pointer(training), kept)
        return made

    def _rewritten(self) -> "Graph":
        raw, handle = options(tn_rewrite_options, use=_abi.TO_TRAIN), HANDLE()
        call("tn_graph_rewrite", self._handle, ctypes.byref(raw), ctypes.byref(handle))
        made = Graph._make(handle, self.name, self)
        owned(made, "tn_graph_destroy", handle, self)
        return made

    def _plan(self, planner: str, capacity: Union[int, str, None], timeout: float, work_limit: int, threads: int,
              seed: int, objective: str, workers: int, streams: int, stream: Mapping[str, int],
              adjacent: Sequence[str], progress: Progress) -> Layout:
        patterns = [text(pattern, "adjacent") for pattern in adjacent]
        rules = [tn_stream_rule(text(pattern, "stream"), number(k, "stream", MOST)) for pattern, k in stream.items()]
        memory = options(tn_occupancy_options, adjacent_count=len(patterns),
                         adjacent=(ctypes.c_char_p * len(patterns))(*patterns) if patterns else None)
        asked = options(tn_program_streams_options, count=number(streams, "streams", MOST), rule_count=len(rules),
                        rules=(tn_stream_rule * len(rules))(*rules) if rules else None)
        with Context(progress) as context:
            setup = Setup(self, context=context, memory=memory, streams=asked,
                          plan=plan_options(context, planner, capacity, timeout, work_limit, threads, seed, objective,
                                            workers))
        return setup.layout()

    def __repr__(self) -> str:
        return "<tenure.Graph %s: %d operators>" % (self.name, ask("tn_graph_op_count", self._handle))


def choice(value: str, known: Sequence[str], what: str) -> int:
    if value not in known:
        raise ValueError("%s: %r is not one of %s" % (what, value, ", ".join(known)))
    return known.index(value)


class Setup:
    """The stages from a graph to a layout (tenure/engine.h), for the graph only or for the kernels of this machine."""

    def __init__(self, graph: Graph, *, context: Any = None, kernels: bool = False, order: str = "auto",
                 **members: Any) -> None:
        self.graph, self.handle = graph, ctypes.POINTER(tn_setup)()
        program = options(tn_program_options, order=text(order, "order"))
        pointers = {name: ctypes.pointer(raw) for name, raw in members.items() if raw is not None}
        raw = options(tn_setup_options, context=context, no_kernels=not kernels, program=ctypes.pointer(program),
                      **pointers)
        call("tn_setup_create", graph._handle, ctypes.byref(raw), ctypes.byref(self.handle))
        owned(self, "tn_setup_destroy", self.handle, graph)

    def ask(self, what: str, *arguments: Any) -> Any:
        return ask("tn_setup_" + what, self.handle, *arguments)

    def layout(self) -> Layout:
        occupancy = self.ask("occupancy")
        problem = Problem._borrow(ask("tn_occupancy_problem", occupancy), self)
        made = Layout._borrow(problem, self.ask("layout").contents, self)
        made._occupancy, made._report = occupancy, {"input": self.graph.name}
        return made


def load(file: Path, *, dims: Optional[Mapping[str, int]] = None,
         shapes: Optional[Mapping[str, Sequence[int]]] = None, batch: int = 0, keep_aten: bool = False) -> Graph:
    """Reads a model (.onnx, .pt2, .tflite). The weights are not read, and may be missing.

    dims    values of symbolic dimensions, {"N": 8}; shapes: of inputs, {"x": (1, 3, 224, 224)}
    batch   first extent of the inputs of an .onnx or .pt2 model; 0: as in the file
    keep_aten   operators of a .pt2 program stay PyTorch's own, with its views: to plan, not to run
    """
    raw_dims = [tn_dim(text(name, "dims"), number(value, "dims", TIME)) for name, value in (dims or {}).items()]
    raw_shapes = [tn_input_shape(text(name, "shapes"), len(shape), extents(shape))
                  for name, shape in (shapes or {}).items()]
    raw = options(tn_import_options, dims=(tn_dim * len(raw_dims))(*raw_dims) if raw_dims else None,
                  dim_count=len(raw_dims), input_shape_count=len(raw_shapes),
                  input_shapes=(tn_input_shape * len(raw_shapes))(*raw_shapes) if raw_shapes else None,
                  batch=number(batch, "batch", TIME), keep_aten=bool(keep_aten))
    handle = HANDLE()
    call("tn_graph_load", path(file), ctypes.byref(raw), ctypes.byref(handle))
    made = Graph._make(handle, path(file).decode("utf-8", "replace"))
    owned(made, "tn_graph_destroy", handle)
    return made


def extents(shape: Sequence[int]) -> Any:
    return (ctypes.c_int64 * len(shape))(*(number(extent, "shapes", TIME) for extent in shape))
