"""Where saved tensors are stored until they are needed: off the device, or packed into fewer bytes. Both are lossless."""
import ctypes
import os
import tempfile
import time
from typing import Any, Dict, List, Optional, Tuple

import torch

from tenure.record import untyped_of
from tenure.torch._recording import without_modes

MEASURED = 8 << 20  # bytes
BITS = 8


class Host:
    """The host's memory, for tensors of another device."""

    def put(self, whole: Any) -> Any:
        return whole.device, whole.to("cpu")

    def get(self, put: Any) -> Any:
        return put[1].to(put[0])


class Place:
    """A range of bytes in the file; freed when the last reference to it is gone."""

    def __init__(self, store: "Folder", at: int, whole: Any) -> None:
        self.store, self.at, self.size = store, at, untyped_of(whole).nbytes()
        self.dtype, self.device, self.count = whole.dtype, whole.device, whole.numel()
        store.live += 1

    def __del__(self) -> None:
        self.store.free.setdefault(self.size, []).append(self.at)
        self.store.live -= 1


class Folder:
    """A temporary file without a name in a folder: it disappears with the process, however that ends."""

    def __init__(self, folder: str) -> None:
        self.file, self.end, self.live = tempfile.TemporaryFile(dir=folder), 0, 0
        self.free: Dict[int, List[int]] = {}  # by size

    def put(self, whole: Any) -> Place:
        if self.live == 0:  # a new step, with tensors of possibly other sizes
            self.end = 0
            self.free.clear()
        known = self.free.get(untyped_of(whole).nbytes())
        place = Place(self, known.pop() if known else self.end, whole)
        self.end = max(self.end, place.at + place.size)
        self.move(os.pwrite, place, whole.to("cpu"))
        return place

    def get(self, place: Place) -> Any:
        whole = torch.empty(place.count, dtype=place.dtype)
        self.move(lambda file, part, at: os.preadv(file, [part], at), place, whole)
        return whole.to(place.device)

    def move(self, call: Any, place: Place, whole: Any) -> None:
        """Moves all bytes; one system call may move only a part."""
        if place.size == 0:
            return
        part, done = memoryview((ctypes.c_char * place.size).from_address(whole.data_ptr())).cast("B"), 0
        while done < place.size:
            moved = call(self.file.fileno(), part[done:], place.at + done)
            if moved == 0:
                raise OSError("the file of offloaded tensors ends early")
            done += moved


def store_of(offload: str, tensors: Any) -> Any:
    """The store for `offload`: "cpu", or a folder. Raises TypeError, ValueError, OSError."""
    if offload != "cpu":
        return Folder(os.fspath(offload))
    if all(tensor.device.type == "cpu" for tensor in tensors):
        raise ValueError('offload: the module is in host memory already; name a folder instead of "cpu"')
    return Host()


def speed_of(store: Any, device: Any) -> float:
    """Bytes per second, in the slower direction."""
    whole, took = torch.zeros(MEASURED, dtype=torch.uint8, device=device), 0.0
    for _ in range(2):  # the first round is not counted: the file grows
        begin = time.perf_counter()
        put = store.put(whole)
        middle = time.perf_counter()
        store.get(put)
        took = max(middle - begin, time.perf_counter() - middle)
        del put
    return MEASURED / max(took, 1e-9)


# --- packing ---

class Packed:
    """Booleans as bits, or 64-bit integers in 32 bits."""

    def __init__(self, tensor: Any, fewer: Any) -> None:
        self.dtype, self.shape, self.fewer = tensor.dtype, tensor.shape, fewer

    def unpack(self) -> Any:
        if self.dtype == torch.int64:
            return self.fewer.to(torch.int64)
        count = self.shape.numel()
        whole = torch.empty(BITS * self.fewer.numel(), dtype=torch.uint8, device=self.fewer.device)
        for bit in range(BITS):
            whole[bit::BITS] = (self.fewer >> bit) & 1
        return whole[:count].view(torch.bool).view(self.shape)


def in_bits(tensor: Any) -> Any:
    flat = tensor.reshape(-1).view(torch.uint8)
    fewer = torch.zeros((flat.numel() + BITS - 1) // BITS, dtype=torch.uint8, device=flat.device)
    for bit in range(BITS):
        part = flat[bit::BITS]
        fewer[:part.numel()] |= part << bit
    return fewer


def packed(tensor: Any) -> Optional[Packed]:
    """The packed tensor; None: it cannot be packed."""
    if type(tensor) is not torch.Tensor or not tensor.is_contiguous() or tensor.numel() < BITS:
        return None
    if untyped_of(tensor).nbytes() != tensor.numel() * tensor.element_size():
        return None  # a part of a storage that would stay whole
    if tensor.dtype == torch.bool:
        return Packed(tensor, in_bits(tensor))
    if tensor.dtype == torch.int64:
        fewer = tensor.to(torch.int32)
        return Packed(tensor, fewer) if bool((fewer == tensor).all()) else None
    return None


def put_away(store: Any, whole: Any) -> Tuple[Any, Any]:
    """The store and its handle of a tensor. Bypasses all modes: memory elsewhere is not counted here."""
    return store, without_modes(store.put, whole)
