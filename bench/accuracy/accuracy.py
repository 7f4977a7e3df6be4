#!/usr/bin/python3
"""The accuracy of tenure.torch.estimate, measured by the protocol of xMem (Shi et al. 2025).

    accuracy.py LIBRARY [--device cpu|cuda] [--models NAME,...] [--quick] [--jobs N] [--csv FILE]

For each model, batch size and optimizer of the table below:

1. The training step is estimated, without allocating its memory.
2. A process trains for three steps, and its peak is measured. The relative error is |estimate / peak - 1|.
3. Another process, with other random numbers, trains for three steps within the estimate as its limit. The run fails if
   it needs more.

On the CPU, the peak is the most bytes of tensors that PyTorch's profiler reports: parameters, buffers, inputs and all
memory that operators allocate. PyTorch has no limit for the CPU, so step 3 compares the peak of the second process with
the limit. On a GPU, the peak is that of `torch.cuda.max_memory_reserved`, and the limit is set by
`torch.cuda.set_per_process_memory_fraction`.

Prints a row for each model and a summary; `--csv FILE` receives a row for each run. `--quick` runs three small models and
checks that no run fails. Needs python3-torch and python3-torchvision. Exit status: 0 all ran (with --quick: and none
failed), 1 otherwise, 77 python3-torch or python3-torchvision is not installed.
"""
import argparse
import concurrent.futures
import csv
import json
import os
import pathlib
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
STEPS = 3
ALL = "sgd momentum adam adamw rmsprop adagrad".split()
BATCHES = {"vision": (4, 16), "text": (1, 4)}
LARGE = {"qwen3_0_6b": ["sgd", "adam"], "pythia_1b": ["sgd"]}  # no other optimizer fits in 16 GB
QUICK = [("mobilenet_v3_small", 4, "rmsprop"), ("regnet_x_400mf", 4, "adam"), ("t5_small", 1, "sgd")]
FIELDS = "model batch optimizer estimate peak again error failed".split()


def table(models, names, vision):
    """The configurations: (model, batch, optimizer)."""
    unknown = [name for name in names if name not in models]
    if unknown:
        sys.exit("error: no model is named %s; known: %s" % (unknown[0], ", ".join(models)))
    return [(name, batch, optimizer) for name in names for batch in BATCHES["vision" if name in vision else "text"]
            for optimizer in LARGE.get(name, ALL)]


# --- one process ---


def prepared(name, batch, seed, device):
    import torch
    import models
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    return models.made(name, batch, device)


def estimate(runs):
    """Prints the estimate of each run, all of one model."""
    import tenure.torch
    for name, batch, optimizer in runs:
        module, inputs, loss, targets = prepared(name, batch, 0, "cpu")
        print(tenure.torch.estimate(module, inputs, loss=loss, targets=targets, optimizer=optimizer).total, flush=True)


def train(module, inputs, loss, targets, update):
    for _ in range(STEPS):
        update.zero_grad(set_to_none=True)
        error = loss(module(*inputs), *targets)
        error.backward()
        del error
        update.step()


def measure_cpu(name, batch, optimizer, seed):
    import torch
    from torch.profiler import ProfilerActivity, profile
    import tenure.torch
    module, inputs, loss, targets = prepared(name, batch, seed, "cpu")
    update = tenure.torch.OPTIMIZERS[optimizer](list(module.parameters()))
    given = {tensor.data_ptr(): tensor.numel() * tensor.element_size()
             for tensor in [*module.parameters(), *module.buffers(), *inputs, *targets]}
    held = peak = sum(given.values())
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        train(module, inputs, loss, targets, update)
    for event in seen.profiler.kineto_results.events():
        if event.name() == "[memory]":
            held += event.nbytes()
            peak = max(peak, held)
    return peak


def measure_cuda(name, batch, optimizer, seed, limit):
    import torch
    import tenure.torch
    if limit:
        torch.cuda.set_per_process_memory_fraction(min(1.0, limit / torch.cuda.get_device_properties(0).total_memory))
    try:
        module, inputs, loss, targets = prepared(name, batch, seed, "cuda")
        train(module, inputs, loss, targets, tenure.torch.OPTIMIZERS[optimizer](list(module.parameters())))
    except torch.cuda.OutOfMemoryError:
        return None
    return torch.cuda.max_memory_reserved()


