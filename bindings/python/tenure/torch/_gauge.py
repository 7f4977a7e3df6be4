"""Measures the bytes that a step holds: every storage it makes, from creation to release, and temporary copies made by
convolutions."""
from typing import Any, Dict, List, Set, Tuple

from torch.utils._python_dispatch import TorchDispatchMode

from tenure.record import Storage, tensors_in, untyped_of
from tenure.torch._recording import bare, called
from tenure.torch._scratch import scratch_of


class Gauge(TorchDispatchMode):
    """Counts the storages that operators make, without those of `outside`, which existed before. Also counts the part that
    is saved for the backward pass, from the call of `save` on."""

    def __init__(self, outside: Any) -> None:
        super().__init__()
        self.outside = {untyped_of(tensor)._cdata for tensor in outside if untyped_of(tensor) is not None}
        self.live: Dict[int, Tuple[Storage, int]] = {}
        self.events: List[Tuple[int, int]] = []  # (number of the storage, change in bytes)
        self.saved: Set[int] = set()
        self.saved_now = self.saved_peak = self.count = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        self.sweep()
        result = called(function, args, kwargs or {})
        for tensor in tensors_in([result]):
            untyped = untyped_of(tensor)
            if untyped is None or untyped._cdata in self.live or untyped._cdata in self.outside:
                continue
            self.count += 1
            self.live[untyped._cdata] = Storage(untyped, str(self.count)), untyped.nbytes()
            self.events.append((self.count, untyped.nbytes()))
        scratch = scratch_of(function._schema.name, args, result)
        self.events += [(0, scratch), (0, -scratch)]
        return result

    def sweep(self) -> None:
        for key in [key for key, (storage, _) in self.live.items() if storage.is_gone()]:
            storage, size = self.live.pop(key)
            self.events.append((int(storage.root), -size))
            if int(storage.root) in self.saved:
                self.saved_now -= size
            storage.forget()

    def save(self, tensor: Any) -> Any:
        """Notes a tensor that autograd or a plan holds for the backward pass; returns it detached from its history."""
        self.sweep()
        untyped = untyped_of(tensor)
        storage, size = self.live.get(untyped._cdata, (None, 0)) if untyped is not None else (None, 0)
        if storage is not None and int(storage.root) not in self.saved:
            self.saved.add(int(storage.root))
            self.saved_now += size
            self.saved_peak = max(self.saved_peak, self.saved_now)
        return bare(tensor)

    def peak(self, but: Any) -> int:
        """The peak, without these tensors (gradients of parameters, which stay)."""
        others = {int(self.live[untyped_of(tensor)._cdata][0].root) for tensor in but
                  if untyped_of(tensor) is not None and untyped_of(tensor)._cdata in self.live}
        held = most = 0
        for who, size in self.events:
            held += 0 if who in others else size
            most = max(most, held)
        return most
