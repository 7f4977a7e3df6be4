"""Records what an unchanged PyTorch program does: operators, bytes, aliases, times, frees.

    python3 -m tenure.record -o run.log train.py --epochs 1
    tenure simulate run.log --policy all --budget 0.5

From the log, `tenure simulate` and `tenure fit --problem` compute the budgets in which the program could have run, by
which policy, and at what cost. Its lines have the format of DTR's simulator, with three additional fields that other
readers ignore: SCRATCH, the bytes that an operator allocated and freed while it ran; IN_PLACE, it wrote into existing
memory; ONCE, it cannot run again (data from outside of PyTorch). docs/eager.md has the format.

It records every operator below autograd (forward, backward and optimizer) on any device, with a TorchDispatchMode
(PyTorch 1.13 or later). It does not record memory that PyTorch does not allocate, nor storages of sparse tensors, which
are counted and reported. Each operator is timed separately. Without a GPU, PyTorch's profiler runs at the same time for
SCRATCH, which adds some microseconds to small operators.
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

# Operators that write statistics without saying so in their schema: (arguments, argument that enables the writes).
HIDDEN_WRITES = {name: ((3, 4), 5) for name in ("aten::native_batch_norm", "aten::cudnn_batch_norm",
                                                "aten::miopen_batch_norm")}


class Stop(BaseException):
    """Raised after the requested number of operators; passes through the program's own handlers."""


class Storage:
    """Memory that tensors share, for as long as a tensor refers to it."""

    def __init__(self, untyped, name):
        self.untyped_type, self.weak = type(untyped), untyped._weak_ref()
        self.root, self.names, self.views = name, [name], {}
        self.read = set()  # regions that were inputs of other operators

    def is_gone(self):
        return self.untyped_type._expired(self.weak)

    def forget(self):
        self.untyped_type._free_weak_ref(self.weak)


def untyped_of(tensor):
    """The untyped storage, or None: sparse tensors and some others have no storage of their own."""
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
    """The region that a view covers: (first element, largest stride, elements within one such stride, elements in all)."""
    steps = sorted((abs(stride), size - 1) for size, stride in zip(tensor.shape, tensor.stride()) if size > 1)
    within = 1 + sum(stride * size for stride, size in steps[:-1])
    stride, size = steps[-1] if steps else (1, 0)
    return tensor.storage_offset(), stride, within, within + stride * size


def overlap(a, b):
    """Whether two views of a storage may share an element; adjacent columns do not."""
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
        self.calls, self.spans = [], []  # per operator: its line; its start and end, in microseconds of the clock
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
        """The name of an operand; an unknown operand comes from outside. None: it has no storage."""
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
        """Names a view of the current data of a storage, which no recorded operator made."""
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
        first: Dict[int, Any] = {}  # storage -> the first argument in it
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
            elif alias >= 0 and shape_of(tensor) not in storage.views:  # a new view
                name = storage.views[shape_of(tensor)] = self.new_name()
                storage.names.append(name)
                results.append((name, untyped.nbytes(), alias))
        call["fresh"] = sum(untyped_results.values())
        if not results and not written and arguments and not any(True for _ in tensors_in([result])):
            results.append((self.new_name(), 0, -1))  # the result is a number for the program, not a tensor
        if results:
            call["RESULT"] = [name for name, _, _ in results]
            self.lines.append(call)
            for row in results:
                self.say_result(*row)
                if row[1] == 0 and row[2] < 0 and not untyped_results:
                    self.say(INSTRUCTION="RELEASE", NAME=row[0])
        written = {key: place for key, place in places.items() if key in written}
        if schema.name in HIDDEN_WRITES:  # the results do not depend on the statistics that it writes
            aside = [arguments[place] for place in written.values()]
            call["ARGS"] = [name for name in arguments if name not in aside]
        if len(written) == 1 and not results and self.is_unread(first[next(iter(written))]):
            self.note_reads(operands, written)
            key, place = written.popitem()
            self.say_finished(call, key, place, first)
            return
        if written or not all(alias >= 0 for _, _, alias in results):  # making a view reads nothing
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
        """Records a write in place into memory that no operator has read yet. It is part of making that tensor and can
        be repeated, so the log has it as a view that takes time."""
        name, storage = self.new_name(), self.live[key]
        call["RESULT"] = [name]
        self.lines.append(call)
        self.say_result(name, 0, place)
        storage.names.append(name)
        self.renew(storage, name, shape_of(first[key]))

    def say_written(self, call, arguments, results, places):
        """Records a write in place. If the operator also has results, its call counts as pure and this line is separate."""
        line = dict(INSTRUCTION="MUTATE", NAME=call["NAME"], ARGS=arguments, MUTATE=places, TIME=call["TIME"], IN_PLACE=1)
        if results:
            line.update(ARGS=[arguments[place] for place in places] + [name for name, _, _ in results[1:]],
                        MUTATE=list(range(len(places))), TIME="0")
        else:
            call["instead"] = line
        self.lines.append(line)

    def renew(self, storage, name, shape):
        """The storage has new data, known by this name; the names of the old data are released."""
        for other in storage.names:
            if other != name:
                self.say(INSTRUCTION="RELEASE", NAME=other)
        storage.root, storage.names, storage.views = name, [name], {shape: name}

    @staticmethod
    def written_by(schema, args, kwargs):
        """The storages that the operator writes into."""
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


# --- scratch memory of operators, from the profiler's memory events ---

def note_scratch(recorder, changes):
    """Adds SCRATCH from `changes`, [(microsecond, bytes)] in order, and returns the highest sum of bytes."""
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
    """Runs the script; returns its exit status, the recorder, and the peak if the profiler measured it."""
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
    parser.add_argument("-o", "--output", default="run.log", metavar="FILE", help="write the log to this file (default: run.log)")
    parser.add_argument("--ops", type=int, metavar="N", help="end the program after N operators (default: no limit)")
    parser.add_argument("script", help="the Python program to record, unchanged")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="arguments of the program")
    asked = parser.parse_args()
    if not os.path.exists(asked.script):
        parser.error("%s: the file does not exist" % asked.script)
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
