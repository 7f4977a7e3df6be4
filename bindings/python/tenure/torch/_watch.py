"""tenure.torch.watch: the present holders of the memory of eager PyTorch, by line, module and category.

Operators are seen below autograd (TorchDispatchMode); each storage that one returns is counted until nothing refers to it.
Hooks for all modules record which of them runs; a module has no hooks of its own, so it can be copied, pickled and compiled as
before. PyTorch does not report released storages. They are looked for when the count
would exceed the peak of the step, so that they do not raise it; when the last look is a while ago; and when the table is
read.

Not counted: memory inside an operator (workspace), storages of sparse tensors, and tensors that other threads compute.
"""
import functools
import os
import sys
import time
import types
import weakref
from typing import Any, Dict, Iterator, List, Optional, Tuple, Type

import torch
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.utils._python_dispatch import TorchDispatchMode

import tenure
from tenure._watch import Table, Watch
from tenure.record import Storage, tensors_in, untyped_of

LOOK_S = 0.05  # released storages are looked for at least this often, if operators run
OURS = (os.path.dirname(os.path.abspath(torch.__file__)) + os.sep, os.path.dirname(os.path.abspath(tenure.__file__)) + os.sep)


def line_of_program() -> Tuple[str, bool]:
    """The innermost line of the program outside of torch and this package, and whether it called a backward pass of torch."""
    frame: Any = sys._getframe(1)
    backward = False
    while frame is not None and (frame.f_code.co_filename.startswith(OURS) or frame.f_code.co_filename.startswith("<")):
        backward = backward or frame.f_code.co_name in ("backward", "grad") and frame.f_globals.get("__name__") == "torch.autograd"
        frame = frame.f_back
    return "" if frame is None else "%s:%d" % (os.path.basename(frame.f_code.co_filename), frame.f_lineno), backward


