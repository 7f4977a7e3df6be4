"""Finds and loads libtenure, and converts its errors to exceptions."""
import ctypes
import os
import pathlib
import signal
import threading
import weakref
from typing import Any, Callable, List, Optional, Tuple, Type, TypeVar, Union

from tenure import _abi
from tenure._abi import STATUSES, tn_context, tn_error

VERSION = "0.1.0"  # of this package, and of the compatible libraries: 0.1.x
SPARE = 512  # bytes after a struct that the library fills, in case a newer library has more members
Progress = Optional[Callable[[str, int, int], Optional[bool]]]
Path = Union[str, "os.PathLike[str]"]
S = TypeVar("S", bound=ctypes.Structure)


class Error(Exception):
    """An error of libtenure: it rejected an input, or could not complete a call.

    status   name of the outcome: "E_INFEASIBLE" (proved), "E_EXHAUSTED", "E_INVALID", "E_UNSUPPORTED", ...
    message  one sentence: the problem, and the remedy
    where    file and line, byte or node; "" if nowhere
    least    of `fit`: the smallest answer found if nothing fits; else None
    claims, hints   of `fit`: results by technique, and further options
    conflict of `verify`: the first conflict, as a tenure.Conflict; else None
    """

    __module__ = "tenure"  # the public name, also in tracebacks

    def __init__(self, status: str, message: str, where: str = "") -> None:
        super().__init__("%s: %s" % (where, message) if where else message)
        self.status, self.message, self.where = status, message, where
        self.least: Any = None
        self.claims: Any = []
        self.hints: Any = []
        self.conflict: Any = None


def places() -> Tuple[str, ...]:
    """The paths of the library to try, in order."""
    asked = os.environ.get("TENURE_LIBRARY")
    if asked:
        return (asked,)
    beside = pathlib.Path(__file__).resolve().parent
    there = tuple(str(beside / name) for name in ("libtenure.so.0", "libtenure.so") if (beside / name).exists())
    return there + ("libtenure.so.0",)


def open_library() -> ctypes.CDLL:
    reasons = []
    for place in places():
        try:
            return ctypes.CDLL(place)
        except OSError as error:
            reasons.append(str(error))
    raise Error("E_UNSUPPORTED", "libtenure was not found (%s); install it, or set TENURE_LIBRARY to its path"
                % "; ".join(reasons))


def check_version(library: ctypes.CDLL) -> None:
    try:
        library.tn_version.restype = ctypes.c_char_p
        version = library.tn_version().decode()
    except AttributeError:
        raise Error("E_UNSUPPORTED", "%s is no libtenure: it has no tn_version" % library._name) from None
    if version.split(".")[:2] != VERSION.split(".")[:2]:
        raise Error("E_UNSUPPORTED", "%s is version %s, but this package needs %s; install matching versions"
                    % (library._name, version, VERSION))


def load() -> ctypes.CDLL:
    library = open_library()
    check_version(library)
    for name, (result, arguments) in _abi.FUNCTIONS.items():
        try:
            function = getattr(library, name)
        except AttributeError:
            raise Error("E_UNSUPPORTED", "%s has no %s: it is not version %s, or it is a partial build"
                        % (library._name, name, VERSION)) from None
        function.restype, function.argtypes = result, arguments
    return library


_loaded: Optional[ctypes.CDLL] = None
_lock = threading.Lock()


def library() -> ctypes.CDLL:
    """The library; the first call loads it."""
    global _loaded
    with _lock:
        if _loaded is None:
            _loaded = load()
    return _loaded


def version() -> str:
    """The version of libtenure; loads it if necessary.

    >>> tenure.version()
    '0.1.0'
    """
    return str(library().tn_version().decode())


def error_of(raw: tn_error) -> Error:
    status = STATUSES[raw.status] if 0 <= raw.status < len(STATUSES) else "E_INTERNAL"
    return Error(status, raw.message.decode("utf-8", "replace"), raw.where.decode("utf-8", "replace"))


def call(name: str, *arguments: Any) -> None:
    """Calls a function that returns a status, and raises its error."""
    raw = tn_error()
    if getattr(library(), name)(*arguments, ctypes.byref(raw)) != 0:
        raise error_of(raw)


def ask(name: str, *arguments: Any) -> Any:
    """Calls a function that cannot fail."""
    return getattr(library(), name)(*arguments)


