"""Training in a planned arena (tenure/train.h)."""
import ctypes
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

from tenure import _abi
from tenure._abi import (LOSSES, NONE, OPTIMIZERS, SCHEDULES, STEP, TRAIN_READ, tn_array, tn_contents, tn_contents_of, tn_data,
                         tn_named_array, tn_prune_schedule, tn_samples, tn_session_options, tn_train_options, tn_trainer,
                         tn_trainer_options, tn_trainer_score, tn_written)
from tenure._graph import HANDLE, Graph, choice, decoded, load
from tenure._library import Context, Error, Owner, Path, ask, call, library, number, options, path, real, room_for, size, text
from tenure._rules import Patterns, Swaps, rules

try:
    import numpy
except ImportError:  # data is then named by a text
    numpy = None  # type: ignore[assignment]

Data = Union[str, Mapping[str, Any], Tuple[Any, Any]]
Step = Optional[Callable[[int, float], Optional[bool]]]
BATCH_USUAL = 64  # for models with a symbolic batch


class Written(NamedTuple):
    """A model's file that Training.save wrote."""
    bytes: int
    tensors: int  # parameters with other data than in the old file
    quantised: int  # weights that are stored as integers now
    real_bytes: int  # bytes of these weights before
    stored_bytes: int  # and now, without scales


class Training:
    """A trained model. `tenure.train` makes one.

    steps, loss, accuracy        steps that were done; mean loss and share of right answers of about the last 50
    test_loss, test_accuracy     on the held-out samples
    zeros, prunable              elements that are zero for good, and elements of all pruned parameters
    bytes                        arena and static memory of a step

    Values that do not apply are None.
    """

    steps: int
    loss: Optional[float]
    accuracy: Optional[float]
    test_loss: Optional[float]
    test_accuracy: Optional[float]
    zeros: int
    prunable: int
    bytes: int

    def __init__(self) -> None:
        raise TypeError("use tenure.train to make a Training")

    _trainer: Any
    _graph: Graph
    _owner: Owner
    _read: Any
    _contents: Any

    @property
    def parameters(self) -> Dict[str, Any]:
        """Trained parameters and running statistics, by name, as numpy arrays."""
        training = ask("tn_trainer_training", self._trainer).contents
        ids = [training.parameters[at].parameter for at in range(training.parameter_count)]
        ids += [training.statistics[at] for at in range(training.statistic_count)]
        found = {}
        for tensor in (ask("tn_graph_tensor", training.graph, at).contents for at in ids):
            made = empty(tensor.dtype, tensor.shape[:tensor.rank])
            if ask("tn_trainer_read", self._trainer, tensor.name, made.ctypes.data, tensor.bytes):
                found[decoded(tensor.name)] = made
        return found

    def save(self, file: Path) -> Written:
        """Writes the .onnx model with its trained parameters; weights that it quantises are stored as integers."""
        contents, raw = tn_contents_of(read=self._read), room_for(tn_written)
        call("tn_model_write", path(self._graph.name), self._graph._handle, ctypes.byref(contents), path(file),
             ctypes.byref(raw))
        return Written(raw.file_bytes, raw.tensors, raw.quantised, raw.real_bytes, raw.stored_bytes)


def arrays_needed() -> Any:
    if numpy is None:
        raise TypeError("arrays need numpy, which is not installed")
    return numpy


def empty(dtype: int, shape: Sequence[int]) -> Any:
    name = ask("tn_dtype_name", dtype).decode()
    return arrays_needed().empty(tuple(shape), name)


def array_of(value: Any, what: str, keeps: List[Any]) -> tn_array:
    """A C array of a numpy array, which `keeps` keeps alive."""
    array = arrays_needed().ascontiguousarray(value)
    names = {ask("tn_dtype_name", at).decode(): at for at in range(1, 14) if ask("tn_dtype_name", at)}
    if array.dtype.name not in names:
        raise TypeError("%s: an array of numbers, not of %s" % (what, array.dtype))
    keeps.append(array)
    return tn_array(dtype=names[array.dtype.name], rank=array.ndim, bytes=array.nbytes, data=array.ctypes.data,
                    shape=(ctypes.c_int64 * 64)(*array.shape))


def samples_of(data: Union[Mapping[str, Any], Tuple[Any, Any]], what: str, keeps: List[Any]) -> tn_samples:
    if isinstance(data, Mapping):
        if not data:
            raise ValueError("%s: no arrays" % what)
        named = (tn_named_array * len(data))(*(tn_named_array(text(name, what), array_of(value, what, keeps))
                                               for name, value in data.items()))
        keeps.append(named)
        return tn_samples(inputs=named, input_count=len(data))
    if not isinstance(data, (tuple, list)) or len(data) != 2:
        raise TypeError("%s: arrays by the names of inputs, or samples and labels, not %s" % (what, type(data).__name__))
    return tn_samples(array_of(data[0], what, keeps), array_of(data[1], what, keeps))


