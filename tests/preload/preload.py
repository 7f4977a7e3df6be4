"""Programs that know nothing of the preloaded library run under it: the same answers, a trace that replay reads.

    preload.py LIBRARY TENURE FAMILY SOURCE_DIR [torch]
"""
import json
import os
import resource
import subprocess
import sys
import tempfile

library, tenure, family, source = sys.argv[1:5]
folder = tempfile.TemporaryDirectory()


def run(*command, **settings):
    environment = dict(os.environ, LD_PRELOAD=library, **settings)
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=1200)


def replayed(trace, pool="iteration"):
    answer = subprocess.run([tenure, "replay", trace, "--pool", pool, "--json"], capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout)


def check_program():
    for case in ("ways", "grows", "threads", "loop"):
        for pool in ("iteration", "caching", "best-fit", "bfc"):
            trace = "%s/%s-%s.csv" % (folder.name, case, pool)
            result = run(family, case, TENURE_POOL=pool, TENURE_TRACE=trace, TENURE_STATS="1")
            assert (result.returncode, result.stdout) == (0, "done\n"), (case, pool, result)
            blocks = int(result.stderr.split("tenure: ")[1].split()[0])
            assert replayed(trace)["blocks"] == blocks > 40, (case, pool, result.stderr)
    learned = replayed(folder.name + "/loop-iteration.csv")["pools"][0]["learned"]
    assert learned["plans"] == 1 and learned["period"] == 80 and learned["surprises"] == 0, learned


def check_budget():
    result = run(family, "budget", TENURE_BUDGET="8MiB")
    assert (result.returncode, result.stdout) == (0, "done\n"), result
    assert result.stderr.count("TENURE_BUDGET") == 1 and "do not fit" in result.stderr, result.stderr


def check_holes():
    """64 MiB live at most; 32 MiB of holes go back for what fits into none, but not to a pool that keeps them."""
    most = {}
    for pool in ("iteration", "best-fit"):
        result = run(family, "holes", TENURE_POOL=pool)
        kib, done = result.stdout.split()
        assert (result.returncode, done) == (0, "done"), result
        most[pool] = int(kib) / 1024
    assert most["iteration"] < 64 + 16 < most["best-fit"], most


def check_settings():
    for name, value in (("TENURE_POOL", "none"), ("TENURE_BUDGET", "much"), ("TENURE_LEAST", "1.5K")):
        result = run(family, "ways", **{name: value})  # told, and then as without the library
        assert result.returncode == 0 and "tenure: " + name in result.stderr, (name, result)
    result = run(family, "grows", TENURE_TRACE="/proc/none/trace.csv")
    assert result.returncode == 0 and "cannot be written" in result.stderr, result


def check_full_disk():
    """The file ends after a whole row, one line says so, and the statistics count what is lost."""
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
    trace = folder.name + "/full.csv"
    environment = dict(os.environ, LD_PRELOAD=library, TENURE_TRACE=trace, TENURE_STATS="1")
    whole = run(family, "loop", TENURE_TRACE=trace, TENURE_STATS="1")
    rows = open(trace).read().splitlines()
    assert "rows lost" not in whole.stderr and len(rows) > 100, whole.stderr
    # SIGXFSZ has its default action, which would end the program: subprocess restores it
    cut = subprocess.run([family, "loop"], env=environment, capture_output=True, text=True, preexec_fn=limit)
    text = open(trace).read()
    assert (cut.returncode, cut.stdout) == (0, "done\n"), cut
    assert text.endswith("\n") and text.splitlines() == rows[:text.count("\n")] and 900 < len(text) <= 1000, text[-80:]
    assert cut.stderr.count("the trace ends after %d rows" % text.count("\n")) == 1, cut.stderr
    assert "trace: %d rows written, %d rows lost" % (text.count("\n"), len(rows) - text.count("\n")) in cut.stderr, cut.stderr
    replayed(trace)
    # messages do not end the program either, where standard error is a file at the limit
    with open(folder.name + "/full.err", "w") as errors:
        errors.write("x" * 1000)
        errors.flush()
        cut = subprocess.run([family, "loop"], env=environment, stdout=subprocess.PIPE, stderr=errors, text=True, preexec_fn=limit)
    assert (cut.returncode, cut.stdout) == (0, "done\n") and os.path.getsize(folder.name + "/full.err") == 1000, cut
    # nor does a pipe without a reader
    reader = subprocess.Popen(["true"], stdin=subprocess.PIPE)
    reader.wait()
    cut = subprocess.run([family, "loop"], env=dict(environment, TENURE_TRACE="/proc/self/fd/%d" % reader.stdin.fileno()),
                         pass_fds=[reader.stdin.fileno()], capture_output=True, text=True)
    assert (cut.returncode, cut.stdout) == (0, "done\n") and cut.stderr.count("the trace ends after 0 rows") == 1, cut


