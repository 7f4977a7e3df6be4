"""Planning problems, layouts, planning and verification."""
import ctypes
import json
from typing import Any, Dict, Iterable, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union, cast

from tenure import _abi
from tenure._abi import (NONE, tn_bank, tn_body, tn_conflict, tn_layout, tn_piece, tn_plan_options, tn_problem, tn_span,
                         tn_wait)
from tenure._arrays import Integers, array, integers
from tenure._library import (Context, Error, Path, Progress, ask, call, library, number, options, owned, path, real,
                             room_for, size, text)

TIME = (1 << 63) - 1
BYTES = (1 << 64) - 1
Piece = Tuple[int, int, int, int]
HANDLE = ctypes.POINTER(tn_problem)


class Body(NamedTuple):
    """A buffer of a Problem, which needs an offset: `size` bytes, live in steps [first, last)."""
    name: str
    size: int
    first: int
    last: int
    alignment: int
    bank: int
    pinned: Optional[int]  # a fixed offset; None: the planner chooses
    pieces: Tuple[Piece, ...]  # sections (first, last, lo, hi): bytes [lo, hi) of it are live in steps [first, last)


class Conflict(NamedTuple):
    """Why a layout is invalid: the first conflict in time, then by byte."""
    reason: str  # "overlap", "alignment", "pin", "capacity", "tie", "order", "bank", ...
    a: int  # numbers of the bodies
    b: Optional[int]
    step: int
    lo: int  # of an overlap: bytes [lo, hi); otherwise as in tenure/plan.h
    hi: int