def data_of(data: Data, test: Any, owner: Owner, keeps: List[Any]) -> Any:
    handle = ctypes.POINTER(tn_data)()
    if isinstance(data, str):
        if test is not None:
            raise TypeError("test: the text that names the data set also names the held-out samples")
        call("tn_data_load", text(data, "data"), None, ctypes.byref(handle))
    else:
        train = samples_of(data, "data", keeps)
        held_out = None if test is None else ctypes.byref(samples_of(test, "test", keeps))
        call("tn_data_create", ctypes.byref(train), held_out, None, ctypes.byref(handle))
    return owner.own("tn_data_destroy", handle)


def patterns(values: Sequence[str], what: str) -> Any:
    if isinstance(values, str):
        raise TypeError("%s: a list of patterns, not a text" % what)
    return (ctypes.c_char_p * len(values))(*(text(value, what) for value in values)) if values else None


def prune_of(prune: Union[None, float, Mapping[str, Any]], keeps: List[Any]) -> Any:
    if prune is None:
        return None
    given = dict(prune) if isinstance(prune, Mapping) else {"share": prune}
    unknown = set(given) - {"share", "begin", "end", "every", "weights"}
    if unknown or "share" not in given:
        raise ValueError("prune: a share, or a dict of share, begin, end, every and weights")
    weights = given.get("weights", ())
    made = tn_prune_schedule(share=real(given["share"], "prune"), patterns=patterns(weights, "prune"),
                             pattern_count=len(weights),
                             **{name: number(given.get(name, 0), "prune") for name in ("begin", "end", "every")})
    keeps.append(made)
    return ctypes.pointer(made)


def model_of(file: Path, batch: int, dims: Optional[Mapping[str, int]], shapes: Optional[Mapping[str, Sequence[int]]]) -> Graph:
    try:
        return load(file, dims=dims, shapes=shapes, batch=batch)
    except Error as error:
        if batch or error.status != "E_UNKNOWN":
            raise
        return load(file, dims=dims, shapes=shapes, batch=BATCH_USUAL)


def output_of(graph: Graph, output: Union[int, str]) -> int:
    """The number of an output, by its name or its number."""
    if not isinstance(output, str):
        return number(output, "output", NONE)
    names = [tensor.name for tensor in graph.tensors if tensor.kind == "output"]
    block = ask("tn_graph_block", graph._handle, 0).contents
    names = [decoded(ask("tn_graph_tensor", graph._handle, block.outputs[at]).contents.name) for at in range(block.output_count)]
    return choice(output, names, "output")