def options(kind: Type[S], **members: Any) -> S:
    """Makes an option struct; members that are None keep their default, 0."""
    made = kind(**{name: value for name, value in members.items() if value is not None})
    made.struct_size = ctypes.sizeof(kind)
    return made


def room_for(kind: Type[S]) -> S:
    """A zeroed struct for the library to fill, followed by spare bytes."""
    return kind.from_buffer(ctypes.create_string_buffer(ctypes.sizeof(kind) + SPARE))


def release(handles: List[Tuple[str, Any]], keeps: object) -> None:
    """Destroys the handles in reverse order of creation; `keeps` holds their dependencies alive until then."""
    while handles:
        destroy, handle = handles.pop()
        getattr(library(), destroy)(handle)


def owned(owner: object, destroy: str, handle: Any, keeps: object = None) -> None:
    """Destroys the handle when its owner is collected, but not at exit: others may still use it, and memory ends anyway."""
    weakref.finalize(owner, release, [(destroy, handle)], keeps).atexit = False


class Owner:
    """Owns handles that have no other owner."""

    def __init__(self, keeps: object = None) -> None:
        self.handles: List[Tuple[str, Any]] = []
        weakref.finalize(self, release, self.handles, keeps).atexit = False

    def own(self, destroy: str, handle: Any) -> Any:
        self.handles.append((destroy, handle))
        return handle


def text(value: Optional[str], what: str) -> Optional[bytes]:
    if value is None:
        return None
    if not isinstance(value, str):
        raise TypeError("%s: expected a text, not %s" % (what, type(value).__name__))
    if "\0" in value:
        raise ValueError("%s: contains a zero byte" % what)
    return value.encode("utf-8", "surrogateescape")


def path(value: Path) -> bytes:
    raw = os.fsencode(value)
    if b"\0" in raw:
        raise ValueError("the path contains a zero byte")
    return raw


def number(value: Any, what: str, most: int = (1 << 64) - 1, least: int = 0) -> int:
    """An integer (of Python or numpy) within bounds."""
    try:
        found = value.__index__()
    except AttributeError:
        raise TypeError("%s: an integer, not %s" % (what, type(value).__name__)) from None
    if not least <= found <= most:
        raise ValueError("%s: %d is not between %d and %d" % (what, found, least, most))
    return int(found)


def flag(value: Any, what: str) -> bool:
    if not isinstance(value, bool):
        raise TypeError("%s: True or False, not %r" % (what, value))
    return value


def real(value: Any, what: str) -> float:
    """A finite number of at least 0."""
    if isinstance(value, (str, bytes)):
        raise TypeError("%s: a number, not %s" % (what, type(value).__name__))
    found = float(value)
    if not 0 <= found < float("inf"):
        raise ValueError("%s: %r is not a finite number of at least 0" % (what, value))
    return found


def size(value: Union[int, str], what: str) -> int:
    """Bytes, from a number or a text: 4096, "96KiB", "1.5GiB"."""
    if not isinstance(value, str):
        return number(value, what)
    found = ctypes.c_uint64()
    call("tn_size_parse", text(value, what), ctypes.byref(found))
    return found.value


class Context:
    """Watches and stops a long call: `progress` returns False to stop it, and Ctrl-C interrupts it."""

    def __init__(self, progress: Progress = None) -> None:
        if progress is not None and not callable(progress):
            raise TypeError("progress: a function of (stage, done, total), not %s" % type(progress).__name__)
        self.failed: Optional[BaseException] = None
        self.progress = progress
        self.function = _abi.PROGRESS(self.told)  # must live as long as the call
        self.raw = options(tn_context, progress=self.function)

    def told(self, _: Any, stage: bytes, done: int, total: int) -> bool:
        try:
            return self.failed is None and (self.progress is None or
                                            self.progress(stage.decode(), done, total) is not False)
        except BaseException as failure:  # raised again when the call returns
            self.failed = failure
            return False

    def interrupted(self, *_: Any) -> None:
        """Handles Ctrl-C during a call into C; an exception raised here would be lost inside the callback."""
        self.failed = self.failed or KeyboardInterrupt()

    def __enter__(self) -> Any:
        self.before = None
        if threading.current_thread() is threading.main_thread() and \
                signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            self.before = signal.signal(signal.SIGINT, self.interrupted)
        return ctypes.pointer(self.raw)

    def __exit__(self, *_: Any) -> None:
        if self.before is not None:
            signal.signal(signal.SIGINT, self.before)
        if self.failed is not None:
            raise self.failed