class Problem:
    """Bodies (buffers) with sizes and live ranges, to be planned.

    >>> problem = tenure.Problem(alignment=64)
    >>> a = problem.add(1024, 0, 3)         # bytes, live in steps [0, 3)
    >>> b = problem.add(512, 3, 4, name="b")
    >>> problem.plan().peak
    1024
    """

    def __init__(self, *, alignment: int = 1) -> None:
        handle = HANDLE()
        call("tn_problem_create", None, ctypes.byref(handle))
        self._own(handle)
        call("tn_problem_set_alignment", self._handle, number(alignment, "alignment"))

    def _own(self, handle: Any) -> None:
        self._handle = handle
        owned(self, "tn_problem_destroy", handle)

    _keeps: object = None  # the owner of a borrowed problem

    @classmethod
    def _borrow(cls, handle: Any, keeps: object) -> "Problem":
        """A problem that another object owns: read only."""
        made = cls.__new__(cls)
        made._handle, made._keeps = handle, keeps
        return made

    @classmethod
    def load(cls, file: Path) -> "Problem":
        """Reads a problem from a file: MiniMalloc's CSV in all its dialects, or JSON. Offsets in the file pin."""
        handle = HANDLE()
        call("tn_problem_load", path(file), None, ctypes.byref(handle), None)
        made = cls.__new__(cls)
        made._own(handle)
        return made

    @classmethod
    def parse(cls, content: Union[str, bytes], name: str = "problem.csv") -> "Problem":
        """The same from the content of a file; the suffix of `name` selects the format."""
        raw = content.encode() if isinstance(content, str) else bytes(content)
        handle = HANDLE()
        call("tn_problem_load_memory", text(name, "name"), raw, len(raw), None, ctypes.byref(handle), None)
        made = cls.__new__(cls)
        made._own(handle)
        return made

    def add(self, size: int, first: int, last: int, *, name: Optional[str] = None, alignment: int = 0,
            offset: Optional[int] = None, bank: int = 0, pieces: Sequence[Piece] = (),
            tied_to: Optional[int] = None, delta: int = 0) -> int:
        """Adds a body and returns its number.

        alignment  a power of two; 0: the problem's
        offset     pins the body at this offset
        pieces     sections (first, last, lo, hi), instead of first and last: bytes [lo, hi) are live in [first, last)
        tied_to    the number of an earlier body; this one lies `delta` bytes above it
        """
        body = tn_body(size=number(size, "size"), first=number(first, "first", TIME, -TIME - 1),
                       last=number(last, "last", TIME, -TIME - 1), alignment=number(alignment, "alignment"),
                       bank=number(bank, "bank", NONE), name=text(name, "name"))
        if offset is not None:
            body.offset, body.flags = number(offset, "offset"), _abi.BODY_PINNED
        if tied_to is not None:
            body.leader, body.delta = number(tied_to, "tied_to", NONE), number(delta, "delta")
            body.flags |= _abi.BODY_TIED
        if pieces:
            body.pieces = (tn_piece * len(pieces))(*(piece_of(piece) for piece in pieces))
            body.piece_count = len(pieces)
        return self._add(body)

    def _add(self, body: tn_body) -> int:
        if self._keeps is not None:
            raise Error("E_INVALID", "the problem of a model follows from it, and nothing can be added")
        made = ctypes.c_uint32()
        call("tn_problem_add", self._handle, ctypes.byref(body), ctypes.byref(made))
        return made.value

    def add_all(self, sizes: Integers, first: Integers, last: Integers, *,
                names: Optional[Sequence[str]] = None) -> None:
        """Adds one body per element; the lists or arrays have one length."""
        rows = {"sizes": integers(sizes, "sizes", 0, BYTES), "first": integers(first, "first", -TIME - 1, TIME),
                "last": integers(last, "last", -TIME - 1, TIME)}
        given: Sequence[Optional[str]] = [None] * len(rows["sizes"]) if names is None else names
        called = [text(name, "names") for name in given]
        lengths = {what: len(row) for what, row in rows.items()}
        if names is not None:
            lengths["names"] = len(called)
        if len(set(lengths.values())) > 1:
            raise ValueError("the lengths differ: %s" % ", ".join("%s %d" % row for row in lengths.items()))
        for bytes_, begin, end, name in zip(rows["sizes"], rows["first"], rows["last"], called):
            self._add(tn_body(size=bytes_, first=begin, last=end, name=name))

    def set_bank(self, bank: int, *, capacity: Union[int, str] = 0, name: Optional[str] = None,
                 bytes_per_s: float = 0) -> None:
        """Sets a bank, a separate memory; bank 0 always exists. capacity 0: as large as needed."""
        raw = tn_bank(name=text(name, "name"), capacity=size(capacity, "capacity"),
                      bytes_per_s=real(bytes_per_s, "bytes_per_s"))
        call("tn_problem_set_bank", self._handle, number(bank, "bank", NONE), ctypes.byref(raw))

    def keep_apart(self, a: int, b: int) -> None:
        """Two bodies never share bytes, at any time."""
        call("tn_problem_keep_apart", self._handle, number(a, "a", NONE), number(b, "b", NONE))

    def add_exclusion(self, a: int, b: int) -> None:
        """Two bodies are never live at the same time, so they may share bytes although their steps overlap."""
        call("tn_problem_add_exclusion", self._handle, number(a, "a", NONE), number(b, "b", NONE))

    def reserve(self, first: int, last: int, *, bank: int = 0) -> None:
        """No body holds bytes [first, last) of the bank."""
        call("tn_problem_reserve", self._handle, number(bank, "bank", NONE), number(first, "first"),
             number(last, "last"))

    def add_reuse_cost(self, a: int, b: int, cost: int = 1) -> None:
        """The price of a layout in which the two bodies share bytes, for objective="pairs"."""
        call("tn_problem_add_reuse_cost", self._handle, number(a, "a", NONE), number(b, "b", NONE),
             number(cost, "cost", TIME))

    def add_event(self, time: int = 1) -> int:
        """Adds an event of the program, such as an operator; returns its number. For objective="waits" and "time"."""
        made = ctypes.c_uint32()
        call("tn_problem_add_event", self._handle, number(time, "time"), ctypes.byref(made))
        return made.value

    def add_order(self, before: int, after: int) -> None:
        """Event `before` is over when event `after` starts, in every layout."""
        call("tn_problem_add_order", self._handle, number(before, "before", NONE), number(after, "after", NONE))

    def add_wait(self, before: int, after: int) -> None:
        """As add_order, but it counts as a wait of every layout."""
        call("tn_problem_add_wait", self._handle, number(before, "before", NONE), number(after, "after", NONE))

    def add_span(self, body: int, write: Optional[int], uses: Sequence[int], *, lo: int = 0, hi: int = 0) -> None:
        """Bytes [lo, hi) of a body (0, 0: all), from the event that writes them (None: no event) to their uses."""
        raw = tn_span(body=number(body, "body", NONE), lo=number(lo, "lo"), hi=number(hi, "hi"),
                      first=NONE if write is None else number(write, "write", NONE - 1),
                      uses=(ctypes.c_uint32 * max(len(uses), 1))(*[number(use, "uses", NONE) for use in uses]),
                      use_count=len(uses))
        call("tn_problem_add_span", self._handle, ctypes.byref(raw))

    def __len__(self) -> int:
        return int(ask("tn_problem_count", self._handle))

    def __getitem__(self, index: int) -> Body:
        count = len(self)
        at = number(index, "body", count - 1, -count) if count else -1
        if count == 0:
            raise IndexError("there are no bodies")
        raw = ask("tn_problem_body", self._handle, at % count).contents
        pieces = tuple((p.first, p.last, p.lo, p.hi) for p in raw.pieces[:raw.piece_count])
        pinned = raw.offset if raw.flags & _abi.BODY_PINNED else None
        return Body((raw.name or b"").decode("utf-8", "replace"), raw.size, raw.first, raw.last, raw.alignment,
                    raw.bank, pinned, pieces)

    def __iter__(self) -> Iterator[Body]:
        return (self[index] for index in range(len(self)))

    def __repr__(self) -> str:
        return "<tenure.Problem of %d bodies>" % len(self)

    @property
    def naive(self) -> int:
        """Bytes without reuse: every body in memory of its own."""
        return int(ask("tn_problem_naive", self._handle))

    @property
    def lower_bound(self) -> int:
        """The peak of live bytes: no layout of bank 0 needs less."""
        found = ctypes.c_uint64()
        call("tn_problem_lower_bound", self._handle, 0, ctypes.byref(found), None)
        return found.value

    def plan(self, *, planner: str = "auto", capacity: Union[int, str, None] = None, timeout: float = 0,
             work_limit: int = 0, threads: int = 1, seed: int = 0, objective: str = "bytes", workers: int = 0,
             progress: Progress = None) -> "Layout":
        """Finds verified offsets for all bodies; arguments as in tenure.plan."""
        with Context(progress) as context:
            raw = room_for(tn_layout)
            call("tn_plan", self._handle,
                 ctypes.byref(plan_options(context, planner, capacity, timeout, work_limit, threads, seed, objective,
                                           workers)),
                 ctypes.byref(raw))
        return Layout._take(self, raw)

    def save_csv(self, file: Path, layout: Optional["Layout"] = None) -> None:
        """Writes MiniMalloc's CSV, with the offsets of the layout if one is given."""
        call("tn_problem_save_csv", self._handle, None if layout is None else layout._pointer, path(file))


