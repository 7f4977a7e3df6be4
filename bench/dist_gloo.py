#!/usr/bin/python3
"""Data parallel training beside PyTorch's DDP over gloo: the same network, the same ranks, the same samples a rank.

    python3 bench/dist_gloo.py BUILD [NETWORK BATCH] [--ranks 2] [--steps 10] [--rounds 3]

NETWORK is one of training_torch.py (gpt-tiny); BATCH samples are each rank's (2). Ranks are processes, ours by mpirun,
each with one thread; the ways follow each other in every round. For each way, of a step what 2 STEPS take more than
STEPS, the median of all rounds: seconds, and processor seconds of all ranks; and the most memory that a rank had resident,
less what it had before there was a network (of ours: what `tenure list` takes), beside what was planned. SGD with
momentum.
Needs python3-torch and python3-torchvision, and tenure-mpi.so.
"""
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))


def resident(what):
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(what))


def rank(name, batch, steps):
    """One of torch's."""
    import torch
    import torch.distributed as dist
    from torch import nn
    sys.argv = [sys.argv[0], name, ".", str(batch), "1", "0"]
    import training_torch
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(1)
    before = resident("VmRSS")
    net, x, labels = training_torch.made(name, batch)
    net = nn.parallel.DistributedDataParallel(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-6, momentum=0.9)
    start = time.perf_counter()
    for _ in range(steps):
        optimizer.zero_grad(set_to_none=True)
        scores = net(x)
        scores = scores.transpose(1, 2) if name in training_torch.GPTS else scores
        nn.functional.cross_entropy(scores, labels).backward()
        optimizer.step()
    if dist.get_rank() == 0:
        print(json.dumps({"seconds": time.perf_counter() - start, "resident": (resident("VmHWM") - before) * 1024}))


def processor():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def most_resident(command):
    """What it prints, and the most bytes that it or one of its children had: of a process that has no others."""
    done = subprocess.run([sys.executable, __file__, "--most", *command], capture_output=True, text=True, check=True,
                          env=dict(os.environ, OMP_NUM_THREADS="1"))
    return done.stdout, int(done.stderr.split()[-1]) * 1024


def torch_job(options, steps):
    host = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(random.randrange(20000, 60000)), "OPENBLAS_NUM_THREADS": "1",
            "OMP_NUM_THREADS": "1", "WORLD_SIZE": str(options["ranks"])}
    jobs = [subprocess.Popen(["/usr/bin/python3", __file__, "--rank", options["network"], str(options["batch"]), str(steps)],
                             env=dict(os.environ, **host, RANK=str(r)), stdout=subprocess.PIPE, text=True)
            for r in range(options["ranks"])]
    told = [job.communicate()[0] for job in jobs]
    if any(job.returncode for job in jobs):
        sys.exit("a rank of PyTorch failed")
    return json.loads(told[0])


def our_job(options, steps, shard, folder):
    network = options["network"]
    data = f"text:{folder}/text" if network.startswith("gpt") else f"{folder}/x.npy,{folder}/y.npy"
    command = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", str(options["ranks"]),
               f"{options['build']}/tenure", "train", f"{folder}/{network}.onnx", "--data", data, "--steps", str(steps),
               "--optimizer", "momentum", "--lr", "1e-6", "--shard", shard, "--json", "--log", f"{folder}/log.csv"]
    text, most = most_resident(command)
    told = json.loads(text)
    planned = max(r["measured_peak"] + r["weights"] for r in told["ranks"])
    before = most_resident([f"{options['build']}/tenure", "list", "orders"])[1]
    return {"seconds": told["seconds"], "planned": planned, "resident": most - before}


def make_data(options, folder):
    import numpy
    subprocess.run(["/usr/bin/python3", f"{HERE}/training_torch.py", options["network"], folder, str(options["batch"]), "1",
                    "0"], check=True)
    generator = numpy.random.default_rng(1)
    with open(f"{folder}/text", "wb") as file:
        file.write(generator.integers(0, 256, 1 << 18, dtype=numpy.uint8).tobytes())
    if not options["network"].startswith("gpt"):
        numpy.save(f"{folder}/x.npy", generator.random((64, 3, 224, 224), dtype=numpy.float32))
        numpy.save(f"{folder}/y.npy", generator.integers(0, 1000, 64))


def measured(job, steps):
    """Seconds and processor seconds of a step, and the rest that the longer job tells."""
    marks = [processor()]
    short = job(steps)
    marks.append(processor())
    told = job(2 * steps)
    marks.append(processor())
    told["seconds"] = (told["seconds"] - short["seconds"]) / steps
    told["processor"] = (marks[2] - 2 * marks[1] + marks[0]) / steps
    return told


def main():
    words = sys.argv[1:]
    options = {"ranks": 2, "steps": 10, "rounds": 3}
    for name in list(options):
        if f"--{name}" in words:
            at = words.index(f"--{name}")
            options[name] = int(words[at + 1])
            del words[at:at + 2]
    options.update(build=os.path.abspath(words[0]), network=words[1] if len(words) > 1 else "gpt-tiny",
                   batch=int(words[2]) if len(words) > 2 else 2)
    with tempfile.TemporaryDirectory() as folder:
        make_data(options, folder)
        ways = {"DDP over gloo": lambda steps: torch_job(options, steps)}
        for shard in "none", "optimizer", "parameters":
            ways[f"ours, --shard {shard}"] = lambda steps, shard=shard: our_job(options, steps, shard, folder)
        rounds = {way: [] for way in ways}
        for _ in range(options["rounds"]):
            for way, job in ways.items():
                rounds[way].append(measured(job, options["steps"]))
        print(f"{options['network']}, {options['ranks']} ranks, {options['batch']} samples each\n")
        print("| | ms a step | processor ms, all ranks | MiB resident | planned |\n|---|---|---|---|---|")
        for way, found in rounds.items():
            ms = [sorted(it[what] for it in found)[len(found) // 2] * 1e3 for what in ("seconds", "processor")]
            most, planned = (max(it.get(what, 0) for it in found) / 2 ** 20 for what in ("resident", "planned"))
            print(f"| {way} | {ms[0]:.0f} | {ms[1]:.0f} | {most:.1f} | {planned if planned else 0:.1f} |"
                  .replace("| 0.0 |", "| |"))


if __name__ == "__main__":
    if sys.argv[1] == "--rank":
        rank(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    elif sys.argv[1] == "--most":
        done = subprocess.run(sys.argv[2:], check=False)
        print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr)
        sys.exit(done.returncode)
    else:
        main()