def train(file: Path, data: Data, *, test: Any = None, loss: str = "cross-entropy", output: Union[int, str] = 0,
          optimizer: str = "adam", rate: float = 1e-3, schedule: str = "constant", warmup: int = 0, weight_decay: float = 0,
          momentum: float = 0, batch: int = 0, steps: int = 0, epochs: int = 1, micro_batches: int = 1,
          freeze: Sequence[str] = (), prune: Union[None, float, Mapping[str, Any]] = None, seed: int = 0, threads: int = 1,
          budget: Union[int, str, None] = None, checkpoint: Optional[Path] = None, resume: Optional[Path] = None,
          weights: Optional[int] = None, dims: Optional[Mapping[str, int]] = None,
          shapes: Optional[Mapping[str, Sequence[int]]] = None, step: Step = None, keep: Patterns = (),
          recompute: Patterns = (), swap: Swaps = (), segments: int = 0) -> Training:
    """Trains an .onnx model in one arena of exactly the planned size, as the command `tenure train` does.

    >>> trained = tenure.train("cnn.onnx", (x, y), test=(x_test, y_test), epochs=2)
    >>> trained.test_accuracy
    0.91
    >>> trained.save("trained.onnx")

    data        arrays by the names of inputs, {"image": ..., "target": ...}, and "labels" if the loss takes labels; or
                (samples, labels); or a text as for --data of the command ("fashion-mnist", "x=x.npy,target=t.npy")
    test        held-out samples, in the same form
    loss        "cross-entropy", "mean-squared", or "output": output number or name `output` of the model is the loss
    freeze      patterns with * and ? of parameters not to train, ["teacher.*"]
    prune       final share of zeros in each weight, or {"share": 0.9, "begin": 0, "end": 800, "every": 20, "weights": ["*.w"]}
    budget      bytes for arena and parameters, 4096 or "64MiB"; None: no limit
    checkpoint  file in which the run is saved regularly; resume: file from which it continues
    weights     seed of made-up weights, for a file without weights
    step        called after each step with the number of steps done and the loss; returns False to stop
    keep, recompute, swap, segments: rules about the results of operators, as for tenure.fit
    """
    owner, keeps = Owner(), []  # type: Tuple[Owner, List[Any]]
    graph = model_of(file, batch, dims, shapes)
    frozen = patterns(freeze, "freeze")
    raw = options(tn_train_options, loss=choice(loss, LOSSES, "loss"), output=output_of(graph, output),
                  optimizer=choice(optimizer, OPTIMIZERS[:-1], "optimizer"), freeze=frozen, freeze_count=len(freeze),
                  momentum=real(momentum, "momentum"), weight_decay=real(weight_decay, "weight_decay"),
                  micro_batches=number(micro_batches, "micro_batches", NONE, 1))
    contents = ctypes.POINTER(tn_contents)()
    if weights is None:
        call("tn_contents_open", path(file), None, ctypes.byref(contents))
    else:
        call("tn_contents_generate", None, graph._handle, number(weights, "weights"), None, ctypes.byref(contents))
    owner.own("tn_contents_close", contents)
    model = HANDLE()
    call("tn_train_model", graph._handle, ctypes.byref(raw), ctypes.byref(model))
    owner.own("tn_graph_destroy", model)
    kept = Graph._make(model, graph.name, graph)
    ruled = rules(keep, recompute, swap, segments)
    session = options(tn_session_options, rules=None if ruled is None else ctypes.pointer(ruled),
                      read=ctypes.cast(library().tn_contents_read, TRAIN_READ),
                      self=ctypes.cast(contents, ctypes.c_void_p), threads=number(threads, "threads", NONE, 1), fuse=True,
                      budget=0 if budget is None else size(budget, "budget"), seed=number(seed, "seed"))
    samples = data_of(data, test, owner, keeps)
    context = Context()

    def stepped(_: Any, state: Any) -> bool:
        try:
            at = state.contents
            return context.failed is None and (step is None or step(at.done, at.loss) is not False)
        except BaseException as failure:  # raised again when the call returns
            context.failed = failure
            return False
    rate = real(rate, "rate")
    asked = options(tn_trainer_options, train=ctypes.pointer(raw), session=ctypes.pointer(session), data=samples,
                    steps=number(steps, "steps"), epochs=number(epochs, "epochs"), rate=rate if rate > 0 else -1,
                    schedule=choice(schedule, SCHEDULES, "schedule"), warmup=number(warmup, "warmup"), seed=number(seed, "seed"),
                    checkpoint=None if checkpoint is None else path(checkpoint), resume=None if resume is None else path(resume),
                    prune=prune_of(prune, keeps), step=STEP(stepped))
    keeps += [asked, ruled]
    trainer = ctypes.POINTER(tn_trainer)()
    with context:
        call("tn_trainer_open", kept._handle, ctypes.byref(asked), ctypes.byref(trainer))
        owner.own("tn_trainer_destroy", trainer)
        call("tn_trainer_run", trainer)
    return training_of(trainer, kept, owner, contents, [keeps, graph, samples])


def training_of(trainer: Any, graph: Graph, owner: Owner, contents: Any, keeps: Any) -> Training:
    made = Training.__new__(Training)
    state, score = ask("tn_trainer_at", trainer).contents, room_for(tn_trainer_score)
    done = state.done > state.first
    made.steps, made.zeros, made.prunable = state.done, state.pruned, state.prunable
    made.loss = state.mean_loss if done else None
    made.accuracy = state.accuracy if done and state.counts else None
    made.test_loss = made.test_accuracy = None
    if ask("tn_trainer_tests", trainer) and not state.stopped:
        call("tn_trainer_test", trainer, ctypes.byref(score))
        made.test_loss = score.loss if score.labels else None
        made.test_accuracy = score.accuracy if score.labels and score.counts else None
    usage = room_for(_abi.tn_engine_usage)
    ask("tn_engine_measure", ask("tn_trainer_engine", trainer), ctypes.byref(usage))
    made.bytes = usage.arena + usage.static_bytes

    def read(_: Any, model: Any, tensor: int, into: Any, count: int, error: Any) -> int:
        name = ask("tn_graph_tensor", model, tensor).contents.name
        if ask("tn_trainer_read", trainer, name, into, count):
            return 0
        return int(ask("tn_contents_read", contents, model, tensor, into, count, error))
    made._trainer, made._graph, made._owner, made._contents = trainer, graph, owner, [contents, keeps]
    made._read = TRAIN_READ(read)
    return made
