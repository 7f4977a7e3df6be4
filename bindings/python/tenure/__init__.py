"""Tenure from Python: the memory of neural networks planned, proved, estimated, made to fit, and drawn.

    >>> import tenure
    >>> layout = tenure.plan([600, 500, 700], first=[0, 1, 3], last=[3, 4, 6])
    >>> layout.peak, layout.verdict
    (1200, 'optimal')
    >>> print(tenure.report(layout))

    plan, verify, Problem, Layout   offsets for buffers or for a model, proved; anybody's offsets, judged
    load, Graph                     a model's file (.onnx, .tflite), without its weights
    estimate                        how much memory will it need?
    fit                             a budget of bytes, and the fastest program that keeps to it
    report                          tables, JSON, pages
    tenure.torch                    for modules of PyTorch: estimate, fit
    python3 -m tenure.record        what an unchanged PyTorch program does, as a log that `tenure simulate` reads

All of it is libtenure's work: this package is its C interface (ctypes), with numpy's arrays in and out where numpy is
installed. The library is the file that TENURE_LIBRARY names, else libtenure.so.0 beside this package, else where the
system's loader finds it; it is loaded when something is first asked of it. What it refuses becomes tenure.Error; a
wrong type TypeError, a number out of bounds ValueError.

Units: bytes; steps for times; every interval is half open, so a buffer that dies at step 3 and one that is born then
may share bytes. Sizes may be texts such as "2GiB" where that is said. Threads: objects are read by any number of
threads, and changed by one at a time; long calls let other threads run, and end with Ctrl-C.
"""
from tenure._estimate import Estimate, estimate
from tenure._fit import Claim, Fit, Hint, Step, fit
from tenure._graph import Graph, Operator, Tensor, load
from tenure._library import VERSION as __version__
from tenure._library import Error, version
from tenure._problem import Body, Conflict, Layout, Problem, plan, planners, verify
from tenure._report import report

__all__ = ["Body", "Claim", "Conflict", "Error", "Estimate", "Fit", "Graph", "Hint", "Layout", "Operator", "Problem", "Step", "Tensor",
           "__version__", "estimate", "fit", "load", "plan", "planners", "report", "verify", "version"]
