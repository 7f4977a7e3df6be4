"""Runs operators one at a time within a memory budget that is never exceeded. Needs numpy.

    >>> import numpy, tenure.eager
    >>> run = tenure.eager.Interpreter(budget="64KiB")
    >>> w = run.put(numpy.ones((2, 2), "float32"), "parameter")
    >>> y = run.Relu(numpy.array([[1, -2]], "float32") @ w)
    >>> y.numpy()
    array([[0., 0.]], dtype=float32)

    Interpreter   an arena of `budget` bytes, the operators, the tape, the statistics
    Tensor        a tensor of an interpreter; when Python forgets it, its bytes are free
    Optimizer     updates parameters in place
    policies      how to choose the tensors to evict

When the budget is full, tensors are evicted, and recomputed or copied back when they are used again. Results have the
same bits with every budget and policy. The interpreter is that of C (tenure/eager.h, docs/eager.md).

Units: bytes; times in nanoseconds. Threads: calls on one interpreter wait for each other.
"""
import collections
import contextlib
import ctypes
import functools
import threading
import types
import weakref
from typing import Any, Callable, Deque, Dict, Iterator, List, Optional, Sequence, Tuple, Union

import numpy

from tenure import _abi
from tenure._abi import (ATTRS, DTYPES, KINDS, OPTIMIZERS, tn_attr, tn_device, tn_device_options, tn_eager,
                         tn_eager_about, tn_eager_call, tn_eager_counts, tn_eager_data, tn_eager_optimizer,
                         tn_eager_optimizer_options, tn_eager_options, tn_evict_least)
from tenure._graph import HANDLE, Graph, choice, decoded
from tenure._library import Error, Path, ask, call, number, options, owned, path, real, release, size, text

__all__ = ["Interpreter", "Optimizer", "Tensor", "policies"]

Operand = Union["Tensor", Any]  # a tensor, None, or anything that numpy.asarray accepts
INTS, LARGEST = ATTRS.index("ints"), (1 << 32) - 1


def policies() -> Dict[str, str]:
    """The eviction policies, with a summary of each."""
    return {decoded(ask("tn_evict_policy_name", index)): decoded(ask("tn_evict_policy_summary", index))
            for index in range(ask("tn_evict_policy_count"))}


def array_of(data: Any, dtype: Any = None) -> Any:
    """An array in C order and little endian. Numbers and lists of Python become int64, float32 or bool."""
    found = numpy.asarray(data, dtype=dtype, order="C")
    if dtype is None and not isinstance(data, (numpy.ndarray, numpy.generic)) and found.dtype == numpy.float64:
        found = found.astype(numpy.float32)
    if found.dtype.name not in DTYPES:
        raise TypeError("an array of %s; tensors have one of the types %s" % (found.dtype, ", ".join(DTYPES[1:-1])))
    return found.astype(found.dtype.newbyteorder("<"), copy=False)


def attribute(name: str, value: Any) -> tn_attr:
    """An attribute of an operator: a number, a text, a type such as numpy.float16, or a list of numbers or texts."""
    if isinstance(value, (type, numpy.dtype)):
        value = choice(numpy.dtype(value).name, DTYPES, name)
    is_list = isinstance(value, (list, tuple, numpy.ndarray))
    items = list(value) if is_list else [value]
    made = tn_attr(name=text(name, "attribute"), count=len(items))
    if items and all(isinstance(item, str) for item in items):
        made.type, made.strings = ATTRS.index("string"), (ctypes.c_char_p * len(items))(*(text(s, name) for s in items))
    elif any(isinstance(item, (float, numpy.floating)) for item in items):
        made.type, made.floats = ATTRS.index("float"), (ctypes.c_double * len(items))(*map(float, items))
    else:
        made.type = ATTRS.index("int")
        made.ints = (ctypes.c_int64 * max(1, len(items)))(*(number(n, name, (1 << 63) - 1, -1 << 63) for n in items))
    made.type += INTS if is_list else 0
    return made


