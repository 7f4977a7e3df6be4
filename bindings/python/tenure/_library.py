"""Finds libtenure, loads it once, and makes exceptions of its errors."""
import ctypes
import os
import pathlib
import signal
import threading
import weakref
from typing import Any, Callable, List, Optional, Tuple, Type, TypeVar, Union

from tenure import _abi
from tenure._abi import STATUSES, tn_context, tn_error

VERSION = "0.1.0"  # of this package, and of the libraries that it can use: 0.1.x
SPARE = 512  # bytes behind a struct that the library fills, should it know of more members
Progress = Optional[Callable[[str, int, int], Optional[bool]]]
Path = Union[str, "os.PathLike[str]"]
S = TypeVar("S", bound=ctypes.Structure)


class Error(Exception):
    """What libtenure refused, or could not do.

    status   name of the outcome: "E_INFEASIBLE" (proved), "E_EXHAUSTED", "E_INVALID", "E_UNSUPPORTED", ...
    message  one sentence: what is wrong, and what to do
    where    file and line, byte or node; "" if nowhere
    least    of `fit`: the answer that needs least, where nothing fits; else None
    claims, hints   of `fit`: what is known of which techniques, and what would fit
    conflict of `verify`: what is wrong, as a tenure.Conflict; else None
    """

    __module__ = "tenure"  # as users catch it, in tracebacks, too

    def __init__(self, status: str, message: str, where: str = "") -> None:
        super().__init__("%s: %s" % (where, message) if where else message)
        self.status, self.message, self.where = status, message, where
        self.least: Any = None
        self.claims: Any = []
        self.hints: Any = []
        self.conflict: Any = None


def places() -> Tuple[str, ...]:
    """Where the library may be, in the order in which it is looked for."""
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
    raise Error("E_UNSUPPORTED", "libtenure is not found (%s); install it, or name the file in TENURE_LIBRARY"
                % "; ".join(reasons))


def check_version(library: ctypes.CDLL) -> None:
    try:
        library.tn_version.restype = ctypes.c_char_p
        version = library.tn_version().decode()
    except AttributeError:
        raise Error("E_UNSUPPORTED", "%s is no libtenure: it has no tn_version" % library._name) from None
    if version.split(".")[:2] != VERSION.split(".")[:2]:
        raise Error("E_UNSUPPORTED", "%s is version %s, and this package is for %s: install those of one version"
                    % (library._name, version, VERSION))


def load() -> ctypes.CDLL:
    library = open_library()
    check_version(library)
    for name, (result, arguments) in _abi.FUNCTIONS.items():
        try:
            function = getattr(library, name)
        except AttributeError:
            raise Error("E_UNSUPPORTED", "%s has no %s: it is not of version %s, or only a part of it was built"
                        % (library._name, name, VERSION)) from None
        function.restype, function.argtypes = result, arguments
    return library


_loaded: Optional[ctypes.CDLL] = None
_lock = threading.Lock()


def library() -> ctypes.CDLL:
    """The library, loaded when something is first asked of it."""
    global _loaded
    with _lock:
        if _loaded is None:
            _loaded = load()
    return _loaded


def version() -> str:
    """The version of libtenure, which is loaded if it was not.

    >>> tenure.version()
    '0.1.0'
    """
    return str(library().tn_version().decode())


def error_of(raw: tn_error) -> Error:
    status = STATUSES[raw.status] if 0 <= raw.status < len(STATUSES) else "E_INTERNAL"
    return Error(status, raw.message.decode("utf-8", "replace"), raw.where.decode("utf-8", "replace"))


def call(name: str, *arguments: Any) -> None:
    """A function that returns a status; its last argument, the error, is ours."""
    raw = tn_error()
    if getattr(library(), name)(*arguments, ctypes.byref(raw)) != 0:
        raise error_of(raw)


def ask(name: str, *arguments: Any) -> Any:
    """A function that cannot fail."""
    return getattr(library(), name)(*arguments)


def options(kind: Type[S], **members: Any) -> S:
    """An option struct; members that are None stay at their default, which is 0."""
    made = kind(**{name: value for name, value in members.items() if value is not None})
    made.struct_size = ctypes.sizeof(kind)
    return made


def room_for(kind: Type[S]) -> S:
    """A zeroed struct for the library to fill, with spare bytes behind it."""
    return kind.from_buffer(ctypes.create_string_buffer(ctypes.sizeof(kind) + SPARE))


def release(handles: List[Tuple[str, Any]], keeps: object) -> None:
    """The last that was made first; what they borrow from (`keeps`) lives until then."""
    while handles:
        destroy, handle = handles.pop()
        getattr(library(), destroy)(handle)


def owned(owner: object, destroy: str, handle: Any, keeps: object = None) -> None:
    """The handle goes when its owner does. Not at exit, when others may still use it: memory ends there anyway."""
    weakref.finalize(owner, release, [(destroy, handle)], keeps).atexit = False


class Owner:
    """Handles that nobody else owns."""

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
        raise TypeError("%s: a text, not %s" % (what, type(value).__name__))
    if "\0" in value:
        raise ValueError("%s: a zero byte within" % what)
    return value.encode("utf-8", "surrogateescape")


def path(value: Path) -> bytes:
    raw = os.fsencode(value)
    if b"\0" in raw:
        raise ValueError("a path with a zero byte within")
    return raw


def number(value: Any, what: str, most: int = (1 << 64) - 1, least: int = 0) -> int:
    """An integer (of Python or numpy) that fits."""
    try:
        found = value.__index__()
    except AttributeError:
        raise TypeError("%s: an integer, not %s" % (what, type(value).__name__)) from None
    if not least <= found <= most:
        raise ValueError("%s: %d is not between %d and %d" % (what, found, least, most))
    return int(found)


def real(value: Any, what: str) -> float:
    """A number of at least 0 that is finite."""
    if isinstance(value, (str, bytes)):
        raise TypeError("%s: a number, not %s" % (what, type(value).__name__))
    found = float(value)
    if not 0 <= found < float("inf"):
        raise ValueError("%s: %r is no finite number of at least 0" % (what, value))
    return found


def size(value: Union[int, str], what: str) -> int:
    """Bytes, as a number or as text: 4096, "96KiB", "1.5GiB"."""
    if not isinstance(value, str):
        return number(value, what)
    found = ctypes.c_uint64()
    call("tn_size_parse", text(value, what), ctypes.byref(found))
    return found.value


class Context:
    """Lets long work be watched and stopped: by `progress`, which returns False for that, and by Ctrl-C."""

    def __init__(self, progress: Progress = None) -> None:
        if progress is not None and not callable(progress):
            raise TypeError("progress: a function of (stage, done, total), not %s" % type(progress).__name__)
        self.failed: Optional[BaseException] = None
        self.progress = progress
        self.function = _abi.PROGRESS(self.told)  # lives as long as the call
        self.raw = options(tn_context, progress=self.function)

    def told(self, _: Any, stage: bytes, done: int, total: int) -> bool:
        try:
            return self.failed is None and (self.progress is None or
                                            self.progress(stage.decode(), done, total) is not False)
        except BaseException as failure:  # it goes on where the call returns
            self.failed = failure
            return False

    def interrupted(self, *_: Any) -> None:
        """Ctrl-C while C works: an exception would be raised within the callback, where nobody could catch it."""
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
