"""Records a training step as operators and values, the input of tenure.fit.

A value is the memory of a tensor that the step makes; views share the value. Memory that existed before (parameters,
buffers, inputs) and gradients of parameters are not values. Operators of the module's forward pass may run again; later
ones may not. A write in place into memory that no operator has read yet is part of making the value (a relu_ after a
convolution). The same holds for memory with earlier readers, if their results are unread so far. A value that is written
later than that cannot be recomputed, and neither can results of its earlier data.
"""
import time
from typing import Any, Dict, List, Optional, Set, Tuple

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from tenure.record import HIDDEN_WRITES, Recorder, Storage, tensors_in, untyped_of
from tenure.torch._scratch import scratch_of

DRAWS = ("bernoulli", "dropout", "rand", "normal", "uniform", "random", "multinomial", "exponential", "geometric",
         "cauchy", "poisson", "rrelu")


def without_modes(function: Any, *args: Any) -> Any:
    """Calls a function so that no dispatch mode sees it."""
    guard = torch._C._DisableTorchDispatch()
    try:
        return function(*args)
    finally:
        del guard


def bare(tensor: Any) -> Any:
    """The tensor without its autograd history, which would keep the graph alive that keeps the tensor."""
    return without_modes(torch.Tensor.detach, tensor) if tensor.requires_grad else tensor


def called(function: Any, args: Any, kwargs: Any) -> Any:
    """Calls the operator below a mode. A number that PyTorch wraps as a tensor (x * 0.5) arrives as a number; where
    PyTorch expects a tensor back (to unpack a saved one), it is made a tensor again."""
    result = function(*args, **kwargs)
    if function._schema.name == "aten::detach" and not isinstance(result, torch.Tensor):
        result = torch.scalar_tensor(result, dtype=torch.float64 if isinstance(result, float) else None)
    return result


def draws(name: str) -> bool:
    """Whether an operator may draw random numbers; its generator state is restored when it runs again."""
    return any(word in name for word in DRAWS)


def untouched(written: Any, name: str) -> Any:
    """Running statistics are side effects, and are left alone when the operator runs again."""
    return set() if name in HIDDEN_WRITES else written


class Node:
    """An operator, together with those that finish its results in place."""

    def __init__(self, op: int, name: str, cost: int, scratch: int, repeats: bool) -> None:
        self.ops, self.name, self.cost, self.scratch, self.repeats = [op], name, cost, scratch, repeats
        self.inputs: List[int] = []
        self.outputs: List[int] = []

    def reads(self, values: List[int]) -> None:
        self.inputs += [value for value in values if value not in self.inputs and value not in self.outputs]


