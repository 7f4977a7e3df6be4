"""examples/pytorch/cuda.py with a stand-in of PyTorch, which loads and calls the allocator as PyTorch 2 does: its functions by
name, hooks by address, every tensor a request on the current stream.

    stub.py LIBRARY STANDIN EXAMPLE
"""
import ctypes
import os
import runpy
import sys
import types

library, standin, example = sys.argv[1:4]
calls = []


class Hooks:
    """What torch._C._cuda_customAllocator returns: addresses become functions."""

    def set_record_stream_fn(self, address):
        self.record_stream = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(address)

    def set_reset_fn(self, address):
        self.reset = ctypes.CFUNCTYPE(None)(address)


class Pluggable:
    def __init__(self, path, alloc, free):
        loaded = ctypes.CDLL(path)
        self.alloc = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p)(
            ctypes.cast(getattr(loaded, alloc), ctypes.c_void_p).value)
        self.free = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p)(
            ctypes.cast(getattr(loaded, free), ctypes.c_void_p).value)
        self.hooks = Hooks()

    def allocator(self):
        return self.hooks


def change(allocator):
    calls.append(allocator)


memory = types.SimpleNamespace(CUDAPluggableAllocator=Pluggable, change_current_allocator=change)
torch = types.ModuleType("torch")
torch.cuda = types.SimpleNamespace(memory=memory, is_available=lambda: True)
sys.modules["torch"] = torch
os.environ.update(TENURE_CUDART=standin, TENURE_BUDGET="8MiB", TENURE_POOL="best-fit")

runpy.run_path(example)["use_pool"](library)
assert len(calls) == 1
runtime, used, hooks = ctypes.CDLL(standin), calls[0], calls[0].hooks
streams = [ctypes.c_void_p() for _ in range(2)]
for stream in streams:
    assert runtime.cudaStreamCreateWithFlags(ctypes.byref(stream), 1) == 0
waits = runtime.standin_calls
waits.restype = ctypes.c_uint64
block = used.alloc(5 << 20, 0, streams[0])
hooks.record_stream(block, streams[1])
used.free(block, 5 << 20, 0, streams[0])
assert used.alloc(5 << 20, 0, streams[0]) == block
assert waits(b"cudaStreamWaitEvent") == 1, "the stream that the tensor was recorded for is waited for"
hooks.reset()
torch.cuda.is_available = lambda: False
try:
    runpy.run_path(example)["main"]()
    sys.exit("no CUDA, and it goes on")
except SystemExit as end:
    assert "no CUDA device" in str(end), end
