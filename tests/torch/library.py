"""The allocator for PyTorch in processes that call it as PyTorch does: settings, memory that is out, forks, traces.

    library.py LIBRARY STANDIN TENURE PLAY
"""
import json
import os
import signal
import subprocess
import sys
import tempfile

library, standin, tenure, play = sys.argv[1:5]
folder = tempfile.TemporaryDirectory()

BEGIN = """
import ctypes, os, sys
torch = ctypes.CDLL(%r)
alloc, free = torch.tenure_torch_alloc, torch.tenure_torch_free
alloc.argtypes, alloc.restype = [ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p], ctypes.c_void_p
free.argtypes, free.restype = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p], None
MiB = 1 << 20
""" % library


def run(script, **settings):
    environment = dict(os.environ, **{"TENURE_CUDART": standin, "TENURE_CUDA": standin, "STANDIN_DEVICES": "2", "STANDIN_MEMORY": "100000000", **settings})
    return subprocess.run([sys.executable, "-c", BEGIN + script], env=environment, capture_output=True, text=True,
                          timeout=1200)


def expect_stopped(result, *words):
    assert result.returncode == -signal.SIGABRT, result
    for word in words:
        assert word in result.stderr, (word, result.stderr)


def check_numbers(memory):
    trace = folder.name + "/run-%s.csv" % memory
    result = run("""
for step in range(40):
    blocks = [(alloc(size, 0, None), size) for size in (3 * MiB, MiB, 700001, 5 * MiB, 2 * MiB)]
    for block, size in reversed(blocks): free(block, size, 0, None)
kept = alloc(MiB, 1, None) if os.environ["TENURE_MEMORY"] == "block" else None
print("done")
""", TENURE_TRACE=trace, TENURE_STATS="1", TENURE_BUDGET="64MiB", TENURE_MEMORY=memory)
    assert (result.returncode, result.stdout) == (0, "done\n"), result
    assert "tenure: 200 blocks of cuda:0; at most 11.7 MiB" in result.stderr, result.stderr
    assert "plans served" in result.stderr, result.stderr
    assert ("tenure: 1 blocks of cuda:1" in result.stderr) == (memory == "block"), result.stderr
    assert ("cuda:0: at most 12.0 MiB (12,582,912 bytes) were had, in granules of 2.0 MiB" in result.stderr) == (memory == "granules"), result.stderr
    for name, blocks in [(trace, 200), (trace + ".cuda1", 1)][:2 if memory == "block" else 1]:
        answer = subprocess.run([tenure, "replay", name, "--pool", "caching", "--json"], capture_output=True, text=True)
        assert answer.returncode == 0 and json.loads(answer.stdout)["blocks"] == blocks, answer
    environment = dict(os.environ, TENURE_CUDART=standin, TENURE_CUDA=standin, TENURE_MEMORY=memory, TENURE_BUDGET="16MiB", TENURE_LINES="1")
    answer = subprocess.run([play, library, trace, "2"], env=environment, capture_output=True, text=True)
    assert answer.returncode == 0 and "400 requests" in answer.stdout, answer
    assert "at most 11.7 MiB" in answer.stdout.split("cudaMalloc")[1], answer.stdout
    assert "TENURE_LINES: this process has no Python" in answer.stderr, answer.stderr


def check_memory_is_out():
    script = "held = [alloc(size * MiB, 0, None) for size in (1, 4, 2)]\nprint(alloc(2 * MiB, 0, None), flush=True)"
    result = run(script, TENURE_BUDGET="8MiB")
    expect_stopped(result, "no block of 2.0 MiB (2,097,152 bytes) on cuda:0", "of 8388608 are free",
                   "3 blocks are held; the largest:\ntenure:   4.0 MiB (4,194,304 bytes), request 2, stream 0",
                   "TENURE_OOM=null")
    result = run(script, TENURE_BUDGET="8MiB", TENURE_OOM="null")
    assert (result.returncode, result.stdout) == (0, "None\n") and "stopped" not in result.stderr, result
    assert "3 blocks are held" in result.stderr, result.stderr
    result = run(script, TENURE_BUDGET="8MiB", TENURE_MEMORY="granules")
    expect_stopped(result, "no block of 2.0 MiB (2,097,152 bytes) on cuda:0", "the budget has no more: 2.0 MiB (2,097,152 bytes) are lacking, 8.0 MiB (8,388,608 bytes) are had",
                   "3 blocks are held; the largest:\ntenure:   4.0 MiB (4,194,304 bytes), request 2, stream 0")