def children_of(trace, script, tracer=None, **settings):
    """Runs a program that starts others; the blocks that its trace has, and those of each that has a number behind."""
    result = run(sys.executable, "-c", script, family, TENURE_TRACE=tracer or trace, **settings)
    assert result.returncode == 0, result
    path, name = os.path.split(trace)
    blocks = {other: replayed(path + "/" + other)["blocks"] for other in os.listdir(path) if other.startswith(name)}
    return blocks.pop(name, None), sorted(blocks.values())


def check_children():
    """Who was started has the file, even if one that it starts asks first and ends first; one without large blocks has none."""
    start = "import subprocess, sys; loop = lambda: subprocess.run([sys.argv[1], 'loop'], check=True);"
    own, others = children_of(folder.name + "/keeps.csv", start + "keep = bytearray(1 << 20); loop(); subprocess.run(['true'])")
    assert own >= 1 and others == [3200], (own, others)
    own, others = children_of(folder.name + "/late.csv", start + "loop(); loop(); keep = bytearray(1 << 20)",
                              TENURE_LEAST="512KiB")  # Python itself has none so large before
    assert own >= 1 and len(others) == 2 and others[0] == others[1] > 500, (own, others)
    own, others = children_of(folder.name + "/turns.csv", "import os, sys; os.execv(sys.argv[1], ['family', 'loop'])")
    assert (own, others) == (3200, []), (own, others)  # the same process still
    own, others = children_of(folder.name + "/all", start + "loop(); keep = bytearray(1 << 20)", tracer=folder.name + "/all%p.csv")
    assert own is None and len(others) == 2 and 3200 in others, (own, others)


def check_torch():
    try:
        import torch  # noqa: F401
    except ImportError:
        print("SKIP: python3-torch is not installed")
        sys.exit(77)
    for name in ("cnn", "transformer", "loop"):
        script = "%s/examples/pytorch/%s.py" % (source, name)
        plain = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=1200)
        trace = "%s/%s.csv" % (folder.name, name)
        under = run(sys.executable, script, TENURE_TRACE=trace, TENURE_LEAST="4KiB")
        assert plain.returncode == 0 and under.stdout == plain.stdout, (name, under)
        assert replayed(trace)["blocks"] > 50, name
    check_torch_holders()


def check_torch_holders():
    """Tensors of a training loop are rows of `tenure watch`: the kept ones to the byte, those of a step only while it runs."""
    script = """if True:
        import torch
        torch.manual_seed(1)
        kept = [torch.zeros(1000003) for _ in range(3)]
        net = torch.nn.Linear(331, 309)
        optimizer = torch.optim.Adam(net.parameters())
        for step in range(30):
            optimizer.zero_grad(set_to_none=True)
            net(torch.zeros(97, 331)).square().sum().backward()
            optimizer.step()
        print("ready", flush=True)
        input()
    """
    environment = dict(os.environ, LD_PRELOAD=library, TENURE_WATCH="1", OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
    with subprocess.Popen([sys.executable, "-c", script], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout.readline() == "ready\n"
        answer = subprocess.run([tenure, "watch", str(program.pid), "--once", "--json"], capture_output=True, text=True)
        program.communicate("\n")
    assert answer.returncode == 0 and program.returncode == 0, answer.stderr
    (table,) = json.loads(answer.stdout)["tables"]
    tensors = {row["block_size"]: row for row in table["rows"] if row["module"].startswith("libc10")}
    weight, inputs, outputs = 4 * 331 * 309, 4 * 97 * 331, 4 * 97 * 309
    assert tensors[4000012]["blocks"] == 3, tensors
    assert tensors[weight]["blocks"] == 4, tensors[weight]  # the weight, its gradient and two of Adam
    assert tensors[weight]["peak_bytes"] > 4 * weight, tensors[weight]  # Adam's temporaries
    for size in (inputs, outputs):  # a row without blocks may be reused
        assert size not in tensors or tensors[size]["blocks"] == 0, tensors[size]
    # steps are recognised after at least 4 x 64 requests, and their peaks are equal
    assert not any(step["growth"] for step in table["steps"][-3:]), table["steps"]


if sys.argv[5:] == ["torch"]:
    check_torch()
else:
    check_program()
    check_budget()
    check_holes()
    check_settings()
    check_full_disk()
    check_children()