OBJECTIVES = ("bytes", "pairs", "waits", "time")


def piece_of(piece: Sequence[int]) -> tn_piece:
    first, last, lo, hi = piece
    return tn_piece(first=number(first, "piece", TIME, -TIME - 1), last=number(last, "piece", TIME, -TIME - 1),
                    lo=number(lo, "piece"), hi=number(hi, "piece"))


def plan_options(context: Any, planner: str, capacity: Union[int, str, None], timeout: float, work_limit: int,
                 threads: int, seed: int, objective: str, workers: int) -> tn_plan_options:
    if objective not in OBJECTIVES:
        raise ValueError("objective: %r is not one of %s" % (objective, ", ".join(OBJECTIVES)))
    return options(tn_plan_options, context=context, planner=text(planner, "planner"),
                   capacity=size(capacity or 0, "capacity"), timeout_s=real(timeout, "timeout"),
                   work_limit=number(work_limit, "work_limit"), threads=number(threads, "threads", NONE, 1),
                   seed=number(seed, "seed"), objective=OBJECTIVES.index(objective),
                   workers=number(workers, "workers", NONE))


class Layout:
    """The offsets of all bodies, and how close to optimal they are known to be.

    offsets      bytes from the start of each body's bank, in the order of the bodies (a numpy array, or a list)
    banks        the bank of each body
    peak         bytes that the arena needs: the sum over the banks
    lower_bound  no layout of the problem needs less
    verdict      "optimal" (proved), "feasible", "stopped"
    planner      the planner that found it; seconds, work (placements tried), timed_out: of the search
    reuse_cost   of the pairs that share bytes; waits, time: of the program, if its events are known (0: unknown)
    bound        with another objective than bytes: no layout within the capacity has a lower value
    problem      the problem that it solves
    """

    def __init__(self, problem: Problem, offsets: Integers, banks: Optional[Integers] = None) -> None:
        """Makes a layout of given offsets, without checking them (see `verify`)."""
        count = len(problem)
        chosen = integers(offsets, "offsets", 0, BYTES)
        where = None if banks is None else integers(banks, "banks", 0, NONE)
        if len(chosen) != count or (where is not None and len(where) != count):
            raise ValueError("%d offsets for %d bodies" % (len(chosen), count))
        raw = room_for(tn_layout)
        call("tn_layout_from_places", problem._handle, (ctypes.c_uint64 * max(count, 1))(*chosen),
             None if where is None else (ctypes.c_uint32 * max(count, 1))(*where), ctypes.byref(raw))
        self._set(problem, raw, None)
        owned(self, "tn_layout_release", self._pointer)

    def _set(self, problem: Problem, raw: tn_layout, keeps: object) -> None:
        self._raw, self._pointer, self._keeps = raw, ctypes.pointer(raw), keeps
        self._occupancy: Any = None  # only for a model
        self._report: Dict[str, Any] = {}
        self.problem = problem
        self.offsets = array(raw.offset, raw.body_count)
        self.banks = array(raw.bank, raw.body_count)
        self.peak, self.lower_bound, self.verdict = raw.peak, raw.lower_bound, _abi.VERDICTS[raw.verdict]
        self.planner = (raw.planner or b"").decode()
        self.reuse_cost, self.waits, self.time = raw.reuse_cost, raw.waits, raw.time
        self.bound = (0, raw.reuse_cost_bound, raw.waits_bound, raw.time_bound)[raw.objective]
        self.seconds, self.work, self.timed_out = raw.seconds, raw.work, raw.timed_out

    @classmethod
    def load(cls, problem: Problem, file: Path) -> "Layout":
        """Reads a solution of dsa-solver for a problem of a dsa-problem-v1 file, without checking it (see `verify`)."""
        raw = room_for(tn_layout)
        call("tn_layout_load", problem._handle, path(file), ctypes.byref(raw))
        return cls._take(problem, raw)

    @classmethod
    def _take(cls, problem: Problem, raw: tn_layout) -> "Layout":
        made = cls.__new__(cls)
        made._set(problem, raw, None)
        owned(made, "tn_layout_release", made._pointer)
        return made

    @classmethod
    def _borrow(cls, problem: Problem, raw: tn_layout, keeps: object) -> "Layout":
        made = cls.__new__(cls)
        made._set(problem, raw, keeps)
        return made

    @property
    def optimal(self) -> bool:
        """Whether it is proved that no layout of the problem needs less."""
        return self.verdict == "optimal"

    def wait_list(self) -> List[Tuple[int, int]]:
        """The waits that the layout adds to the order of the events: (before, after)."""
        found, count = ctypes.POINTER(tn_wait)(), ctypes.c_uint64()
        call("tn_layout_waits", self.problem._handle, self._pointer, 0, ctypes.byref(found), ctypes.byref(count), None)
        waits = [(found[i].before, found[i].after) for i in range(count.value)]
        ask("tn_waits_release", found)
        return waits

    def __len__(self) -> int:
        return int(self._raw.body_count)

    def __repr__(self) -> str:
        return "<tenure.Layout: %d bodies in %d bytes, %s>" % (len(self), self.peak, self.verdict)

    def _repr_html_(self) -> str:
        from tenure import _html, _report
        told = json.loads(_report.report(self, format="summary"))
        table = _html.sizes([("arena", told["peak"]), ("lower bound", told["lower_bound"]),
                             ("without reuse", told["naive"]), ("buffers", "%d" % len(self)),
                             ("planner", "%s, %s" % (self.planner, self.verdict))])
        return table + (_report.report(self, format="svg") if len(self) <= _html.PICTURE_BODIES else "")


