"""Trainings on a GPU under PyTorch's own allocators and in libtenure_torch.so's pool: what is reserved, and how long a step takes.

    python3 bench/torch_cuda.py build [--only NAME,..] [--ways WAY,..] [--steps N] [--together N] [--keep FOLDER] [--least]

Each training runs in a process of its own for each way; losses must be the same to the last bit. In use: the most bytes that live
at once, as PyTorch counts them (rounded to 512). Reserved: the most that the way had of the device for tensors; of ours what it took
of its block (tenure) or had in granules (TENURE_MEMORY). The traces that it writes stay in FOLDER. Milliseconds of a step are the median
behind the first five, and mean something with --together 1 alone. --least: instead, whether each training ends in so many times
what is in use (fractions of the device for PyTorch's own, TENURE_BUDGET for ours). Needs PyTorch 2 with CUDA, and torchvision.
"""
import argparse
import concurrent.futures
import json
import os
import re
import runpy
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
CONF = "PYTORCH_CUDA_ALLOC_CONF"
WAYS = {"caching": {}, "expandable": {CONF: "expandable_segments:True"}, "async": {CONF: "backend:cudaMallocAsync"},
        "tenure": {}, "granules": {"TENURE_MEMORY": "granules"}}
OURS = ("tenure", "granules")


# --- one training ---

def pictures(torch, batch, side=224):
    return torch.randn(batch, 3, side, side, device="cuda"), torch.randint(10, (batch,), device="cuda")


def words(torch, batch, length):
    text = torch.randint(32000, (batch, length + 1), device="cuda")
    return text[:, :-1], text[:, 1:]


def language(torch, layers=12, width=768, heads=12, again=False):
    from torch import nn
    from torch.utils.checkpoint import checkpoint

    class Language(nn.Module):
        def __init__(self):
            super().__init__()
            self.words = nn.Embedding(32000, width)
            self.layers = nn.ModuleList(nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=0.1, batch_first=True)
                                        for _ in range(layers))
            self.head = nn.Linear(width, 32000)

        def forward(self, x):
            x = self.words(x)
            for layer in self.layers:
                x = checkpoint(layer, x, use_reentrant=False) if again else layer(x)
            return self.head(x)

    return Language()


def recurrent(torch):
    from torch import nn

    class Recurrent(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.lstm, self.head = nn.Embedding(32000, 512), nn.LSTM(512, 1024, 3), nn.Linear(1024, 32000)

        def forward(self, x):
            return self.head(self.lstm(self.words(x))[0])

    return Recurrent()


def skips(torch):
    import torch_steps
    return torch_steps.Skips(48)


def vision(name):
    def make(torch):
        import torchvision
        return getattr(torchvision.models, name)(num_classes=10)
    return make


# name: model, batch of a step, parts of a batch before the optimizer steps, steps between evaluations, in bfloat16
TRAININGS = {
    "resnet50": (vision("resnet50"), lambda t, step: pictures(t, 48), 1, 0, False),
    "vit_b_16": (vision("vit_b_16"), lambda t, step: pictures(t, 24), 1, 0, True),
    "densenet121": (vision("densenet121"), lambda t, step: pictures(t, 24), 1, 0, False),
    "language": (language, lambda t, step: words(t, 8, 512), 1, 0, True),
    "checkpoint": (lambda t: language(t, again=True), lambda t, step: words(t, 8, 512), 1, 0, True),
    "lengths": (lambda t: language(t, 6), lambda t, step: words(t, 8, 64 + int(t.randint(448, (1,)))), 1, 0, False),
    "lstm": (recurrent, lambda t, step: words(t, 32, 128), 1, 0, False),
    "unet": (skips, lambda t, step: pictures(t, 16), 1, 0, False),
    "accumulate": (vision("convnext_tiny"), lambda t, step: pictures(t, 12), 4, 0, True),
    "evaluate": (vision("efficientnet_b0"), lambda t, step: pictures(t, 24), 1, 5, False),
    "sizes": (vision("resnet18"), lambda t, step: pictures(t, 32, 32 * (5 + step % 4)), 1, 0, False),
}


def loss_of(torch, net, batch, half):
    with torch.autocast("cuda", torch.bfloat16, enabled=half):
        answer = net(batch[0])
        return torch.nn.functional.cross_entropy(answer.reshape(-1, answer.shape[-1]), batch[1].reshape(-1))


def train(name, steps, way, library, limit):
    """In a process of its own: one line of JSON."""
    import torch
    sys.path.insert(0, HERE)
    if way in OURS:
        runpy.run_path(os.path.join(HERE, "../examples/pytorch/cuda.py"))["use_pool"](library)
    elif limit:
        torch.cuda.set_per_process_memory_fraction(limit / torch.cuda.get_device_properties(0).total_memory)
    torch.manual_seed(1)
    torch.use_deterministic_algorithms(True, warn_only=True)
    make, batch_of, parts, evaluates, half = TRAININGS[name]
    net = make(torch).cuda()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-4)
    losses, seconds = [], []
    for step in range(steps):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        for _ in range(parts):
            loss = loss_of(torch, net, batch_of(torch, step), half)
            loss.backward()
        optimizer.step()
        losses.append(loss.item().hex())
        seconds.append(time.perf_counter() - begin)
        if evaluates and step % evaluates == evaluates - 1:
            net.eval()
            with torch.no_grad():
                losses.append(loss_of(torch, net, batch_of(torch, step), half).item().hex())
            net.train()
    told = {"losses": losses, "seconds": statistics.median(seconds[5:] or seconds)}
    if not way in OURS:
        told.update(live=torch.cuda.max_memory_allocated(), reserved=torch.cuda.max_memory_reserved(),
                    retries=torch.cuda.memory_stats().get("num_alloc_retries", 0))
    print(json.dumps(told))