def arithmetic(type: str) -> Tuple[Callable[["Tensor", Operand], Any], Callable[["Tensor", Operand], Any]]:
    """The methods of Tensor for an operator of Python: with the tensor on the left, and on the right."""
    def operand(tensor: "Tensor", other: Operand) -> Operand:
        if isinstance(other, (bool, int, float)) and not isinstance(other, numpy.generic):
            return tensor._run.put(numpy.array(other, tensor.dtype), "constant")
        return other if isinstance(other, (Tensor, numpy.ndarray, numpy.generic)) else None

    def left(self: "Tensor", other: Operand) -> Any:
        other = operand(self, other)
        return NotImplemented if other is None else self._run.apply(type, self, other)

    def right(self: "Tensor", other: Operand) -> Any:
        other = operand(self, other)
        return NotImplemented if other is None else self._run.apply(type, other, self)
    return left, right


class Tensor:
    """A tensor of an interpreter. It is released when no variable of the program refers to it.

    + - * / @ ** and - compute with tensors, arrays and numbers; a number of Python takes the type of the tensor.
    name   a name for `drop`, for messages and for recorded runs; None: it has none
    """

    __slots__ = ("_run", "_handle", "_name", "__weakref__")
    __array_ufunc__ = None  # array + tensor asks the tensor

    def __init__(self) -> None:
        raise TypeError("use the put and the operators of a tenure.eager.Interpreter to make a Tensor")

    @classmethod
    def _make(cls, run: "Interpreter", handle: int, name: Optional[str]) -> "Tensor":
        made = cls.__new__(cls)
        made._run, made._handle, made._name = run, handle, name
        if name:
            run._named[name] = made
        return made

    _run: "Interpreter"
    _handle: int
    _name: Optional[str]

    def __del__(self) -> None:
        # The collector may run in any thread, during a call: the next call deletes the handle.
        if getattr(self, "_handle", 0):
            self._run._dead.append(("tn_eager_del", self._handle))

    def delete(self) -> None:
        """Releases the tensor now. Using it afterwards is an error."""
        handle, self._handle = self._live(), 0
        self._run._call("tn_eager_del", handle)

    def _live(self) -> int:
        if not self._handle:
            raise ValueError("the tensor%s was deleted" % (" '%s'" % self._name if self._name else ""))
        return self._handle

    def _about(self) -> tn_eager_about:
        found = tn_eager_about()
        self._run._call("tn_eager_describe", self._live(), ctypes.byref(found))
        return found

    @property
    def name(self) -> Optional[str]:
        return self._name

    @property
    def shape(self) -> Tuple[int, ...]:
        about = self._about()
        return tuple(about.shape[:about.rank])

    @property
    def dtype(self) -> str:
        return decoded(ask("tn_dtype_name", self._about().dtype))

    @property
    def kind(self) -> str:
        """The purpose: "activation", "input", "parameter", "constant", "gradient", "optimizer_state"."""
        return KINDS[self._about().kind]

    @property
    def bytes(self) -> int:
        return int(self._about().bytes)

    @property
    def resident(self) -> bool:
        """Whether its bytes are in the arena now."""
        return bool(self._about().resident)

    def numpy(self) -> Any:
        """A copy of the data, as a numpy array. An evicted tensor is recomputed or copied back first."""
        if self.dtype not in DTYPES[:-1]:
            raise TypeError("numpy has no type %s; apply Cast(tensor, to=numpy.float32) first" % self.dtype)
        found = numpy.empty(self.shape, self.dtype)
        self._run._call("tn_eager_get", self._live(), found.ctypes.data, found.nbytes)
        return found

    def set(self, data: Any) -> None:
        """Replaces the data of a parameter, optimizer state or gradient that was put."""
        array = array_of(data, self.dtype)
        if array.shape != self.shape:
            raise ValueError("an array of shape %s for a tensor of shape %s" % (array.shape, self.shape))
        self._run._call("tn_eager_set", self._live(), array.ctypes.data, array.nbytes)

    def drop(self) -> None:
        """Frees its bytes now; its next use recomputes it."""
        self._run.drop(self)

    def offload(self) -> None:
        """Frees its bytes now, after a copy to the host; its next use copies it back."""
        self._run.offload(self)

    def __array__(self, dtype: Any = None, copy: Optional[bool] = None) -> Any:
        return self.numpy() if dtype is None else self.numpy().astype(dtype)

    def item(self) -> Any:
        """The number in a tensor of one element."""
        return self.numpy().item()

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __bool__(self) -> bool:
        return bool(self.item())

    def __neg__(self) -> Any:
        return self._run.apply("Neg", self)

    __add__, __radd__ = arithmetic("Add")
    __sub__, __rsub__ = arithmetic("Sub")
    __mul__, __rmul__ = arithmetic("Mul")
    __truediv__, __rtruediv__ = arithmetic("Div")
    __pow__, __rpow__ = arithmetic("Pow")
    __matmul__, __rmatmul__ = arithmetic("MatMul")

    def __repr__(self) -> str:
        if not self._handle or not self._run._handles:
            return "<tenure.eager.Tensor, deleted>"
        return "<tenure.eager.Tensor%s: %s %s>" % (" '%s'" % self._name if self._name else "", self.dtype, self.shape)


