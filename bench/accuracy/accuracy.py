#!/usr/bin/python3
"""The accuracy of tenure.torch.estimate, measured by the protocol of xMem (Shi et al. 2025).

    accuracy.py LIBRARY [--device cpu|cuda] [--models NAME,...] [--sample N] [--quick] [--jobs N] [--csv FILE]

For each configuration (model, batch size, optimizer):

1. The training step is estimated, without allocating its memory. Then a process trains for two steps, and its peak is
   measured. The relative error is |estimate / peak - 1|.
2. Another process, with other random numbers, trains for two steps within the estimate as its limit. The run fails if it
   needs more.

On the CPU, the peak is the most bytes of tensors that PyTorch's profiler reports: parameters, buffers, inputs and all
memory that operators allocate. PyTorch has no limit for the CPU, so the second process compares its peak with the limit.
On a GPU, the estimated requests are served by Tenure's simulation of PyTorch's caching allocator (`tenure replay`, found
next to LIBRARY), the estimate is what it reserves, the peak is `torch.cuda.max_memory_reserved`, and the limit is set by
`torch.cuda.set_per_process_memory_fraction`. The estimate has no workspaces of cuBLAS and cuDNN. `allocated` in the CSV
file is `torch.cuda.max_memory_allocated`.

Prints a row for each model and a summary; `--csv FILE` receives a row for each run. `--sample N` draws N configurations
of each model, with a fixed seed (default: all configurations). `--quick` runs three small models and checks that no run
fails. Needs python3-torch and python3-torchvision. Exit status: 0 all ran (with --quick: and none failed), 1 otherwise,
77 python3-torch or python3-torchvision is not installed.
"""
import argparse
import csv
import json
import multiprocessing
import multiprocessing.pool
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
STEPS = 2
OPTIMIZERS = "sgd momentum adam adamw rmsprop adagrad".split()
BATCHES = {"vision": (2, 4, 8), "text": (1, 2, 4)}
LARGE = {"qwen3_0_6b": ["sgd", "adam"], "pythia_1b": ["sgd"]}  # any other optimizer needs more than 16 GB
QUICK = [("mobilenet_v3_small", 4, "rmsprop"), ("regnet_x_400mf", 4, "adam"), ("t5_small", 1, "sgd")]
FIELDS = "model batch optimizer estimate peak allocated again error failed".split()


def table(models, names, sample):
    """The configurations: (model, batch, optimizer)."""
    unknown = [name for name in names if name not in models.NAMES]
    if unknown:
        sys.exit("error: no model is named %s; known: %s" % (unknown[0], ", ".join(models.NAMES)))
    found = []
    for name in names:
        every = [(name, batch, optimizer) for batch in BATCHES["vision" if name in models.VISION else "text"]
                 for optimizer in LARGE.get(name, OPTIMIZERS)]
        found += random.Random("accuracy " + name).sample(every, min(sample, len(every))) if sample else every
    return found


# --- one process ---


def train(module, inputs, loss, targets, update):
    for _ in range(STEPS):
        update.zero_grad(set_to_none=True)
        error = loss(module(*inputs), *targets)
        error.backward()
        del error
        update.step()


def measured_cpu(step):
    """The peak, twice: all of it is allocated."""
    from torch.profiler import ProfilerActivity, profile
    module, inputs, _, targets, update = step
    states = [tensor for state in update.state.values() for tensor in state.values() if hasattr(tensor, "data_ptr")]
    given = {tensor.data_ptr(): tensor.numel() * tensor.element_size()
             for tensor in [*module.parameters(), *module.buffers(), *inputs, *targets, *states]}
    held = peak = sum(given.values())
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        train(*step)
    for event in seen.profiler.kineto_results.events():
        if event.name() == "[memory]":
            held += event.nbytes()
            peak = max(peak, held)
    return peak, peak


def measured_cuda(module, inputs, loss, targets, make, limit):
    """The peaks of reserved and of allocated memory; None: it ran out."""
    import torch
    if limit:
        torch.cuda.set_per_process_memory_fraction(min(1.0, limit / torch.cuda.get_device_properties(0).total_memory))
    try:
        module.to("cuda")
        update = make(list(module.parameters()))
        train(module, [x.to("cuda") for x in inputs], loss, [x.to("cuda") for x in targets], update)
    except torch.cuda.OutOfMemoryError:
        return None, None
    return torch.cuda.max_memory_reserved(), torch.cuda.max_memory_allocated()


