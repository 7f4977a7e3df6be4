"""The present holders of memory: a table that this process publishes, and the tables of any process of the user."""
import ctypes
import weakref
from types import TracebackType
from typing import Any, Dict, Hashable, List, NamedTuple, Optional, Tuple, Type

from tenure import _abi
from tenure._library import call, library, number, options, text


class Holder(NamedTuple):
    """A row: the blocks with one label. Texts are "" if unknown."""

    line: str  # line of code that allocates, or function
    module: str
    category: str
    block_size: int  # bytes of each block; 0: the sizes differ
    bytes: int  # now
    blocks: int
    peak_bytes: int  # at the peak of the table
    step_bytes: int  # at the peak of the present step


class Past(NamedTuple):
    """A step that has ended. `growth`: bytes by which its peak exceeds those of all steps before, or 0; then the row that
    grew most, and its growth."""

    step: int
    peak: int
    growth: int
    line: str
    module: str
    category: str
    block_size: int
    row_growth: int


class Table(NamedTuple):
    """A table of holders, read at one moment; printing it shows the largest rows.

    source    name of the table: "torch", "preload", "cuda:0", ...
    step      number of the present step, from 1; 0: no step has begun
    dropped   number of blocks without a row of their own, because all rows were used
    exact     False: the table changed while it was read, so sums may differ from their parts
    rows      the holders, the largest first
    past      the last steps that have ended, at most 32
    """

    source: str
    bytes: int
    blocks: int
    peak: int
    step: int
    step_peak: int
    dropped: int
    exact: bool
    rows: Tuple[Holder, ...]
    past: Tuple[Past, ...]

    def by(self, key: str) -> Dict[Any, int]:
        """Sums the bytes in use by "line", "module", "category" or "block_size", the largest first.

        >>> watch.table().by("category")
        {'parameter': 8544, 'activation': 4096}
        """
        if key not in ("line", "module", "category", "block_size"):
            raise ValueError("by: %r is not line, module, category or block_size" % (key,))
        sums: Dict[Any, int] = {}
        for row in self.rows:
            sums[getattr(row, key)] = sums.get(getattr(row, key), 0) + row.bytes
        return dict(sorted(((name, size) for name, size in sums.items() if size > 0), key=lambda item: -item[1]))

    def __str__(self) -> str:
        lines = ["%s: %s bytes in %d blocks, peak %s" % (self.source, format(self.bytes, ","), self.blocks, format(self.peak, ","))]
        if self.step:
            lines[0] += "; step %d, peak %s so far" % (self.step, format(self.step_peak, ","))
        for past in self.past[-3:]:
            if past.growth:
                lines.append("step %d grew by %s bytes, most by %s" % (
                    past.step, format(past.growth, ","),
                    ", ".join(word for word in past[3:6] if word) or "unknown code"))
        rows = [("bytes", "blocks", "at the peak", "line", "module", "category")]
        rows += [(format(row.bytes, ","), format(row.blocks, ","), format(row.peak_bytes, ","), row.line, row.module,
                  row.category) for row in self.rows[:20]]
        widths = [max(len(row[k]) for row in rows) for k in range(6)]
        for shown in rows:
            cells = [cell.rjust(width) if k < 3 else cell.ljust(width) for k, (cell, width) in enumerate(zip(shown, widths))]
            lines.append(("  " + "  ".join(cells)).rstrip())
        if len(self.rows) > 20:
            lines.append("  and %d smaller rows" % (len(self.rows) - 20))
        return "\n".join(lines)


def words(value: Any) -> str:
    return str(value.decode("utf-8", "replace"))


def table_of(raw: Any) -> Table:
    rows = tuple(Holder(words(row.line), words(row.module), words(row.category), row.block_size, row.bytes, row.blocks,
                        row.peak_bytes, row.step_bytes) for row in raw.rows[:raw.row_count])
    past = tuple(Past(step.step, step.peak, step.growth, words(step.line), words(step.module), words(step.category),
                      step.block_size, step.row_growth) for step in raw.past[:raw.past_count])
    return Table(words(raw.source), raw.bytes, raw.blocks, raw.peak, raw.step, raw.step_peak, raw.dropped,
                 raw.is_exact, rows, past)


