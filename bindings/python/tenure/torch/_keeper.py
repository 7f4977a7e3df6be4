"""Runs a module's forward pass by a plan: dropped tensors are recomputed when autograd asks for them.

Operators are counted as in the recording of the plan. For operators that will run again, the call is recorded below
autograd; its inputs are held, or named if they are dropped too. When autograd unpacks a dropped tensor, the calls that
lead to it run again, in their order and on the same numbers, so the result is the same bit for bit. Other results on the
way stay as long as the plan says. Tensors that the plan swaps are stored away when they are first saved, and fetched when
they are needed. If a forward pass differs from the recorded one, it continues without the plan. A retained graph can be
walked again.
"""
import weakref
from typing import Any, Callable, Dict, List, Optional, Set, Tuple

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from tenure.record import HIDDEN_WRITES, Recorder, Storage, tensors_in, untyped_of
from tenure.torch._away import Packed, packed, put_away
from tenure.torch._recording import bare, called, draws, without_modes

Shape = Tuple[Any, Any, Any]


class Choice:
    """A plan, in the terms of a recording.

    names    of the operators of the forward pass
    groups   operator that runs again -> the first operator of its group
    made     operator -> (index of the storage among its results, value), for all operators
    holds    dropped value -> [(from, to)], when it is live, in positions of the program
    events   for each unpacking: its position in the program, and its value
    away     values that are moved to `store` meanwhile; they are dropped too
    packs    whether other saved tensors are packed into fewer bytes if possible
    """

    def __init__(self, names: List[str], groups: Dict[int, int], made: Dict[int, List[Tuple[int, int]]],
                 holds: Dict[int, List[Tuple[int, int]]], events: List[Tuple[int, Optional[int]]],
                 away: Any = frozenset(), store: Any = None, packs: bool = False) -> None:
        self.names, self.groups, self.made, self.holds, self.events = names, groups, made, holds, events
        self.away, self.store, self.packs = away, store, packs
        self.watch: Callable[[Any], Any] = bare  # called with each tensor that is held for the backward pass


class Value:
    """Memory that may be dropped and restored: `whole` is a tensor over all of it, or None."""

    def __init__(self, number: int) -> None:
        self.number, self.waiting = number, 0
        self.whole: Any = None
        self.group: Optional[Group] = None
        self.away: Any = None  # (store, its handle)
        self.is_written = False  # it was written since it was moved to the store


class View:
    """A tensor in a value. Calls of the value's own group refer to it by number only: a cycle of references would keep
    memory until garbage collection."""

    def __init__(self, value: Value, tensor: Any, own: bool = False) -> None:
        self.number, self.value = value.number, None if own else value
        self.offset = tensor.storage_offset()
        self.dtype, self.shape, self.stride = tensor.dtype, tensor.shape, tensor.stride()

    def of(self, whole: Any) -> Any:
        if whole.dtype != self.dtype:
            whole = whole.view(self.dtype)
        return whole.as_strided(self.shape, self.stride, self.offset)


class Held(View):
    """Autograd's handle of a value that may be dropped."""

    def __init__(self, value: Value, tensor: Any, step: "Step") -> None:
        super().__init__(value, tensor)
        self.held, self.step = value, step
        value.waiting += 1

    def __del__(self) -> None:
        self.held.waiting -= 1
        if self.held.waiting == 0 and self.step.lost:
            self.held.whole = None


class Call:
    """An operator call that can be repeated."""

    def __init__(self, function: Any, args: Any, kwargs: Any) -> None:
        self.function, self.args, self.kwargs = function, args, kwargs
        self.outputs: List[Tuple[int, int]] = []  # (index among the results, value)
        self.random = without_modes(random_state) if draws(function._schema.name) else None

    def run(self, there: Dict[int, Any]) -> None:
        args, kwargs = filled(self.args, there), filled(self.kwargs, there)
        if self.function._schema.name in HIDDEN_WRITES and args[5]:
            args = args[:3] + (None, None) + args[5:]
        if self.random is not None:
            now = random_state()
            set_random_state(self.random)
        try:
            result = list(tensors_in([self.function(*args, **kwargs)]))
        finally:
            if self.random is not None:
                set_random_state(now)
        for place, number in self.outputs:
            there[number] = flat(result[place])


class Group:
    """Calls that make values, and those that finish them in place."""

    def __init__(self, first: int) -> None:
        self.first = self.last = first
        self.calls: List[Call] = []
        self.reads: Set[Value] = set()
        self.makes: Dict[int, Any] = {}  # value -> a weak reference to it


