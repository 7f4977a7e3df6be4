"""A stand-in for PyTorch, of the parts that tenure.torch.watch uses: storages with weak references, a dispatch mode, modules
with hooks, an optimizer. It computes nothing. Importing it puts it in the place of `torch` in sys.modules.

It shows that the accounting follows these rules, not that PyTorch has them.
"""
import itertools
import sys
import types
import weakref

numbers = itertools.count(1)
modes = []  # the innermost last
state = types.SimpleNamespace(grad=True, task=-1)


class Memory:
    def __init__(self, size):
        self.size, self.number = size, next(numbers)


class Untyped:
    def __init__(self, memory):
        self.memory, self._cdata = memory, memory.number

    def nbytes(self):
        return self.memory.size

    def _weak_ref(self):
        return weakref.ref(self.memory)

    @classmethod
    def _expired(cls, weak):
        return weak() is None

    @classmethod
    def _free_weak_ref(cls, weak):
        pass


class Tensor:
    def __init__(self, memory):
        self.memory, self.grad = memory, None

    def untyped_storage(self):
        return Untyped(self.memory)


class Parameter(Tensor):
    pass


class TorchDispatchMode:
    def __enter__(self):
        modes.append(self)
        return self

    def __exit__(self, *_):
        assert modes.pop() is self


def operator(*args, size=0, view=False):
    """Runs an operator: a new tensor of `size` bytes, or a view of the first argument."""
    function = lambda *given, **_: Tensor(given[0].memory) if view else Tensor(Memory(size))  # noqa: E731
    if not modes:
        return function(*args)
    mode = modes.pop()  # not seen by what the mode itself calls
    try:
        return mode.__torch_dispatch__(function, (), args, {})
    finally:
        modes.append(mode)


class Hook:
    def __init__(self, hooks, function):
        self.hooks, self.function = hooks, function
        hooks.append(function)

    def remove(self):
        self.hooks.remove(self.function)


before, after = [], []  # hooks for all modules


class Module:
    def __init__(self):
        self.own, self.extra, self.parts = {}, {}, {}

    def named_modules(self, prefix=""):
        yield prefix, self
        for name, part in self.parts.items():
            yield from part.named_modules(prefix + "." + name if prefix else name)

    def _named(self, table):
        for prefix, part in self.named_modules():
            for name, tensor in getattr(part, table).items():
                yield prefix + "." + name if prefix else name, tensor

    def named_parameters(self):
        return self._named("own")

    def named_buffers(self):
        return self._named("extra")

    def __call__(self, *inputs):
        for hook in before:
            hook(self, inputs)
        output = self.forward(*inputs)
        for hook in after:
            hook(self, inputs, output)
        return output


torch = types.ModuleType("torch")
torch.__file__ = __file__  # so that its frames are those of torch
torch.Tensor, torch.operator = Tensor, operator
torch.nn = types.SimpleNamespace(Module=Module, Parameter=Parameter)
torch.is_grad_enabled = lambda: state.grad
torch._C = types.SimpleNamespace(_current_graph_task_id=lambda: state.task)
sys.modules["torch"] = torch
for name in ("torch.utils", "torch.utils._python_dispatch", "torch.nn", "torch.nn.modules", "torch.nn.modules.module"):
    sys.modules[name] = types.ModuleType(name)
hooks = sys.modules["torch.nn.modules.module"]
hooks.register_module_forward_pre_hook = lambda function: Hook(before, function)
hooks.register_module_forward_hook = lambda function: Hook(after, function)
sys.modules["torch.utils._python_dispatch"].TorchDispatchMode = TorchDispatchMode