class Recording(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.live: Dict[int, Tuple[Storage, int]] = {}
        self.bytes: List[int] = []
        self.maker: List[Node] = []
        self.readers: List[List[Node]] = []
        self.nodes: List[Node] = []
        self.names: List[str] = []  # operators of the forward pass
        self.made: Dict[int, List[Tuple[int, int]]] = {}  # operator -> (index of the storage among its results, value)
        self.count, self.forward = 0, True
        self.unpacked: List[Tuple[int, Optional[int]]] = []  # (number of operators before, value)
        self.forward_values = 0  # number of values of the module's forward pass, which come first
        self.saved: Set[Optional[int]] = set()  # values saved by the loss

    def value_of(self, tensor: Any) -> Optional[int]:
        untyped = untyped_of(tensor)
        known = None if untyped is None else self.live.get(untyped._cdata)
        return None if known is None else known[1]

    def values_of(self, tensors: Any) -> List[int]:
        found = [self.value_of(tensor) for tensor in tensors_in(tensors)]
        return list(dict.fromkeys(value for value in found if value is not None))

    def __torch_dispatch__(self, function: Any, types: Any, args: Tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        reads = self.values_of([args, kwargs])
        before = {untyped._cdata for untyped in map(untyped_of, tensors_in([args, kwargs])) if untyped is not None}
        start = time.perf_counter_ns()
        result = called(function, args, kwargs)
        cost = time.perf_counter_ns() - start
        name = function._schema.name
        if self.forward:
            self.names.append(name)
        written = untouched(Recorder.written_by(function._schema, args, kwargs), name)
        fresh = [tensor for tensor in tensors_in([result])
                 if untyped_of(tensor) is not None and untyped_of(tensor)._cdata not in before]
        scratch = scratch_of(name, args, result)
        self.note(Node(self.count, name, cost, scratch, self.forward), reads, written, fresh, result)
        self.count += 1
        return result

    def note(self, node: Node, reads: List[int], written: Any, fresh: List[Any], result: Any) -> None:
        changed = [self.live[key][1] for key in written if key in self.live]
        if not fresh and len(written) == 1 and changed and (self.finishes(changed[0]) or self.absorbs(changed[0])):
            self.finish(node, changed[0], reads)
            return
        if not fresh and not written and next(tensors_in([result]), None) is not None:
            return  # a view
        if written:
            node.repeats = False
        for value in changed:
            self.pin(value)
        node.reads(reads)
        self.nodes.append(node)
        for value in node.inputs:
            self.readers[value].append(node)
        self.add(node, fresh)

    def add(self, node: Node, fresh: List[Any]) -> None:
        seen: Dict[int, int] = {}
        for place, tensor in enumerate(fresh):
            untyped = untyped_of(tensor)
            if untyped._cdata in seen:
                continue
            seen[untyped._cdata] = value = len(self.bytes)
            gone = self.live.get(untyped._cdata)
            if gone is not None:
                gone[0].forget()
            self.live[untyped._cdata] = Storage(untyped, ""), value
            self.bytes.append(untyped.nbytes())
            self.maker.append(node)
            self.readers.append([])
            node.outputs.append(value)
            self.made.setdefault(node.ops[0], []).append((place, value))

    def finishes(self, value: int) -> bool:
        """Whether neither the value nor other results of its maker have readers yet."""
        return not any(self.readers[other] for other in self.maker[value].outputs)

    def absorbs(self, value: int) -> bool:
        """If all readers of the value made results without readers so far (autograd's copy of the input of ReLU6), they
        join its maker, and the group is recomputed together, in order. Returns whether they joined."""
        maker = self.maker[value]
        readers = {id(node): node for other in maker.outputs for node in self.readers[other]}.values()
        nodes = sorted(readers, key=lambda node: node.ops[0])
        fresh = all(node.repeats and not any(self.readers[other] for other in node.outputs) for node in nodes)
        if not self.forward or not maker.repeats or not fresh:
            return False
        for node in nodes:
            maker.ops, maker.cost = sorted(maker.ops + node.ops), maker.cost + node.cost
            maker.scratch = max(maker.scratch, node.scratch)
            maker.reads(node.inputs)
            for other in node.inputs:
                self.readers[other] = [reader for reader in self.readers[other] if reader is not node]
                if other in maker.inputs and maker not in self.readers[other]:
                    self.readers[other].append(maker)
            maker.outputs += node.outputs
            for other in node.outputs:
                self.maker[other] = maker
            self.nodes.remove(node)
        return True

    def finish(self, node: Node, value: int, reads: List[int]) -> None:
        maker = self.maker[value]
        maker.ops += node.ops
        maker.cost += node.cost
        maker.reads(reads)
        for other in reads:
            if other != value and maker not in self.readers[other]:
                self.readers[other].append(maker)

    def pin(self, value: int) -> None:
        """Marks a value that is written after it was read: neither it nor its readers can be recomputed."""
        self.maker[value].repeats = False
        for reader in self.readers[value]:
            reader.repeats = False

    # --- tensors saved by autograd ---

    def pack(self, tensor: Any) -> Any:
        return self.value_of(tensor), bare(tensor)

    def unpack(self, packed: Any) -> Any:
        self.unpacked.append((self.count, packed[0]))
        return packed[1]

    def end_forward(self) -> None:
        self.forward, self.forward_values = False, len(self.bytes)

    def pack_of_loss(self, tensor: Any) -> Any:
        self.saved.add(self.value_of(tensor))
        return bare(tensor)

    def end(self) -> None:
        self.nodes.sort(key=lambda node: node.ops[-1])
        for storage, _ in self.live.values():
            storage.forget()
        self.live.clear()

    def problem(self, outside: List[int], ends: List[int], of: str) -> Any:
        """The problem for tenure.fit. outside: values whose bytes do not count; ends: values that are live at the end. of:
        "saved" counts only values of the forward pass and those saved by the loss, without gradients and scratch memory."""
        def counts(value: int) -> bool:
            return value not in outside and (of == "all" or value < self.forward_values or value in self.saved)

        values = [{"bytes": size if counts(value) else 0, "kept": value in ends}
                  for value, size in enumerate(self.bytes)]
        operators = [{"name": node.name, "cost": node.cost, "inputs": node.inputs, "outputs": node.outputs,
                      "scratch": node.scratch if of == "all" else 0, "repeats": node.repeats} for node in self.nodes]
        return {"values": values, "operators": operators}