def plan(what: Any, first: Optional[Integers] = None, last: Optional[Integers] = None, *,
         alignment: int = 1, names: Optional[Sequence[str]] = None, planner: str = "auto",
         capacity: Union[int, str, None] = None, timeout: float = 0, work_limit: int = 0, threads: int = 1,
         seed: int = 0, objective: str = "bytes", workers: int = 0, streams: int = 1,
         stream: Optional[Mapping[str, int]] = None, adjacent: Sequence[str] = (), progress: Progress = None) -> Layout:
    """Plans memory: finds an offset for every buffer. An independent check verifies the result.

    >>> layout = tenure.plan([600, 500, 700], first=[0, 1, 3], last=[3, 4, 6])
    >>> layout.peak, layout.verdict
    (1200, 'optimal')

    what       sizes in bytes (a list or a numpy array), with `first` and `last`: buffer i is live in steps
               [first[i], last[i]); or a Problem; or a Graph, which is ordered first
    alignment  of every offset, a power of two; names: for messages and reports
    planner    a name from `tenure list planners`
    capacity   bytes, or text such as "96KiB"; a plan that needs more raises tenure.Error, E_INFEASIBLE if that is proved
    timeout    seconds; 0: no limit. work_limit: placements to try, deterministic; threads: never change the result
    objective  "bytes": the least peak. Within a capacity: "pairs" (reuse cost), "waits" (waits that the layout adds),
               "time" (of the program with these waits, with `workers` operators at once; 0: no limit)
    streams    of a Graph: number of streams whose operators work at the same time; stream: {pattern: number of the
               stream} of operators, by names or "type:Conv"; adjacent: patterns of tensors that lie one after another
    progress   a function of (stage, done, total); it returns False to stop
    """
    if isinstance(adjacent, str) or not isinstance(adjacent, Iterable):
        raise TypeError("adjacent: a list of patterns")
    if stream is not None and not isinstance(stream, Mapping):
        raise TypeError("stream: a dictionary, {pattern: number of the stream}")
    if stream and streams == 1:
        raise ValueError("stream: there is one stream; give streams=N")
    if not hasattr(what, "_plan") and (streams != 1 or stream or adjacent):
        raise TypeError("streams, stream and adjacent are for a Graph")
    if hasattr(what, "_plan"):
        if first is not None or last is not None or names is not None:
            raise TypeError("first, last and names are for lists of sizes")
        return cast(Layout, what._plan(planner, capacity, timeout, work_limit, threads, seed, objective, workers,
                                         streams, stream or {}, adjacent, progress))
    problem: Problem = what
    if not isinstance(what, Problem):
        if first is None or last is None:
            raise TypeError("plan: sizes, first and last; or a Problem, or a Graph")
        problem = Problem(alignment=alignment)
        problem.add_all(what, first, last, names=names)
    return problem.plan(planner=planner, capacity=capacity, timeout=timeout, work_limit=work_limit, threads=threads,
                        seed=seed, objective=objective, workers=workers, progress=progress)


def verify(problem: Problem, layout: Union[Layout, Integers]) -> None:
    """Checks a layout or offsets from any source against a problem. If invalid: tenure.Error with `conflict`.

    >>> tenure.verify(problem, [0, 1024])
    """
    found = layout if isinstance(layout, Layout) else Layout(problem, layout)
    conflict = tn_conflict()
    try:
        call("tn_layout_verify", problem._handle, found._pointer, ctypes.byref(conflict))
    except Error as error:
        if conflict.reason:
            error.conflict = Conflict(_abi.CONFLICTS[conflict.reason], conflict.a,
                                      None if conflict.b == NONE else conflict.b, conflict.step, conflict.lo,
                                      conflict.hi)
        raise


def planners() -> List[str]:
    """The names of the planners, for `plan`."""
    return [library().tn_planner_name(index).decode() for index in range(ask("tn_planner_count"))]