class Operators:
    """The operators of a domain, as functions: run.tenure.CrossEntropy(scores, labels)."""

    def __init__(self, apply: Callable[..., Any], domain: str) -> None:
        self._apply, self._domain = apply, domain

    def __getattr__(self, type: str) -> Callable[..., Any]:
        if not type[:1].isupper():  # names of operators begin with a capital
            raise AttributeError("%s is no operator" % type)
        return functools.partial(self._apply, self._domain + "." + type)


class Interpreter:
    """An interpreter with an arena of `budget` bytes, which holds all tensors and the scratch memory of operators.

    >>> with tenure.eager.Interpreter("12KiB", policy="dtr") as run:
    ...     loss = run.tenure.MeanSquared(run.Tanh(x @ w), y)

    budget   bytes, or a text such as "2GiB"; 0: the memory of the machine
    policy   one of tenure.eager.policies()
    link     bytes per second between the arena and the host, which `offload` and the policy "hybrid" need; 0: no link
    threads  of oneDNN
    plain    only Tenure's own loops: the same bits on every machine
    seed     of random operators
    tape     False: no gradients will be asked for
    record   keep the run for `recorded` and `log`
    model_costs     model the costs of operators, do not measure them: a policy decides the same in every run
    all_candidates  policies consider all tensors, not a sample
    find_least      compute `least`; takes time
    poison   fill unused memory and check it; slow

    Every operator of ONNX is a method: run.MatMul(x, w), run.Concat(x, y, axis=1). Those of Tenure are in run.tenure,
    those of other domains are called by `apply`. `tenure list operators` lists them, ONNX's specification documents
    them. Operands are tensors; None for one that is omitted; arrays and numbers of numpy, which are put for this call;
    and numbers and lists of Python, which are constants of the operator: axes, shapes, factors.
    """

    def __init__(self, budget: Union[int, str] = 0, *, policy: Optional[str] = None, link: float = 0, threads: int = 1,
                 plain: bool = False, seed: int = 0, tape: bool = True, record: bool = False,
                 model_costs: bool = False, all_candidates: bool = False, find_least: bool = False,
                 poison: bool = False) -> None:
        self._lock = threading.Lock()
        self._handles: List[Tuple[str, Any]] = []  # in the order of creation
        self._dead: Deque[Tuple[str, Any]] = collections.deque()  # forgotten by the program
        self._named: "weakref.WeakValueDictionary[str, Tensor]" = weakref.WeakValueDictionary()
        self._tape = bool(tape)
        weakref.finalize(self, release, self._handles, None).atexit = False
        device, eager = None, ctypes.POINTER(tn_eager)()
        bytes_, rate = size(budget, "budget"), real(link, "link")
        if rate:
            device = ctypes.POINTER(tn_device)()
            raw_device = options(tn_device_options, capacity=bytes_, link_bytes_per_s=rate)
            call("tn_device_create", ctypes.byref(raw_device), ctypes.byref(device))
            self._handles.append(("tn_device_destroy", device))
        raw = options(tn_eager_options, budget=bytes_, policy=text(policy, "policy"), device=device,
                      threads=number(threads, "threads", LARGEST), plain=bool(plain), seed=number(seed, "seed"),
                      no_tape=not tape, record=bool(record), model_costs=bool(model_costs), poison=bool(poison),
                      all_candidates=bool(all_candidates), find_least=bool(find_least))
        call("tn_eager_create", ctypes.byref(raw), ctypes.byref(eager))
        self._handles.append(("tn_eager_destroy", eager))
        self._eager = eager

    # --- calls ---

    def _clean(self) -> None:
        """Releases what the program has forgotten. The lock is held."""
        if not self._handles:
            raise ValueError("the interpreter is closed")
        while self._dead:
            what, handle = self._dead.popleft()
            if what == "tn_eager_del":
                call(what, self._eager, handle)
            else:  # an optimizer
                self._handles.remove((what, handle))
                ask(what, handle)

    def _call(self, name: str, *arguments: Any) -> None:
        with self._lock:
            self._clean()
            call(name, self._eager, *arguments)

    def _ask(self, name: str, *arguments: Any) -> None:
        with self._lock:
            self._clean()
            ask(name, self._eager, *arguments)

    def close(self) -> None:
        """Frees all memory now; tensors and optimizers can no longer be used."""
        with self._lock:
            release(self._handles, None)
            self._dead.clear()

    def __enter__(self) -> "Interpreter":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    # --- tensors and operators ---

    def put(self, data: Any, kind: str = "input", *, name: Optional[str] = None, dtype: Any = None) -> Tensor:
        """Copies an array, a number or a list into the arena.

        kind  "input"; "parameter": has gradients and a fixed address; "optimizer_state" or "gradient": operators can
              write into it; "constant": at most 256 numbers that an operator takes as part of itself
        """
        array = array_of(data, dtype)
        shape = (ctypes.c_int64 * array.ndim)(*array.shape)
        raw = tn_eager_data(dtype=DTYPES.index(array.dtype.name), kind=choice(kind, KINDS, "kind"), rank=array.ndim,
                            shape=shape, data=array.ctypes.data, name=text(name, "name"))
        handle = ctypes.c_uint64()
        self._call("tn_eager_put", ctypes.byref(raw), ctypes.byref(handle))
        return Tensor._make(self, handle.value, name)

    def _operand(self, value: Operand) -> Optional[Tensor]:
        if value is None or isinstance(value, Tensor):
            return value
        if isinstance(value, str):
            raise TypeError("an operand is a tensor, an array, a number or a list, not %r" % value)
        return self.put(value, "input" if isinstance(value, (numpy.ndarray, numpy.generic)) else "constant")

    def apply(self, type: str, /, *inputs: Operand, outputs: int = 1, name: Union[str, Sequence[str], None] = None,
              version: int = 0, **attributes: Any) -> Any:
        """Runs an operator now. Returns its result, or a tuple if `outputs` is not 1.

        >>> run.apply("com.microsoft.FusedMatMul", x, w, transB=1)

        type     "MatMul" is ONNX's; others begin with their domain
        outputs  the number of results; an updated operand in their place is None
        name     of the result, or a list of names
        version  the operator set version of the domain; 0: the newest
        Attributes of an operator are named arguments. Those that the operator does not have are ignored.
        """
        domain, _, short = type.rpartition(".")
        count = number(outputs, "outputs", 1 << 16)
        names = [name] if isinstance(name, str) else list(name or ())
        if names and len(names) != count:
            raise ValueError("%d names for %d outputs" % (len(names), count))
        operands = [self._operand(value) for value in inputs]
        handles = (ctypes.c_uint64 * len(operands))(*(0 if x is None else x._live() for x in operands))
        attrs = (tn_attr * len(attributes))(*(attribute(*pair) for pair in attributes.items()))
        made = (ctypes.c_uint64 * max(1, count))()
        raw = tn_eager_call(type=text(short, "type"), domain=text(domain, "domain"),
                            version=number(version, "version", LARGEST), input_count=len(operands), output_count=count,
                            attr_count=len(attributes), inputs=handles, attrs=attrs)
        if names:
            raw.names = (ctypes.c_char_p * count)(*(text(each, "name") for each in names))
        self._call("tn_eager_apply", ctypes.byref(raw), made)
        results = tuple(Tensor._make(self, made[k], names[k] if names else None) if made[k] else None
                        for k in range(count))
        return results[0] if count == 1 else results

    @property
    def tenure(self) -> Operators:
        """Tenure's own operators, as methods."""
        return Operators(self.apply, "tenure")

    def __getattr__(self, type: str) -> Callable[..., Any]:
        if not type[:1].isupper():  # names of operators begin with a capital
            raise AttributeError("an Interpreter has no %r" % type)
        return functools.partial(self.apply, type)

    def _one(self, what: Union[Tensor, str]) -> int:
        if isinstance(what, str):
            found = self._named.get(what)
            if found is None or not found._handle:
                raise Error("E_UNKNOWN", "no tensor has the name '%s'" % what)
            what = found
        if not isinstance(what, Tensor):
            raise TypeError("a tensor or a name, not %s" % type(what).__name__)
        return what._live()

    def drop(self, what: Union[Tensor, str]) -> None:
        """Frees the bytes of a tensor now; its next use recomputes it. A name means the newest tensor of that name."""
        self._call("tn_eager_drop", self._one(what))

    def offload(self, what: Union[Tensor, str]) -> None:
        """Frees the bytes of a tensor now, after a copy to the host; its next use copies it back. Needs a `link`."""
        self._call("tn_eager_offload", self._one(what))

    # --- gradients ---

    def backward(self, loss: Tensor, of: Sequence[Tensor]) -> List[Optional[Tensor]]:
        """Computes the gradients of a scalar for parameters, and empties the tape.

        Returns a gradient for each parameter; None: the loss does not depend on it.
        """
        handles = (ctypes.c_uint64 * len(of))(*(each._live() for each in of))
        found = (ctypes.c_uint64 * len(of))()
        self._call("tn_eager_backward", loss._live(), handles, len(of), found)
        return [Tensor._make(self, handle, None) if handle else None for handle in found]

    @contextlib.contextmanager
    def no_tape(self) -> Iterator[None]:
        """Operators in this block are not on the tape: for evaluation."""
        before, self._tape = self._tape, False
        self._ask("tn_eager_tape", False)
        try:
            yield
        finally:
            self._tape = before
            self._ask("tn_eager_tape", before)

    def forget(self) -> None:
        """Empties the tape, and releases the tensors that only the tape kept."""
        self._ask("tn_eager_forget")

    def optimizer(self, name: str, parameters: Sequence[Tensor], *, momentum: float = 0, beta1: float = 0,
                  beta2: float = 0, epsilon: float = 0, weight_decay: float = 0, nesterov: bool = False) -> "Optimizer":
        """An optimizer of some parameters: "sgd", "momentum", "adam" or "adamw". Its state is in the arena.

        0 is the usual value: momentum 0.9, beta1 0.9, beta2 0.999, epsilon 1e-8.
        """
        raw = options(tn_eager_optimizer_options, optimizer=choice(name, OPTIMIZERS[:-1], "optimizer"),
                      momentum=real(momentum, "momentum"), beta1=real(beta1, "beta1"), beta2=real(beta2, "beta2"),
                      epsilon=real(epsilon, "epsilon"), weight_decay=real(weight_decay, "weight_decay"),
                      nesterov=bool(nesterov))
        return Optimizer._make(self, raw, parameters)

    # --- statistics, recordings ---

    @property
    def counts(self) -> Any:
        """Counters as attributes: budget, handles, history, recipes, bytes, peak_bytes, plain_ops, remade_ops,
        drop_count, swap_count and the others of tn_eager_counts and tn_evict_counts (tenure/eager.h)."""
        raw = tn_eager_counts()
        self._ask("tn_eager_count", ctypes.byref(raw))
        found = {name: getattr(raw, name) for name, _ in raw._fields_ if name != "evict"}
        found.update((name, getattr(raw.evict, name)) for name, _ in raw.evict._fields_)
        return types.SimpleNamespace(**found)

    @property
    def least(self) -> Any:
        """A lower bound of the budget for the run so far without copies to the host: bytes, pinned, held, working, op,
        name, as in tn_evict_least. Needs find_least=True."""
        raw = tn_evict_least()
        self._ask("tn_eager_least", ctypes.byref(raw))
        found = {name: getattr(raw, name) for name, _ in raw._fields_}
        return types.SimpleNamespace(**dict(found, name=decoded(raw.name)))

    def check(self) -> None:
        """Checks all invariants, and with `poison` that unused memory was not written to."""
        self._call("tn_eager_check")

    def log(self, file: Path) -> None:
        """Writes the recorded run for `tenure simulate`."""
        self._call("tn_eager_log", path(file))

    def recorded(self) -> Graph:
        """The recorded run as a model, for tenure.plan, tenure.fit and tenure.report."""
        handle = HANDLE()
        self._call("tn_eager_recorded", ctypes.byref(handle), None)
        made = Graph._make(handle, "recorded run")
        owned(made, "tn_graph_destroy", handle)
        return made

    def restart(self) -> None:
        """Begins a new recording."""
        self._call("tn_eager_restart")

    def __repr__(self) -> str:
        if not self._handles:
            return "<tenure.eager.Interpreter, closed>"
        counts = self.counts
        return "<tenure.eager.Interpreter: %d of %d bytes, %d at the peak>" % (counts.bytes, counts.budget,
                                                                              counts.peak_bytes)


