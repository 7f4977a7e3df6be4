"""Integers in and out: lists, arrays, numpy arrays if numpy is installed."""
from typing import Any, List, Sequence, Union

from tenure._library import number

try:
    import numpy
except ImportError:  # lists are used instead
    numpy = None  # type: ignore[assignment]

Integers = Union[Sequence[int], Any]  # or a numpy array of any integer type


def integers(values: Integers, what: str, least: int, most: int) -> List[int]:
    """The numbers of a one-dimensional sequence, each checked against its bounds."""
    if numpy is not None and isinstance(values, numpy.ndarray):
        if values.ndim != 1:
            raise ValueError("%s: an array of 1 dimension, not of %d" % (what, values.ndim))
        if values.dtype.kind not in "iu":
            raise TypeError("%s: an array of integers, not of %s" % (what, values.dtype))
        if len(values) and (int(values.min()) < least or int(values.max()) > most):
            wrong = values.min() if int(values.min()) < least else values.max()
            raise ValueError("%s: %d is not between %d and %d" % (what, wrong, least, most))
        return list(values.tolist())
    if isinstance(values, (str, bytes)) or not hasattr(values, "__iter__"):
        raise TypeError("%s: a list or an array of integers, not %s" % (what, type(values).__name__))
    return [number(value, "%s[%d]" % (what, index), most, least) for index, value in enumerate(values)]


def array(pointer: Any, count: int) -> Any:
    """A copy of a C array, as a numpy array (int64) or a list."""
    found = pointer[:count] if count else []
    if numpy is None:
        return found
    return numpy.array(found, dtype=numpy.int64 if max(found, default=0) < 1 << 63 else numpy.uint64)