class Watching(TorchDispatchMode):
    """What tenure.torch.watch returns; a context manager. Printing it shows the table.

    module, optimizer   as given to watch
    """

    def __init__(self, module: torch.nn.Module, optimizer: Optional[Any], source: str) -> None:
        super().__init__()
        self.module, self.optimizer, self.source = module, optimizer, source
        self._watch: Optional[Watch] = None
        self._live: Dict[int, Storage] = {}
        self._labels: Dict[int, Tuple[str, str, str]] = {}  # (line, module, category)
        self._owners = {id(parameter): self._owner(name) for name, parameter in module.named_parameters()}
        self._parts: Dict[int, Tuple[Any, str]] = {}  # the modules: a weak reference and the name
        self._running: List[Tuple[Any, str]] = []  # the modules in their forward, the outermost first
        self._hooks: List[Any] = []
        self._step: Any = None  # the optimizer's step, while it is watched
        self._own_step: Any = None  # what the optimizer itself had in its place, or None
        self._next_look = 0.0

    def _owner(self, name: str) -> str:
        """The name of the module that has this parameter or buffer."""
        return name.rpartition(".")[0] or type(self.module).__name__

    # --- the table ---

    def table(self) -> Table:
        """The holders now."""
        self.look()
        return self._opened().table()

    def step(self) -> None:
        """Begins a step. With an optimizer, its `step` calls this."""
        self.look()
        self._opened().step()

    def __str__(self) -> str:
        return str(self.table())

    def _opened(self) -> Watch:
        if self._watch is None:
            raise RuntimeError("the watch is not running; use it in a `with` statement")
        return self._watch

    # --- begin and end ---

    def __enter__(self) -> "Watching":
        self._watch = Watch(self.source)
        try:
            self._name_modules()
            self._hooks.append(register_module_forward_pre_hook(self._enter_module))
            self._hooks.append(register_module_forward_hook(self._leave_module))
            self.look()
            self._watch.step()
            if self.optimizer is not None:
                self._wrap_step()
            super().__enter__()
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], value: Optional[BaseException],
                 trace: Optional[types.TracebackType]) -> None:
        super().__exit__(kind, value, trace)
        self._close()

    def _close(self) -> None:
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()
        if self.optimizer is not None and self._step is not None and self.optimizer.__dict__.get("step") == self._step:
            self.optimizer.__dict__.pop("step")  # a later wrapper, such as that of a scheduler, remains and calls this one
            if self._own_step is not None:
                self.optimizer.step = self._own_step
        self._step = self._own_step = None
        for storage in self._live.values():
            storage.forget()
        self._live.clear()
        self._labels.clear()
        self._running.clear()
        if self._watch is not None:
            self._watch.close()
        self._watch = None

    def _wrap_step(self) -> None:
        """Makes the optimizer's `step` begin a step of the table at its end. It remains a method of the optimizer, which a
        scheduler expects."""
        optimizer: Any = self.optimizer
        before = optimizer.step
        self._own_step = optimizer.__dict__.get("step")

        @functools.wraps(before)
        def step(_: Any, *args: Any, **kwargs: Any) -> Any:
            result = before(*args, **kwargs)
            if self._watch is not None:
                self.step()
            return result
        self._step = optimizer.step = types.MethodType(step, optimizer)

    def _name_modules(self) -> None:
        self._parts = {id(part): (weakref.ref(part), name or type(self.module).__name__)
                       for name, part in self.module.named_modules()}

    def _enter_module(self, part: Any, inputs: Any) -> None:
        if part is self.module:
            self._running.clear()  # a forward that raised did not leave
            self._name_modules()  # parts may have been added or replaced
            for tensor in tensors_in(list(inputs)):
                untyped = untyped_of(tensor)
                if untyped is not None and self._labels.get(untyped._cdata, ("", "", "other"))[2] == "other":
                    self._note(untyped, self._labels.get(untyped._cdata, ("",))[0], "", "input")
        known, name = self._parts.get(id(part), (None, ""))
        if known is not None and known() is part:
            self._running.append((part, name))

    def _leave_module(self, part: Any, inputs: Any, output: Any) -> None:
        for at in reversed(range(len(self._running))):
            if self._running[at][0] is part:
                del self._running[at:]
                break

    # --- storages ---

    def _note(self, untyped: Any, line: str, module: str, category: str) -> None:
        """Counts a storage, or gives it another label; a resized one is counted anew."""
        key, label, watch = untyped._cdata, (line, module, category), self._opened()
        if key not in self._live:
            self._live[key] = Storage(untyped, "")
        if watch.size_of(key) != untyped.nbytes():
            watch.hold(key, untyped.nbytes(), line=line, module=module, category=category)
        elif self._labels.get(key) != label:
            watch.label(key, line=line, module=module, category=category)
        self._labels[key] = label

    def _known(self) -> Iterator[Tuple[Any, str, str]]:
        """The tensors with a known purpose, each with its module and category."""
        for name, parameter in self.module.named_parameters():
            yield parameter, self._owner(name), "parameter"
            if parameter.grad is not None:
                yield parameter.grad, self._owner(name), "gradient"
        for name, buffer in self.module.named_buffers():
            yield buffer, self._owner(name), "buffer"
        for parameter, states in getattr(self.optimizer, "state", {}).items():
            for tensor in tensors_in(states):
                yield tensor, self._owners.get(id(parameter), ""), "optimizer_state"

    def _sweep(self) -> None:
        watch = self._opened()
        for key in [key for key, storage in self._live.items() if storage.is_gone()]:
            watch.release(key)
            self._live.pop(key).forget()
            del self._labels[key]
        self._next_look = time.monotonic() + LOOK_S

    def look(self) -> None:
        """Finds released storages, and the tensors with a known purpose."""
        self._sweep()
        seen = set()  # of parameters that share memory, the first one counts
        for tensor, module, category in self._known():
            untyped = untyped_of(tensor)
            if untyped is None or untyped._cdata in seen:
                continue
            seen.add(untyped._cdata)
            self._note(untyped, self._labels.get(untyped._cdata, ("",))[0], module, category)

    def _category(self, backward: bool) -> str:
        if self._running and torch.is_grad_enabled():  # in a recomputed forward pass, too
            return "activation"
        task = getattr(torch._C, "_current_graph_task_id", None)  # PyTorch 2, where other threads may run the backward pass
        return "gradient" if (backward if task is None else task() != -1) else "other"

    def __torch_dispatch__(self, function: Any, types: Any, args: Tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        if self._watch is None or getattr(function, "namespace", "") == "profiler":  # that returns handles, not memory
            return result
        fresh = {}
        for tensor in tensors_in([result]):
            untyped = untyped_of(tensor)
            if untyped is not None and self._watch.size_of(untyped._cdata) != untyped.nbytes():
                fresh[untyped._cdata] = untyped
        more = sum(untyped.nbytes() - (self._watch.size_of(key) or 0) for key, untyped in fresh.items())
        if time.monotonic() > self._next_look:
            self.look()
        elif self._watch.bytes + more > self._watch.step_peak:
            self._sweep()
        if fresh:
            line, backward = line_of_program()
            module, category = self._running[-1][1] if self._running else "", self._category(backward)
            for untyped in fresh.values():
                self._note(untyped, line, module, category)
        return result


def watch(module: torch.nn.Module, optimizer: Optional[Any] = None, *, source: str = "torch") -> Watching:
    """Watches the holders of memory while a module trains: print them here, or in another terminal by `tenure watch PID`.

    >>> with tenure.torch.watch(model, optimizer) as watch:
    ...     for images, labels in batches:
    ...         loss_of(model(images), labels).backward()
    ...         optimizer.step()           # ends a step of the table
    ...         optimizer.zero_grad()
    ...         print(watch.table().by("category"))

    module     its parameters, buffers and gradients, and the tensors that its forward makes, have the names of its parts
    optimizer  a torch optimizer: its state is named, and each call of its `step` ends a step. None: call watch.step()
    source     name of the table

    Categories: parameter, buffer, gradient, optimizer_state, input (a positional argument of the module), activation (made
    in a forward pass that records gradients), other. The line of a tensor is the innermost line of the program outside of torch.

    Errors: tenure.Error if the table cannot be published (Linux only).
    """
    if not isinstance(module, torch.nn.Module):
        raise TypeError("module: a torch.nn.Module, not %s" % type(module).__name__)
    if optimizer is not None and not hasattr(optimizer, "step"):
        raise TypeError("optimizer: a torch optimizer, not %s" % type(optimizer).__name__)
    return Watching(module, optimizer, source)