class Optimizer:
    """Updates parameters in place. Interpreter.optimizer makes one."""

    def __init__(self) -> None:
        raise TypeError("use the optimizer of a tenure.eager.Interpreter to make an Optimizer")

    @classmethod
    def _make(cls, run: Interpreter, raw: tn_eager_optimizer_options, parameters: Sequence[Tensor]) -> "Optimizer":
        made, handle = cls.__new__(cls), ctypes.POINTER(tn_eager_optimizer)()
        made._run, made.parameters, made._failed = run, tuple(parameters), False
        handles = (ctypes.c_uint64 * len(made.parameters))(*(each._live() for each in made.parameters))
        run._call("tn_eager_optimizer_create", ctypes.byref(raw), handles, len(handles), ctypes.byref(handle))
        made._own = ("tn_eager_optimizer_destroy", handle)
        run._handles.append(made._own)
        return made

    _run: Interpreter
    _own: Tuple[str, Any]
    _failed: bool  # the last step failed, and some of its gradients may be used already
    parameters: Tuple[Tensor, ...]

    def __del__(self) -> None:
        if hasattr(self, "_own"):
            self._run._dead.append(self._own)

    def step(self, gradients: Sequence[Optional[Tensor]], rate: float) -> None:
        """Updates every parameter by its gradient; None leaves it unchanged. The gradients are deleted.

        rate  the learning rate. After an error the step can be repeated: it continues where it failed.
        """
        if len(gradients) != len(self.parameters):
            raise ValueError("%d gradients for %d parameters" % (len(gradients), len(self.parameters)))
        handles = (ctypes.c_uint64 * len(gradients))(
            *(0 if each is None or (self._failed and not each._handle) else each._live() for each in gradients))
        self._failed = True
        try:
            with self._run._lock:
                self._run._clean()
                call("tn_eager_optimizer_step", self._own[1], handles, float(rate))
            self._failed = False
        finally:
            for each, handle in zip(gradients, handles):
                if each is not None and not handle:
                    each._handle = 0

    def minimize(self, loss: Tensor, rate: float) -> float:
        """A training step: backward and update. Returns the loss, whose tensor is deleted before the update.

        Other tensors that depend on the parameters should be forgotten before: those that are not are recomputed, if
        they were evicted, before the parameters change.
        """
        value = float(loss)
        gradients = self._run.backward(loss, self.parameters)
        loss.delete()
        self.step(gradients, rate)
        return value