def holders(pid: Optional[int] = None) -> Tuple[Table, ...]:
    """Reads the present holders of memory of a process, as `tenure watch PID` does: a table for each allocator.

    >>> tenure.holders(4711)[0].rows[0].line
    'train.py:31'

    pid   number of the process; None: this one

    The process publishes them if it runs with TENURE_WATCH=1 under libtenure_preload.so or libtenure_torch.so, or uses
    tenure.torch.watch or tenure.Watch. Otherwise, or if there is no such process: tenure.Error.
    """
    view = ctypes.POINTER(_abi.tn_watch_view)()
    call("tn_watch_read", 0 if pid is None else number(pid, "pid", (1 << 31) - 1, 1), None, ctypes.byref(view))
    try:
        found = view.contents
        return tuple(table_of(raw) for raw in found.tables[:found.table_count])
    finally:
        library().tn_watch_view_release(view)


class Watch:
    """Publishes a table of holders of this process, for `tenure watch PID` and tenure.holders.

    >>> with tenure.Watch("loader") as watch:
    ...     watch.hold("batch 1", 4096, line="loader.py:20", category="input")
    ...     print(watch.table())

    source   name of the table, of letters, digits and : . _ -
    rows     largest number of rows; 0: 2047

    Threads: one at a time. In the child of a fork it has no effect.
    """

    def __init__(self, source: str = "python", rows: int = 0) -> None:
        self.source = source
        self.bytes = self.step_peak = 0  # now; and the most since the present step began
        self._blocks: Dict[Hashable, _abi.tn_watch_block] = {}
        self._handle = ctypes.POINTER(_abi.tn_watch)()
        wanted = options(_abi.tn_watch_options, source=text(source, "source"), rows=number(rows, "rows", (1 << 32) - 1))
        call("tn_watch_create", ctypes.byref(wanted), ctypes.byref(self._handle))
        self._end = weakref.finalize(self, library().tn_watch_destroy, self._handle)  # at exit, too: it removes a file

    def hold(self, key: Hashable, size: int, *, line: str = "", module: str = "", category: str = "") -> None:
        """Counts memory of `size` bytes, which `key` names until it is released. If the key is in use, it is released
        before."""
        self.release(key)
        block = _abi.tn_watch_block()
        library().tn_watch_alloc(self._open(), self._label(line, module, category), number(size, "size"), block)
        self._blocks[key] = block
        self.bytes += block.size
        self.step_peak = max(self.step_peak, self.bytes)

    def release(self, key: Hashable) -> None:
        """Counts the memory as released; an unknown key has no effect."""
        block = self._blocks.pop(key, None)
        if block is not None:
            self.bytes -= block.size
            library().tn_watch_free(self._open(), block)

    def label(self, key: Hashable, *, line: str = "", module: str = "", category: str = "") -> None:
        """Gives memory another label, also at the peaks that it was part of. Errors: KeyError."""
        library().tn_watch_move(self._open(), self._label(line, module, category), self._blocks[key])

    def step(self) -> None:
        """Begins a step, such as a training step, and ends the one before it."""
        library().tn_watch_step(self._open())
        self.step_peak = self.bytes

    def size_of(self, key: Hashable) -> Optional[int]:
        """The bytes of a key; None: it is not in use."""
        block = self._blocks.get(key)
        return None if block is None else int(block.size)

    def table(self) -> Table:
        """Reads the table."""
        return next(table for table in holders() if table.source == self.source)

    def close(self) -> None:
        """Removes the table."""
        self._end()
        self._blocks.clear()

    def __str__(self) -> str:
        return str(self.table())

    def __enter__(self) -> "Watch":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], value: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.close()

    def _open(self) -> Any:
        if not self._end.alive:
            raise ValueError("the table %s was closed" % self.source)
        return self._handle

    @staticmethod
    def _label(line: str, module: str, category: str) -> Any:
        return _abi.tn_watch_label(line=text(line, "line"), module=text(module, "module"), category=text(category, "category"))
