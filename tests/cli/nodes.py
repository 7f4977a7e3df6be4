"""Two network namespaces as machines, a pair of virtual links between them: for tests of ranks on several machines.

The first runs mpirun, which starts what is to be on the second by agent.sh as it would by a remote shell. Needs root and ip; with
a rate tc, too. The files lie in the folder that is the current one then.
"""
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import sys

NAME = f"tn{os.getpid()}"
NODES = [(f"{NAME}{side}", f"{NAME}{side}0"[-15:], f"10.99.0.{i + 1}") for i, side in enumerate("ab")]
MARK = f"TENURE_TEST_{os.getpid()}"  # in the environment of all that a test starts there


def processes():
    """With the mark in their environment: {process: its rank, or None of what carries ranks}."""
    found = {}
    for entry in pathlib.Path("/proc").iterdir():
        try:
            words = entry.joinpath("environ").read_bytes().split(b"\0") if entry.name.isdigit() else []
            if f"{MARK}=1".encode() not in words or entry.joinpath("stat").read_text().rsplit(")", 1)[1].split()[0] == "Z":
                continue
        except OSError:  # it has ended
            continue
        rank = [int(word.split(b"=")[1]) for word in words if word.startswith(b"OMPI_COMM_WORLD_RANK=")]
        found[int(entry.name)] = rank[0] if rank else None
    return found


def clean():
    for pid in processes():
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def ip(*words):
    return subprocess.run(["ip", *words], capture_output=True, text=True, check=False)


def settle(folder):
    """What mpirun wants to hear from root, and the models of train_models.py in a folder, which is the current one then."""
    os.environ.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMP_NUM_THREADS="1")
    os.environ["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"  # Open MPI's own, as in ranks.py
    subprocess.run([sys.executable, pathlib.Path(__file__).resolve().parent / "train_models.py", folder], check=True)
    os.chdir(folder)


def begin(rate=None):
    """Why there are none, or None. With a rate ("50mbit") the link is as slow as that, both ways."""
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # so that there is an end to it
    for tool in "ip", "unshare", *(["tc"] if rate else []):
        if shutil.which(tool) is None:
            return f"no {tool}"
    if any(ip("netns", "add", node).returncode != 0 for node, _, _ in NODES):
        return "no network namespaces"
    (a, here, _), (b, there, _) = NODES
    done = [ip("link", "add", here, "netns", a, "type", "veth", "peer", "name", there, "netns", b)]
    for node, link, address in NODES:
        done += [ip("-n", node, "addr", "add", f"{address}/24", "dev", link), ip("-n", node, "link", "set", link, "up"),
                 ip("-n", node, "link", "set", "lo", "up")]
        bucket = ["tc", "qdisc", "add", "dev", link, "root", "tbf", "rate", str(rate), "burst", "128kb", "latency", "100ms"]
        if rate and ip("netns", "exec", node, *bucket).returncode != 0:
            return "no token bucket filter"
    pathlib.Path("hosts").write_text("".join(f"{address} slots=2\n" for _, _, address in NODES))
    # what mpirun would give a remote shell: a host, and a command there
    pathlib.Path("agent.sh").write_text(f"#!/bin/bash\nshift\nexec ip netns exec {NODES[1][0]} unshare -u bash -c "
                                        f"\"echo {NODES[1][0]} >/proc/sys/kernel/hostname; $*\"\n")
    os.chmod("agent.sh", 0o755)
    return next((f"no link between namespaces: {one.stderr}" for one in done if one.returncode != 0), None)


def end():
    for node, _, _ in NODES:
        ip("netns", "del", node)


def link(way):
    """"down": what is sent from now on is lost. "up": no longer."""
    ip("-n", NODES[0][0], "link", "set", NODES[0][1], way)


def crossed():
    """Bytes that both machines have sent over the link so far."""
    return sum(int(ip("netns", "exec", node, "cat", f"/sys/class/net/{name}/statistics/tx_bytes").stdout) for node, name, _ in NODES)


def command(mpirun, each, words, more=()):
    """What starts so many ranks on each of both, with these words."""
    words = [mpirun, "-n", str(2 * each), "--map-by", f"ppr:{each}:node", "--hostfile", "hosts", "--mca", "plm_rsh_agent", f"{os.getcwd()}/agent.sh", "--mca", "pml", "ob1", "--mca",
             "btl", "vader,tcp,self", "--mca", "btl_tcp_if_include", "10.99.0.0/24", "--mca", "oob_tcp_if_include", "10.99.0.0/24",
             "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1", *more, "-wdir", os.getcwd(), *words]
    return on_first(words)


def on_first(words):
    """What runs these words on the first machine: the process that is started becomes theirs."""
    pathlib.Path("first.sh").write_text(f"echo {NODES[0][0]} >/proc/sys/kernel/hostname; exec {shlex.join(words)}\n")
    return ["ip", "netns", "exec", NODES[0][0], "unshare", "-u", "bash", "first.sh"]
