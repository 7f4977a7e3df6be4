"""Tenure for Python: plans, verifies, estimates and reports the memory of neural networks, fits them to a budget, trains them.

    >>> import tenure
    >>> layout = tenure.plan([600, 500, 700], first=[0, 1, 3], last=[3, 4, 6])
    >>> layout.peak, layout.verdict
    (1200, 'optimal')
    >>> print(tenure.report(layout))

    plan, verify, Problem, Layout   offsets for buffers or for a model, verified; and a check of offsets from any source
    load, Graph                     a model's file (.onnx, .pt2, .tflite), without its weights
    estimate                        the memory that a model needs
    fit                             the fastest program within a budget of bytes
    train, Training                 training in a planned arena: named inputs, own losses, pruning, integer weights
    report                          tables, JSON, pages
    holders, Watch                  the present holders of memory of a process; a table that this process publishes
    tenure.torch                    estimate, fit and watch for PyTorch modules
    tenure.eager                    operators one at a time within a budget, with gradients
    tenure.executorch               a planner for ExecuTorch's export
    python3 -m tenure.record        records an unchanged PyTorch program, as a log for `tenure simulate`

This package is an interface (ctypes) to libtenure, which does all the work. It accepts and returns numpy arrays if numpy
is installed. The library is loaded at the first call: from the file named by TENURE_LIBRARY, else libtenure.so.0 in this
package's folder, else through the system's loader. Errors of the library raise tenure.Error, a wrong type TypeError, a
number out of bounds ValueError.

Units: bytes; time in steps. Intervals are half open: a buffer that ends at step 3 and one that begins at step 3 may share
bytes. Where noted, sizes may be texts such as "2GiB". Threads: any number of threads may read an object, one at a time
may change it. Long calls release the interpreter lock, and end with Ctrl-C.
"""
from tenure._estimate import Estimate, estimate
from tenure._fit import Claim, Fit, Hint, Step, fit
from tenure._graph import Graph, Operator, Tensor, load
from tenure._library import VERSION as __version__
from tenure._library import Error, version
from tenure._problem import Body, Conflict, Layout, Problem, plan, planners, verify
from tenure._report import report
from tenure._train import Training, Written, train
from tenure._watch import Holder, Past, Table, Watch, holders

__all__ = ["Body", "Claim", "Conflict", "Error", "Estimate", "Fit", "Graph", "Hint", "Holder", "Layout", "Operator", "Past", "Problem", "Step",
           "Table", "Tensor", "Training", "Watch", "Written", "__version__", "estimate", "fit", "holders", "load", "plan", "planners",
           "report", "train", "verify", "version"]
