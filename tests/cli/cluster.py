#!/usr/bin/env python3
"""The job file of examples/cluster, with what Slurm would give it: cluster.py TENURE MPIRUN SOURCE

Two network namespaces (nodes.py) are the nodes; where there are none, this machine is the only one. `srun` and `scontrol` are
stand-ins: mpirun starts its helper on the other node by the first one, as it does on a cluster. The job is told that its time is
over, queues again, and goes on to the bits of a run that nobody stopped. What a container is made of is looked at, not made.
"""
import math
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import nodes

TENURE, MPIRUN, FOLDER = os.path.abspath(sys.argv[1]), shutil.which(sys.argv[2]), pathlib.Path(sys.argv[3]).resolve() / "examples" / "cluster"
HERE = pathlib.Path(__file__).resolve().parent
WORDS = ["--batch", "8", "--weights", "random:1", "--optimizer", "adam", "--lr", "0.003", "--log", "run.csv"]
LIMIT_S = 600


def fail(why):
    sys.exit(f"FAILED: {why}\n{pathlib.Path('job.out').read_text() if os.path.exists('job.out') else ''}")


def written():
    """The file as it is: ranks are as many as tasks, and its words are bash's."""
    job, text = FOLDER / "train.sbatch", (FOLDER / "train.sbatch").read_text()
    subprocess.run(["bash", "-n", job], check=True)
    asks = dict(re.findall(r"^#SBATCH --([\w-]+)=(.*)$", text, re.MULTILINE))
    divided = re.search(r"PARALLEL:-([\w=,]+)", text)[1]
    if math.prod(int(part.split("=")[1]) for part in divided.split(",")) != int(asks["nodes"]) * int(asks["ntasks-per-node"]):
        fail(f"{divided} on {asks}")
    if not asks["signal"].startswith("B:USR2@"):
        fail(asks["signal"])
    recipe = (FOLDER / "Containerfile").read_text()
    if set(re.findall(r"^FROM (\S+)", recipe, re.MULTILINE)) != {"debian:bookworm-slim"} or "://" in recipe:
        fail(recipe)


def carried():
    """What a container installs to run by is all that the command is linked with, of packages that there are."""
    if shutil.which("dpkg") is None:
        print("packages are not looked at: no dpkg")
        return
    names = re.findall(r"install-recommends ((?:[\w.+-]+ )+)", (FOLDER / "Containerfile").read_text())[-1].split()
    known = subprocess.run(["dpkg-query", "-L", *names, "libc6"], capture_output=True, text=True, check=False)
    if known.returncode != 0:
        print(f"packages are not looked at: {known.stderr.splitlines()[0]}")
        return
    files = {os.path.realpath(path) for path in known.stdout.split()}
    linked = subprocess.run(["ldd", TENURE], capture_output=True, text=True, check=True).stdout
    for path in re.finditer(r"=> (/\S+)", linked if "san.so" not in linked else ""):  # sanitizers bring more
        if os.path.realpath(path[1]) not in files:
            fail(f"{path[1]} is of none of {names}")


def stand_ins(apart):
    os.mkdir("bin")
    pathlib.Path("bin/scontrol").write_text("#!/bin/bash\necho \"$@\" >>requeued\n")
    # the options of srun, then the command: on the other node, as its only task
    pathlib.Path("bin/srun").write_text("#!/bin/bash\necho srun \"$@\" >>started\nwhile [[ $1 == --* ]]; do shift; done\n"
                                        f"SLURM_NODEID=0 SLURM_PROCID=0 exec {os.getcwd()}/agent.sh other exec \"$@\"\n")
    pathlib.Path("bin/mpirun").write_text(f"#!/bin/bash\nexec {MPIRUN} \"$@\"\n")
    for file in pathlib.Path("bin").iterdir():
        file.chmod(0o755)
    hosts = [node for node, _, _ in nodes.NODES] if apart else [os.uname().nodename]
    os.environ.update({"SLURM_JOB_ID": "77", "SLURM_JOBID": "77", "SLURM_NODELIST": ",".join(hosts), "SLURM_NNODES": str(len(hosts)),
                       "SLURM_TASKS_PER_NODE": "2(x2)" if apart else "4", "SLURM_NTASKS": "4", "SLURM_CPUS_PER_TASK": "1",
                       "PATH": f"{os.getcwd()}/bin:{os.environ['PATH']}", "TENURE": TENURE, "MODEL": "heads.onnx",
                       "PARALLEL": "data=2,tensor=2", "OMPI_MCA_hwloc_base_binding_policy": "none"})
    if apart:
        os.environ.update(OMPI_MCA_btl_tcp_if_include="10.99.0.0/24", OMPI_MCA_oob_tcp_if_include="10.99.0.0/24")


def job(apart, *words):
    command = ["bash", str(FOLDER / "train.sbatch"), *WORDS, *words]
    if apart:
        command = nodes.on_first(command)
    return subprocess.Popen(command, stdout=open("job.out", "a", encoding="utf-8"), stderr=subprocess.STDOUT,
                            env={**os.environ, nodes.MARK: "1"})


def steps():
    return max(0, len(pathlib.Path("run.csv").read_text().splitlines()) - 1) if os.path.exists("run.csv") else 0


def end(process, wanted):
    if process.wait(LIMIT_S) != wanted:
        fail(f"status {process.returncode}, not {wanted}")


def stopped_and_begun_again(apart):
    first = job(apart, "--steps", "1000000")
    limit = time.monotonic() + LIMIT_S
    while steps() < 3:
        if first.poll() is not None:
            if "carries no messages by MPI" in pathlib.Path("job.out").read_text():
                print("SKIP: tenure-mpi.so is not built")
                sys.exit(77)
            fail(f"ended with {first.returncode}")
        if time.monotonic() > limit:
            fail("no step was made")
        time.sleep(0.1)
    first.send_signal(signal.SIGUSR2)  # as Slurm does, to the file's own process alone
    end(first, 140)
    if pathlib.Path("requeued").read_text() != "requeue 77\n" or not os.path.exists("run.ck"):
        fail("it is not queued again")
    if apart and "orted" not in pathlib.Path("started").read_text():
        fail("nothing was started by srun")
    at = steps()
    end(job(apart, "--steps", str(at + 20)), 0)
    subprocess.run([TENURE, "train", "heads.onnx", "--data", "text:book.txt", *WORDS[:-2], "--steps", str(at + 20), "--parallel",
                    "data=2,tensor=2", "--ranks-as-threads", "--checkpoint", "never.ck"], check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)
    if pathlib.Path("run.ck").read_bytes() != pathlib.Path("never.ck").read_bytes():
        fail(f"stopped at step {at}, gone on: the bits are others")
    print(f"{'two nodes' if apart else 'one node'}: stopped at step {at}, queued again, gone on to the same bits")


def main():
    os.environ.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMP_NUM_THREADS="1",
                      OMPI_MCA_mpi_yield_when_idle="1")
    os.environ["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"  # Open MPI's own, as in ranks.py
    written()
    carried()
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, HERE / "train_models.py", folder], check=True)
        os.chdir(folder)
        try:
            lacks = nodes.begin()
            if lacks is not None:
                print(f"one node alone: {lacks}")
            stand_ins(lacks is None)
            stopped_and_begun_again(lacks is None)
        finally:
            nodes.clean()
            nodes.end()
            os.chdir("/")


main()