def reserved(step, optimizer):
    """The estimate for a GPU: the bytes that PyTorch's caching allocator reserves for the estimated requests."""
    import tenure.torch._estimate as place
    module, inputs, loss, targets = step
    with tempfile.NamedTemporaryFile("w", suffix=".csv") as trace:
        trace.write("action,id,size\n")

        class Writer(place.Meter):
            """Writes allocations and frees in the order of the program."""
            known, written = {}, 0

            def write(self, scratch):
                self.find_gone()
                for key in [key for key, (held, _) in self.known.items() if self.live.get(key) is not held]:
                    trace.write("free,b%d,0\n" % self.known.pop(key)[1])
                for key, held in self.live.items():
                    if key not in self.known and held.bytes:
                        self.written += 1
                        self.known[key] = held, self.written
                        trace.write("alloc,b%d,%d\n" % (self.written, held.bytes))
                if scratch:
                    self.written += 1
                    trace.write("alloc,b%d,%d\nfree,b%d,0\n" % (self.written, scratch, self.written))

            def look(self, scratch, operator):
                super().look(scratch, operator)
                self.write(scratch)
        plain, place.Meter = place.Meter, Writer
        try:
            place.estimate(module, inputs, loss=loss, targets=targets, optimizer=optimizer)
        finally:
            place.Meter = plain
        trace.flush()
        command = pathlib.Path(os.environ["TENURE_LIBRARY"]).parent / "tenure"
        replayed = subprocess.run([command, "replay", trace.name, "--pool", "caching", "--json"], capture_output=True, text=True, check=True)
        return json.loads(replayed.stdout)["pools"][0]["reserved_peak"]


def attempt(device, config, seed, limit):
    """Estimates, unless a limit is given, and trains; returns (estimate or limit, peak, allocated), or the error."""
    import torch
    import models
    import tenure.torch
    name, batch, optimizer = config
    try:
        torch.set_num_threads(1)
        torch.manual_seed(seed)
        module, inputs, loss, targets = models.made(name, batch)
        if not limit and device == "cuda":
            found = reserved((module, inputs, loss, targets), optimizer)
        elif not limit:
            found = tenure.torch.estimate(module, inputs, loss=loss, targets=targets, optimizer=optimizer).total
        make = tenure.torch.OPTIMIZERS[optimizer]
        if device == "cuda":
            return (limit or found, *measured_cuda(module, inputs, loss, targets, make, limit))
        return (limit or found, *measured_cpu((module, inputs, loss, targets, make(list(module.parameters())))))
    except Exception as error:  # the parent reports it
        return "%s, batch %d, %s: %s: %s" % (*config, type(error).__name__, error)


# --- all processes ---


def judged(config, first, second):
    estimated, peak, allocated = first
    again = second[1]
    failed = again is None or again > estimated
    return dict(zip(FIELDS, [*config, estimated, peak, allocated, again, abs(estimated / peak - 1), failed]))


def row(name, rows):
    errors = [found["error"] for found in rows]
    apart = [100 * (found["estimate"] / found["peak"] - 1) for found in rows]
    return "| %s | %d | %.3f %% | %.3f %% | %+.3f %% to %+.3f %% | %d of %d |" % (
        name, len(rows), 100 * statistics.median(errors), 100 * max(errors), min(apart), max(apart),
        sum(found["failed"] for found in rows), len(rows))


def both(pool, device, config):
    """The two runs of a configuration; returns its row, or the error."""
    first = pool.apply(attempt, (device, config, 1, 0))
    if isinstance(first, str):
        return first
    if first[1] is None:
        return "%s, batch %d, %s: not enough memory without a limit" % tuple(config)
    second = pool.apply(attempt, (device, config, 2, first[0]))
    return second if isinstance(second, str) else judged(config, first, second)


def protocol(pool, jobs, device, configs, note):
    """Runs everything, `note`s each configuration, and returns the rows and the number of configurations that did not run."""
    rows, broken, mine = [], 0, []
    print("| model | runs | median error | largest error | estimate relative to the peak | failed within the estimate |\n|---|---|---|---|---|---|", flush=True)
    with multiprocessing.pool.ThreadPool(jobs) as threads:
        for at, found in enumerate(threads.imap(lambda config: both(pool, device, config), configs)):
            if isinstance(found, str):
                print("error: " + found, file=sys.stderr, flush=True)
                broken += 1
            else:
                mine.append(found)
                note(found)
            if at + 1 == len(configs) or configs[at + 1][0] != configs[at][0]:
                if mine:
                    print(row(configs[at][0], mine), flush=True)
                rows, mine = rows + mine, []
    return rows, broken


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1].strip())
    parser.add_argument("library")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--models")
    parser.add_argument("--sample", type=int, default=0)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--csv", default=os.devnull)
    options = parser.parse_args()
    os.environ.update(TENURE_LIBRARY=os.path.abspath(options.library), OPENBLAS_NUM_THREADS="1")
    sys.path[:0] = [str(HERE.parents[1] / "bindings/python"), str(HERE)]
    try:
        import torch
        import torchvision
    except ImportError as error:
        print("SKIP: python3-%s is not installed" % error.name)
        sys.exit(77)
    import models
    import tenure.torch  # noqa: F401  (once, for all processes)
    configs = QUICK if options.quick else table(models, options.models.split(",") if options.models else models.NAMES, options.sample)
    print("PyTorch %s, torchvision %s, %s\n" % (torch.__version__, torchvision.__version__, options.device))
    with open(options.csv, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, FIELDS)
        writer.writeheader()

        def note(found):
            writer.writerow(found)
            file.flush()
        with multiprocessing.get_context("fork").Pool(options.jobs, maxtasksperchild=1) as pool:
            rows, broken = protocol(pool, options.jobs, options.device, configs, note)
    if rows:
        print(row("all", rows))
    sys.exit(1 if broken or options.quick and any(found["failed"] for found in rows) else 0)


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    main()