def random_state() -> Any:
    return torch.get_rng_state(), torch.cuda.get_rng_state() if torch.cuda.is_initialized() else None


def set_random_state(state: Any) -> None:
    torch.set_rng_state(state[0])
    if state[1] is not None:
        torch.cuda.set_rng_state(state[1])


def flat(tensor: Any) -> Any:
    """A tensor over the whole storage of this one."""
    size = untyped_of(tensor).nbytes() // tensor.element_size()
    return tensor.as_strided((size,), (1,), 0)


def filled(template: Any, there: Dict[int, Any]) -> Any:
    if isinstance(template, View):
        return template.of(there[template.number])
    if isinstance(template, (list, tuple)):
        return type(template)(filled(item, there) for item in template)
    if isinstance(template, dict):
        return {key: filled(item, there) for key, item in template.items()}
    return template


class Step(TorchDispatchMode):
    """One forward pass, and its backward pass."""

    def __init__(self, choice: Choice) -> None:
        super().__init__()
        self.choice, self.at, self.event, self.lost = choice, 0, 0, False
        self.known: Dict[int, Tuple[Storage, Value]] = {}
        self.groups: Dict[int, Group] = {}
        self.kept: List[Tuple[int, Value]] = []  # (last position at which it is needed, value)
        self.made: Set[int] = set()  # storages made in this step, if `packs`
        self.packing = False

    # --- forward ---

    def __torch_dispatch__(self, function: Any, types: Any, args: Tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self.packing:
            return called(function, args, kwargs)
        at, self.at = self.at, self.at + 1
        names = self.choice.names
        self.lost = self.lost or at >= len(names) or names[at] != function._schema.name
        first = None if self.lost else self.choice.groups.get(at)
        call = None if first is None else self.note(at, first, function, args, kwargs)
        result = called(function, args, kwargs)
        if self.choice.away:
            self.see_written(Recorder.written_by(function._schema, args, kwargs))
        if self.choice.packs:
            self.made.update(untyped._cdata for untyped in map(untyped_of, tensors_in([result])) if untyped is not None)
        if not self.lost:
            self.register(at, result, before_of(args, kwargs) if at in self.choice.made else None, call, first)
        return result

    def note(self, at: int, first: int, function: Any, args: Any, kwargs: Any) -> Call:
        group = self.groups.setdefault(first, Group(first))
        group.last = at
        call = Call(function, self.template(args, group), self.template(kwargs, group))
        group.calls.append(call)
        return call

    def template(self, value: Any, group: Group) -> Any:
        if isinstance(value, torch.Tensor):
            known = self.value_of(value)
            if known is None:
                return self.choice.watch(value)
            if known.group is not group:
                group.reads.add(known)
                self.put(known, value)
            return View(known, value, known.group is group)
        if isinstance(value, (list, tuple)):
            return type(value)(self.template(item, group) for item in value)
        if isinstance(value, dict):
            return {key: self.template(item, group) for key, item in value.items()}
        return value

    def register(self, at: int, result: Any, before: Any, call: Optional[Call], first: Optional[int]) -> None:
        """Registers dropped values, and all results of a group, since a later call may finish them in place."""
        if before is None:
            return
        everything = list(tensors_in([result]))
        fresh = [(place, tensor) for place, tensor in enumerate(everything)
                 if untyped_of(tensor) is not None and untyped_of(tensor)._cdata not in before]
        for index, number in self.choice.made[at]:
            if index >= len(fresh) or (first is None and number not in self.choice.away):
                continue
            place, tensor = fresh[index]
            value = Value(number)
            if first is not None:
                value.group = self.groups[first]
                value.group.makes[number] = weakref.ref(value)
            if call is not None:
                call.outputs.append((place, number))
            untyped = untyped_of(tensor)
            self.known[untyped._cdata] = Storage(untyped, ""), value
            self.hold(value, tensor)

    def hold(self, value: Value, tensor: Any) -> None:
        """Keeps a value that the backward pass needs before it is dropped for the first time."""
        last = self.choice.holds.get(value.number, [(0, -1)])[0][1]
        if self.choice.events and last >= self.choice.events[0][0]:
            value.whole = without_modes(flat, self.choice.watch(tensor))
            self.kept.append((last, value))

    def see_written(self, keys: Any) -> None:
        """Marks stored values that are written. Saved parts keep their old data; saving another part stores it all anew."""
        for key in keys:
            known = self.known.get(key)
            if known is not None:
                known[1].is_written = True

    def put(self, value: Value, tensor: Any) -> None:
        """Stores a value before a tensor of it is saved; again if other parts of it were written since."""
        if value.number in self.choice.away and (value.away is None or value.is_written):
            value.away, value.is_written = put_away(self.choice.store, without_modes(flat, bare(tensor))), False

    def value_of(self, tensor: Any) -> Optional[Value]:
        untyped = untyped_of(tensor)
        known = None if untyped is None else self.known.get(untyped._cdata)
        return None if known is None else known[1]

    def end_forward(self) -> None:
        for storage, _ in self.known.values():
            storage.forget()
        self.known.clear()
        self.groups.clear()
        self.made.clear()

    # --- tensors saved by autograd ---

    def pack(self, tensor: Any) -> Any:
        value = self.value_of(tensor)
        if value is None or value.number not in self.choice.holds:
            return self, self.fewer(tensor)
        self.put(value, tensor)
        return Held(value, tensor, self)

    def fewer(self, tensor: Any) -> Any:
        """Packs a tensor into fewer bytes, if this step made it and it can be packed."""
        untyped = untyped_of(tensor)
        if untyped is None or untyped._cdata not in self.made:
            return self.choice.watch(tensor)
        self.packing = True
        try:
            found = packed(bare(tensor))
        finally:
            self.packing = False
        self.choice.watch(tensor if found is None else found.fewer)
        return bare(tensor) if found is None else found

    def unpack(self, kept: Any) -> Any:
        """Called for every saved tensor, so that unpackings are counted."""
        held = kept if isinstance(kept, Held) else None
        position = self.position(held)
        if held is None:
            return kept[1].unpack() if isinstance(kept[1], Packed) else kept[1]
        whole = held.held.whole
        if whole is None:
            with torch.no_grad():
                whole = self.make(held.held, position)
        with torch.no_grad():
            return held.of(whole)

    def position(self, held: Optional[Held]) -> Optional[int]:
        """The current position in the program, if the backward pass is the recorded one. Drops values no longer needed."""
        events, event = self.choice.events, self.event
        self.event += 1
        if event >= len(events) or (held is not None and events[event][1] != held.number):
            self.lost = True
        if self.lost:
            return None
        position = events[event][0]
        for _, value in (row for row in self.kept if row[0] < position):
            value.whole = None
        self.kept = [row for row in self.kept if row[0] >= position]
        return position

    def fetch(self, value: Value, position: Optional[int]) -> Any:
        whole = value.away[0].get(value.away[1])
        self.choice.watch(whole)
        self.keep(value, whole, position)
        return whole

    def make(self, wanted: Value, position: Optional[int]) -> Any:
        if wanted.away is not None:
            return self.fetch(wanted, position)
        groups = self.needed(wanted)
        numbers = [{value.number for value in group.reads} for group in groups]
        comes = {number for group in groups for number in group.makes}
        comes |= {value.number for group in groups for value in group.reads if value.whole is None}
        left = {number: sum(number in reads for reads in numbers) for number in comes}
        there: Dict[int, Any] = {value.number: value.whole for group in groups for value in group.reads
                                 if value.whole is not None}
        for group in groups:
            for read in group.reads:
                if read.number not in there and read.away is not None:
                    there[read.number] = self.fetch(read, position)
            for call in group.calls:
                call.run(there)
                for _, number in call.outputs:
                    self.choice.watch(there[number])
            for number, reference in group.makes.items():
                value = reference()
                if value is not None:
                    self.keep(value, there[number], position)
            for read in group.reads:
                if read.number in left:
                    left[read.number] -= 1
            for number in [number for number in there if left.get(number, 1) == 0 and number != wanted.number]:
                del there[number]
        return there[wanted.number]

    def needed(self, wanted: Value) -> List[Group]:
        """The groups to run, in the order of the forward pass."""
        found: Dict[int, Group] = {}
        ask = [wanted]
        while ask:
            value = ask.pop()
            if value.whole is not None or value.away is not None:
                continue
            assert value.group is not None
            if value.group.first not in found:
                found[value.group.first] = value.group
                ask += value.group.reads
        return sorted(found.values(), key=lambda group: group.last)

    def keep(self, value: Value, whole: Any, position: Optional[int]) -> None:
        """Keeps a value as long as the plan says; without a position, as long as autograd waits for it."""
        if position is None:
            value.whole = whole if value.waiting else None
            return
        for begin, end in self.choice.holds.get(value.number, ()):
            if begin <= position <= end and end > position and value.whole is None:
                value.whole = whole
                self.kept.append((end, value))


def before_of(args: Any, kwargs: Any) -> Set[int]:
    return {untyped._cdata for untyped in map(untyped_of, tensors_in([args, kwargs])) if untyped is not None}