def check_lines():
    """Who asks is a line of the program: the innermost that is not torch's, in every thread, while others hold Python's lock."""
    users, torch = folder.name + "/torch", folder.name + "/site-packages/torch"  # a folder named torch is not torch
    trace, script, inner = folder.name + "/lines.csv", users + "/train, it.py", torch + "/nn.py"
    os.mkdir(users)
    os.makedirs(torch)
    with open(inner, "w") as file:
        file.write("def empty(alloc, size):\n    return alloc(size, 0, None)\n")
    with open(script, "w") as file:
        file.write("import sys, threading\nsys.path.insert(0, sys.argv[1])\nimport nn\n" + BEGIN + """
def work():
    for i in range(300): free(nn.empty(alloc, 1000 + i), 0, 0, None)
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
kept = nn.empty(alloc, 4 * MiB)  # kept
nn.empty(alloc, 5 * MiB)
""")
    kept = 1 + open(script).read().splitlines().index("kept = nn.empty(alloc, 4 * MiB)  # kept")
    environment = dict(os.environ, TENURE_CUDART=standin, TENURE_BUDGET="8MiB", TENURE_LINES="1", TENURE_TRACE=trace)
    result = subprocess.run([sys.executable, script, torch], env=environment, capture_output=True, text=True,
                            timeout=1200)
    expect_stopped(result, "request 1201, stream 0, train it.py:%d\n" % kept, "most is held by 'train it.py:%d'" % kept)


def check_settings():
    one = "alloc(1000, 0, None)"
    expect_stopped(run(one, TENURE_BUDGET="much"), "TENURE_BUDGET: ")
    expect_stopped(run(one, TENURE_OOM="maybe"), "TENURE_OOM is abort or null, not 'maybe'")
    expect_stopped(run(one, TENURE_MEMORY="blocks"), "TENURE_MEMORY is block or granules, not 'blocks'")
    expect_stopped(run(one, TENURE_MEMORY="granules", STANDIN_PAGES="0"), "cuda:0 has no virtual memory management")
    expect_stopped(run(one, TENURE_POOL="cachign"), "caching")
    expect_stopped(run(one, TENURE_CUDART="nowhere.so"), "the CUDA runtime of TENURE_CUDART cannot be loaded")
    expect_stopped(run("alloc(1000, 2, None)"), "there is no CUDA device 2")
    expect_stopped(run(one + "; alloc(1000, 1, None)", TENURE_MEMORY="granules"), "granules are for one device of a process, and cuda:0 has them")
    result = run("for _ in range(30): assert alloc(100 * MiB, 0, None) is None", TENURE_OOM="null", TENURE_BUDGET="8MiB")
    assert result.returncode == 0 and result.stderr.count("no block of") == 10, result.stderr
    assert result.stderr.count("further refused requests are not reported") == 1, result.stderr
    result = run("print(alloc(1000, 0, None), alloc(1000, 0, None))", TENURE_OOM="null", TENURE_BUDGET="1.5K")
    assert result.stdout == "None None\n" and "see the first message" in result.stderr, result


def check_mistakes():
    expect_stopped(run("block = alloc(1000, 0, None); free(block, 1000, 0, None); free(block, 1000, 0, None)"),
                   "freed before, or never given: stopped")
    expect_stopped(run("free(4096, 1000, 1, None)"), "on device 1, which gave nothing")


def check_fork():
    """A child has no CUDA: it is told so, may drop what it inherited, and leaves trace and numbers to its parent."""
    trace = folder.name + "/fork.csv"
    result = run("""
block = alloc(1000, 0, None)
child = os.fork()
if child == 0:
    free(block, 1000, 0, None)
    print(alloc(1000, 0, None), flush=True)
    sys.exit(3)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
free(block, 1000, 0, None)
""", TENURE_OOM="null", TENURE_TRACE=trace, TENURE_STATS="1")
    assert result.returncode == 0 and result.stdout == "None\n", result
    assert result.stderr.count("blocks of cuda:0") == 1 and "'spawn'" in result.stderr, result.stderr
    rows = open(trace).read().split()
    assert rows == ["action,id,size,alignment,stream,name", "alloc,0,1000,0,0,", "free,0,,,,"], rows


check_numbers("block")
check_numbers("granules")
check_memory_is_out()
check_lines()
check_settings()
check_mistakes()
check_fork()