# --- all of them ---

def run(options, name, way, limit=0):
    settings = dict(os.environ, CUBLAS_WORKSPACE_CONFIG=":4096:8", **WAYS[way])
    trace = os.path.join(options.keep, "%s-%s.csv" % (name, way))
    if way in OURS:
        settings["TENURE_STATS"] = "1"
        if limit:
            settings["TENURE_BUDGET"] = str(limit)
        else:
            settings.update(TENURE_BUDGET=options.budget, TENURE_TRACE=trace)
    library = os.path.abspath(os.path.join(options.build, "libtenure_torch.so"))
    done = subprocess.run([sys.executable, os.path.abspath(__file__), library, "--train", name, way, str(options.steps), str(int(limit))],
                          capture_output=True, text=True, env=settings)
    if done.returncode != 0:
        return {"failed": (done.stderr.strip().splitlines() or ["status %d" % done.returncode])[-1], "stderr": done.stderr}
    told = json.loads(done.stdout.splitlines()[-1])
    told["stderr"] = done.stderr
    found = re.search(r"at most .*?\(([\d,]+) bytes\) in use, .*?\(([\d,]+) bytes\) reserved", done.stderr)
    if found:
        told["asked"], told["reserved"] = (int(word.replace(",", "")) for word in found.groups())
    found = re.search(r"at most .*?\(([\d,]+) bytes\) were had", done.stderr)
    if found:
        told["reserved"] = int(found.group(1).replace(",", ""))
    return told


def table(options):
    print("| training | way | in use, MiB | reserved, MiB | times in use | ms a step | losses | retries |\n|---|---|---:|---:|---:|---:|---|---:|", flush=True)
    with concurrent.futures.ThreadPoolExecutor(options.together) as several:
        jobs = [(name, way, several.submit(run, options, name, way)) for name in options.only.split(",") for way in options.ways.split(",")]
        first = {}
        for name, way, job in jobs:
            told = job.result()
            if "failed" in told:
                print("| %s | %s | %s |" % (name, way, told["failed"]), flush=True)
                continue
            first.setdefault(name, told)
            live = first[name].get("live", told.get("asked", 1))
            print("| %s | %s | %.1f | %.1f | %.3f | %.2f | %s | %s |"
                  % (name, way, live / 2**20, told.get("reserved", 0) / 2**20, told.get("reserved", 0) / live, 1e3 * told["seconds"],
                     "same" if told["losses"] == first[name]["losses"] else "DIFFER", told.get("retries", "")), flush=True)
            if way in OURS:
                print("  " + " ".join(line for line in told["stderr"].splitlines() if line.startswith("tenure:")), flush=True)


def least(options):
    """All shares are tried, as what ends need not be monotone."""
    shares = [float(word) for word in options.shares.split(",")]
    print("| training | way | in use, MiB | ends at, times in use |\n|---|---|---:|---|", flush=True)
    with concurrent.futures.ThreadPoolExecutor(options.together) as several:
        plain = {name: several.submit(run, options, name, "caching") for name in options.only.split(",")}
        lives = {name: job.result()["live"] for name, job in plain.items()}
        jobs = [(name, way, [several.submit(run, options, name, way, int(lives[name] * share)) for share in shares])
                for name in lives for way in options.ways.split(",")]
        for name, way, tried in jobs:
            told = [job.result() for job in tried]
            ends = [("%.2f %s" % (share, "yes (%.1f ms)" % (1e3 * one["seconds"]) if "failed" not in one else "no")) for share, one in zip(shares, told)]
            print("| %s | %s | %.1f | %s |" % (name, way, lives[name] / 2**20, ", ".join(ends)), flush=True)


def main():
    if "--train" in sys.argv:
        library, _, name, way, steps, limit = sys.argv[1:]
        return train(name, int(steps), way, library, int(limit))
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("build")
    parser.add_argument("--only", default=",".join(TRAININGS))
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--together", type=int, default=1)
    parser.add_argument("--budget", default="16GiB", help="of the tables' tenure")
    parser.add_argument("--keep", default=".", help="for the traces")
    parser.add_argument("--least", action="store_true")
    parser.add_argument("--shares", default="1.01,1.03,1.06,1.1,1.15,1.25")
    options = parser.parse_args()
    (least if options.least else table)(options)


if __name__ == "__main__":
    sys.exit(main())
