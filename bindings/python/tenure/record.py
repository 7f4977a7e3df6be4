"""Records what an unchanged PyTorch program does: operators, bytes, aliases, times, frees.

    python3 -m tenure.record -o run.log train.py --epochs 1
    tenure simulate run.log --policy all --budget 0.5

The log says in what budget the program could have run, by which policy, at what cost (`tenure simulate`,
`tenure fit --problem`); its lines are those of DTR's simulator, with fields of ours that others ignore:
SCRATCH, what an operator took and gave back while it ran; IN_PLACE, that it wrote into what was there;
ONCE, that it cannot run again (what comes from outside of PyTorch). docs/eager.md has the format.

What is seen: every operator below autograd, forward, backward and optimizer, on any device (a
TorchDispatchMode; PyTorch 1.13 and later). What is not: memory that PyTorch does not allocate, and storages of
sparse tensors, which are counted and told. Operators are timed one by one; without a GPU PyTorch's profiler runs
beside them for SCRATCH, which makes small ones look some microseconds longer.
"""
import argparse
import json
import os
import runpy
import sys
import time
from typing import Any, Dict, Set

import torch
from torch.utils._python_dispatch import TorchDispatchMode

# Write statistics that their schemas do not tell: operator -> (arguments, argument that says whether).
HIDDEN_WRITES = {name: ((3, 4), 5) for name in ("aten::native_batch_norm", "aten::cudnn_batch_norm",
                                                "aten::miopen_batch_norm")}


class Stop(BaseException):
    """Enough operators: passes through a program's own handlers."""


class Storage:
    """Memory that tensors share, for as long as anybody holds it."""

    def __init__(self, untyped, name):
        self.untyped_type, self.weak = type(untyped), untyped._weak_ref()
        self.root, self.names, self.views = name, [name], {}
        self.read = set()  # regions that others were computed with

    def is_gone(self):
        return self.untyped_type._expired(self.weak)

    def forget(self):
        self.untyped_type._free_weak_ref(self.weak)


def untyped_of(tensor):
    """The storage without a type, or None: sparse tensors and the like have none of their own."""
    try:
        if hasattr(tensor, "untyped_storage"):
            return tensor.untyped_storage()
        storage = tensor.storage()
        return getattr(storage, "_storage", storage)
    except (NotImplementedError, RuntimeError):
        return None


def tensors_in(value):
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors_in(item)
    elif isinstance(value, dict):
        yield from tensors_in(list(value.values()))


def shape_of(tensor):
    return tensor.dtype, tensor.storage_offset(), tuple(tensor.shape), tuple(tensor.stride())


def region_of(tensor):
    """(first element, largest stride, elements within one such stride, elements in all) of what a view covers."""
    steps = sorted((abs(stride), size - 1) for size, stride in zip(tensor.shape, tensor.stride()) if size > 1)
    within = 1 + sum(stride * size for stride, size in steps[:-1])
    stride, size = steps[-1] if steps else (1, 0)
    return tensor.storage_offset(), stride, within, within + stride * size


def overlap(a, b):
    """Whether two views of a storage may share an element: not where they are columns beside each other."""
    if a[0] + a[3] <= b[0] or b[0] + b[3] <= a[0]:
        return False
    if a[1] != b[1]:
        return True
    left, right = a[0] % a[1], b[0] % b[1]
    if left + a[2] > a[1] or right + b[2] > b[1]:
        return True
    return left < right + b[2] and right < left + a[2]