def measure(device, name, batch, optimizer, seed, limit):
    peak = measure_cpu(name, batch, optimizer, seed) if device == "cpu" else measure_cuda(name, batch, optimizer, seed, limit)
    print(json.dumps(peak))


# --- all processes ---


def process(library, *words):
    environment = dict(os.environ, TENURE_LIBRARY=library, OPENBLAS_NUM_THREADS="1", PYTHONDONTWRITEBYTECODE="1")
    environment["PYTHONPATH"] = os.pathsep.join([str(HERE.parents[1] / "bindings/python"), str(HERE)])
    done = subprocess.run([sys.executable, __file__, library, *map(str, words)], capture_output=True, text=True, env=environment)
    if done.returncode != 0:
        raise RuntimeError("%s: %s" % (" ".join(map(str, words)), done.stderr.strip().splitlines()[-1:]))
    return [json.loads(line) for line in done.stdout.split()]


def run(library, device, config, estimated):
    peak = process(library, "--device", device, "--run", json.dumps([*config, 1, 0]))[0]
    if peak is None:
        raise RuntimeError("%s: the device has not enough memory without a limit" % (config,))
    again = process(library, "--device", device, "--run", json.dumps([*config, 2, estimated]))[0]
    return dict(zip(FIELDS, [*config, estimated, peak, again, abs(estimated / peak - 1), again is None or again > estimated]))


def percent(value):
    return "%.3f %%" % (100 * value)


def row(name, rows):
    errors = [found["error"] for found in rows]
    over = [found["estimate"] / found["peak"] - 1 for found in rows]
    return "| %s | %d | %s | %s | %+.3f %% to %+.3f %% | %d of %d |" % (
        name, len(rows), percent(statistics.median(errors)), percent(max(errors)), 100 * min(over), 100 * max(over),
        sum(found["failed"] for found in rows), len(rows))


def protocol(options, configs):
    """Runs everything; returns the rows in the order of the table, and the number of runs that raised."""
    rows, broken = [], 0
    print("| model | runs | median error | largest error | estimate above peak | failed within the estimate |\n|---|---|---|---|---|---|", flush=True)
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for name in dict.fromkeys(config[0] for config in configs):
            mine = [config for config in configs if config[0] == name]
            try:
                estimates = process(options.library, "--estimate", json.dumps(mine))
            except RuntimeError as error:
                print("| %s | not estimated: %s |" % (name, error), flush=True)
                broken += len(mine)
                continue
            started = [pool.submit(run, options.library, options.device, config, found) for config, found in zip(mine, estimates)]
            done = []
            for future in started:
                try:
                    done.append(future.result())
                except RuntimeError as error:
                    print("error: %s" % error, file=sys.stderr, flush=True)
                    broken += 1
            if done:
                print(row(name, done), flush=True)
            rows += done
    return rows, broken


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1].strip())
    parser.add_argument("library")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--models")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--csv")
    parser.add_argument("--estimate", help=argparse.SUPPRESS)
    parser.add_argument("--run", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.estimate:
        return estimate(json.loads(options.estimate))
    if options.run:
        return measure(options.device, *json.loads(options.run))
    for needed in ("torch", "torchvision"):
        try:
            __import__(needed)
        except ImportError:
            print("SKIP: python3-%s is not installed" % needed)
            sys.exit(77)
    import torch
    import torchvision
    import models
    options.library = os.path.abspath(options.library)
    names = options.models.split(",") if options.models else models.NAMES
    configs = QUICK if options.quick else table(models.NAMES, names, models.VISION)
    print("PyTorch %s, torchvision %s, %s\n" % (torch.__version__, torchvision.__version__, options.device))
    rows, broken = protocol(options, configs)
    if rows:
        print(row("all", rows))
    if options.csv:
        with open(options.csv, "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, FIELDS)
            writer.writeheader()
            writer.writerows(rows)
    sys.exit(1 if broken or options.quick and any(found["failed"] for found in rows) else 0)


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    main()
