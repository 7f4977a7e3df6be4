"""Reports: plans as text, files and pages."""
import ctypes
from typing import Any, Optional, Union

from tenure._abi import tn_report, tn_report_fit
from tenure._fit import Fit
from tenure._library import Path, ask, call, options, path, text
from tenure._problem import Layout


def described(layout: Layout) -> Any:
    members = dict(layout._report)
    fitted = members.pop("fit", None)
    if fitted is not None:
        raw, budget, fixed, abstract = fitted
        members["fit"] = ctypes.pointer(tn_report_fit(result=ctypes.pointer(raw), budget=budget, fixed_bytes=fixed,
                                                      abstract=abstract))
    members["input"] = text(members.get("input", "problem"), "name")
    return options(tn_report, problem=layout.problem._handle, layout=layout._pointer, occupancy=layout._occupancy,
                   **members)


def report(what: Union[Layout, Fit], file: Optional[Path] = None, *, format: str = "table", columns: int = 0) -> str:
    """Renders a plan: into `file` (the suffix selects the format), or as text that is returned.

    >>> print(tenure.report(layout))            # a table
    >>> tenure.report(layout, "plan.html")      # a page: zoom, search, the holders of memory

    what    a Layout, or a Fit; the page of a Fit also shows the decision for each tensor
    file    .html, .svg, .json, .csv, .h
    format  of the text: "table", "json", "csv", "html", "svg", "summary" (one JSON object), "header"
    columns width of the table; 0: 80
    """
    layout = what.layout if isinstance(what, Fit) else what
    if not isinstance(layout, Layout):
        raise TypeError("report: a Layout or a Fit, not %s" % type(what).__name__)
    raw = described(layout)
    raw.columns = columns
    if file is not None:
        call("tn_report_write", ctypes.byref(raw), path(file))
        return ""
    made, size = ctypes.POINTER(ctypes.c_char)(), ctypes.c_size_t()
    call("tn_report_render", ctypes.byref(raw), text(format, "format"), ctypes.byref(made), ctypes.byref(size))
    try:
        return ctypes.string_at(made, size.value).decode("utf-8", "replace")
    finally:
        ask("tn_report_release", made)