class Recorder(TorchDispatchMode):
    def __init__(self, limit=None):
        super().__init__()
        self.lines, self.live, self.limit = [], {}, limit
        self.calls, self.spans = [], []  # of each operator: its line; from when to when, in microseconds of the clock
        self.count, self.strange = 0, 0
        self.say(INSTRUCTION="ANNOTATE", ANNOTATION="START")

    def say(self, **fields):
        self.lines.append(fields)
        return fields

    def new_name(self):
        self.count += 1
        return "t%d" % self.count

    # --- storages and names ---

    def find_gone(self):
        gone = [key for key, storage in self.live.items() if storage.is_gone()]
        for key in gone:
            storage = self.live.pop(key)
            for name in storage.names:
                self.say(INSTRUCTION="RELEASE", NAME=name)
            storage.forget()

    def add(self, tensor, untyped):
        storage = self.live[untyped._cdata] = Storage(untyped, self.new_name())
        storage.views[shape_of(tensor)] = storage.root
        return storage

    def name_of(self, tensor):
        """Of an operand; what nobody has seen yet comes from outside. None: it has no storage."""
        untyped = untyped_of(tensor)
        if untyped is None:
            self.strange += 1
            return None
        storage = self.live.get(untyped._cdata)
        if storage is None:
            storage = self.add(tensor, untyped)
            self.say(INSTRUCTION="CALL", NAME="outside", ARGS=[], RESULT=[storage.root], TIME="0", ONCE=1)
            self.say_result(storage.root, untyped.nbytes(), -1)
        return storage.views.get(shape_of(tensor)) or self.say_view(storage, tensor, untyped.nbytes())

    def say_view(self, storage, tensor, size):
        """One that nobody has made as what the storage holds now."""
        name = self.new_name()
        self.say(INSTRUCTION="CALL", NAME="view", ARGS=[storage.root], RESULT=[name], TIME="0")
        self.say_result(name, size, 0)
        storage.views[shape_of(tensor)] = name
        storage.names.append(name)
        return name

    def say_result(self, name, size, alias):
        self.say(INSTRUCTION="MEMORY", NAME=name, MEMORY=str(size))
        self.say(INSTRUCTION="ALIAS", NAME=name, ALIAS=str(alias))

    # --- operators ---

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        self.find_gone()
        operands = [(tensor, self.name_of(tensor)) for tensor in tensors_in([args, kwargs])]
        if self.limit is not None and len(self.calls) >= self.limit:
            raise Stop
        wait = next((tensor for tensor, _ in operands if tensor.is_cuda), None) is not None
        if wait:
            torch.cuda.synchronize()
        start = time.perf_counter_ns()
        began = time.time_ns() // 1000
        result = function(*args, **kwargs)
        if wait:
            torch.cuda.synchronize()
        nanoseconds = time.perf_counter_ns() - start
        self.spans.append((began, time.time_ns() // 1000))
        self.record(function, args, kwargs, operands, result, nanoseconds)
        return result

    def record(self, function, args, kwargs, operands, result, nanoseconds):
        schema = function._schema
        arguments = [name for _, name in operands if name is not None]
        places: Dict[int, int] = {}
        first: Dict[int, Any] = {}  # storage -> its first place among the arguments, and what stands there
        for tensor, name in operands:
            if name is not None:
                places.setdefault(untyped_of(tensor)._cdata, arguments.index(name))
                first.setdefault(untyped_of(tensor)._cdata, tensor)
        written = self.written_by(schema, args, kwargs)
        call = dict(INSTRUCTION="CALL", NAME=schema.name, ARGS=arguments, TIME=str(nanoseconds))
        self.calls.append(call)
        results, untyped_results = [], {}
        for tensor in tensors_in([result]):
            untyped = untyped_of(tensor)
            if untyped is None:
                self.strange += 1
                continue
            storage, alias = self.live.get(untyped._cdata), places.get(untyped._cdata, -1)
            if storage is None:
                storage = self.add(tensor, untyped)
                results.append((storage.root, untyped.nbytes(), -1))
                untyped_results[untyped._cdata] = untyped.nbytes()
            elif alias >= 0 and shape_of(tensor) not in storage.views:  # a view that is new
                name = storage.views[shape_of(tensor)] = self.new_name()
                storage.names.append(name)
                results.append((name, untyped.nbytes(), alias))
        call["fresh"] = sum(untyped_results.values())
        if not results and not written and arguments and not any(True for _ in tensors_in([result])):
            results.append((self.new_name(), 0, -1))  # a number for the program: read, and nothing stays
        if results:
            call["RESULT"] = [name for name, _, _ in results]
            self.lines.append(call)
            for row in results:
                self.say_result(*row)
                if row[1] == 0 and row[2] < 0 and not untyped_results:
                    self.say(INSTRUCTION="RELEASE", NAME=row[0])
        written = {key: place for key, place in places.items() if key in written}
        if schema.name in HIDDEN_WRITES:  # computes without what it writes aside
            aside = [arguments[place] for place in written.values()]
            call["ARGS"] = [name for name in arguments if name not in aside]
        if len(written) == 1 and not results and self.is_unread(first[next(iter(written))]):
            self.note_reads(operands, written)
            key, place = written.popitem()
            self.say_finished(call, key, place, first)
            return
        if written or not all(alias >= 0 for _, _, alias in results):  # views alone read nothing
            self.note_reads(operands, ())
        if written:
            self.say_written(call, arguments, results, list(written.values()))
            for key, place in written.items():
                self.renew(self.live[key], arguments[place], shape_of(first[key]))

    def is_unread(self, tensor):
        region = region_of(tensor)
        return not any(overlap(region, other) for other in self.live[untyped_of(tensor)._cdata].read)

    def note_reads(self, operands, but):
        for tensor, name in operands:
            if name is not None and untyped_of(tensor)._cdata not in but:
                self.live[untyped_of(tensor)._cdata].read.add(region_of(tensor))

    def say_finished(self, call, key, place, first):
        """In place, into what nobody has read yet: a part of making it, which can be done again. A view that takes
        time says just that."""
        name, storage = self.new_name(), self.live[key]
        call["RESULT"] = [name]
        self.lines.append(call)
        self.say_result(name, 0, place)
        storage.names.append(name)
        self.renew(storage, name, shape_of(first[key]))

    def say_written(self, call, arguments, results, places):
        """In place. An operator that also has results wrote aside: the call is pure, and this is not."""
        line = dict(INSTRUCTION="MUTATE", NAME=call["NAME"], ARGS=arguments, MUTATE=places, TIME=call["TIME"], IN_PLACE=1)
        if results:
            line.update(ARGS=[arguments[place] for place in places] + [name for name, _, _ in results[1:]],
                        MUTATE=list(range(len(places))), TIME="0")
        else:
            call["instead"] = line
        self.lines.append(line)

    def renew(self, storage, name, shape):
        """Its contents are others now, and known by this name; views of what was there are gone."""
        for other in storage.names:
            if other != name:
                self.say(INSTRUCTION="RELEASE", NAME=other)
        storage.root, storage.names, storage.views = name, [name], {shape: name}

    @staticmethod
    def written_by(schema, args, kwargs):
        """Storages that the operator writes into."""
        values = list(args) + [None] * (len(schema.arguments) - len(args))
        for place, argument in enumerate(schema.arguments):
            if argument.name in kwargs:
                values[place] = kwargs[argument.name]
        hidden, tells = HIDDEN_WRITES.get(schema.name, ((), None))
        hidden = hidden if tells is not None and values[tells] else ()
        keys: Set[int] = set()
        for place, (argument, value) in enumerate(zip(schema.arguments, values)):
            told = argument.alias_info
            if place in hidden or (told is not None and told.is_write):
                keys.update(untyped._cdata for untyped in map(untyped_of, tensors_in([value]))
                            if untyped is not None)
        return keys


# --- what operators take while they run, from the profiler's memory events ---

def note_scratch(recorder, changes):
    """changes: [(microsecond, bytes)] in order. Adds SCRATCH, and returns the highest sum of bytes."""
    held, sums = 0, []
    for _, size in changes:
        held += size
        sums.append(held)
    at = 0
    for call, (began, ended) in zip(recorder.calls, recorder.spans):
        while at < len(changes) and changes[at][0] < began:
            at += 1
        before, highest = sums[at - 1] if at else 0, 0
        while at < len(changes) and changes[at][0] <= ended:
            highest, at = max(highest, sums[at] - before), at + 1
        if highest > call["fresh"]:
            call.get("instead", call)["SCRATCH"] = str(highest - call["fresh"])
    return max(sums, default=0)


def write_log(path, lines):
    beside = "%s.%d.part" % (path, os.getpid())
    try:
        with open(beside, "w") as file:
            for line in lines:
                line = {key: value for key, value in line.items() if key.isupper()}
                file.write(json.dumps(line, separators=(",", ":")) + "\n")
        os.replace(beside, path)
    except OSError as error:
        if os.path.exists(beside):
            os.remove(beside)
        sys.exit("tenure.record: %s: %s" % (path, error.strerror))


def run(script, limit):
    """The script's exit status, and the recorder of it."""
    from torch.profiler import ProfilerActivity, profile
    scratch = not torch.cuda.is_available()
    recorder, status = Recorder(limit), 0
    with profile(activities=[ProfilerActivity.CPU], profile_memory=scratch) as profiler:
        try:
            with recorder:
                runpy.run_path(script, run_name="__main__")
        except Stop:
            pass
        except SystemExit as end:
            status = end.code  # type: ignore[assignment]
    recorder.find_gone()
    if not scratch:
        return status, recorder, None
    changes = [(event.start_us(), event.nbytes()) for event in profiler.profiler.kineto_results.events()
               if event.name() == "[memory]"]
    return status, recorder, note_scratch(recorder, changes)


def main():
    parser = argparse.ArgumentParser(prog="python3 -m tenure.record", description=__doc__.split("\n")[0])
    parser.add_argument("-o", "--output", default="run.log", metavar="FILE", help="the log (run.log)")
    parser.add_argument("--ops", type=int, metavar="N", help="end the program after so many operators")
    parser.add_argument("script", help="a Python program, unchanged")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="what it gets")
    asked = parser.parse_args()
    if not os.path.exists(asked.script):
        parser.error("%s: there is no such file" % asked.script)
    sys.argv[:] = [asked.script] + asked.arguments
    sys.path.insert(0, os.path.dirname(os.path.abspath(asked.script)))
    status, recorder, peak = run(asked.script, asked.ops)
    write_log(asked.output, recorder.lines)
    told = "" if peak is None else ", %s bytes at the peak by PyTorch's profiler" % format(peak, ",")
    print("tenure.record: %d operators, %d tensors%s" % (len(recorder.calls), recorder.count, told), file=sys.stderr)
    if recorder.strange:
        print("tenure.record: %d operands or results had no storage of their own (sparse?) and are not counted"
              % recorder.strange, file=sys.stderr)
    print("wrote %s; try: tenure simulate %s --policy all --budget 0.5" % (asked.output, asked.output), file=sys.stderr)
    sys.exit(status)


if __name__ == "__main__":
    main()
