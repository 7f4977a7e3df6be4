"""`tenure watch` of programs under the preloaded library and the PyTorch allocator: their holders, steps that grow, and
processes that have no table, end, or are not what they were.

    watch.py PRELOAD TORCH STANDIN TENURE FAMILY
"""
import glob
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile

preload, torch, standin, tenure, family = sys.argv[1:6]
folder = tempfile.TemporaryDirectory()
BIG, LEAK, TURNS = 300 << 10, 100001, 60  # family.c


def watch(*arguments):
    return subprocess.run([tenure, "watch", *map(str, arguments)], capture_output=True, text=True, timeout=600)


def seen(pid, *arguments):
    answer = watch(pid, "--once", "--json", *arguments)
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout)


def left(pid):
    return glob.glob("/dev/shm/tenure-watch-%d-*" % pid)


class Program:
    """A program that writes a line when it is to be looked at, and ends at the next line that it reads."""

    def __init__(self, *command, **settings):
        self.process = subprocess.Popen(command, env=dict(os.environ, **settings), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        assert line == "ready\n", line
        self.pid = self.process.pid

    def end(self):
        self.process.communicate("\n")
        assert self.process.returncode == 0 and not left(self.pid), (self.process.returncode, left(self.pid))


def check_holders():
    """Each number is that of the source of the program."""
    program = Program(family, "leak", LD_PRELOAD=preload, TENURE_WATCH="1")
    answer = seen(program.pid)
    table = answer["tables"][0]
    assert (answer["pid"], answer["program"], answer["ended"]) == (program.pid, "preload_family", False), answer
    assert (table["source"], table["exact"], table["dropped"]) == ("preload", True, 0), table
    rows = {(row["line"], row["block_size"]): row for row in table["rows"]}
    assert rows["leak_keep", LEAK]["blocks"] == TURNS and rows["leak_keep", LEAK]["bytes"] == TURNS * LEAK, rows
    assert rows["leak", 2 << 20]["bytes"] == 2 << 20, rows
    assert all(rows["leak", BIG + 4096 * i]["bytes"] == 0 for i in range(12)), rows
    assert {row["module"] for row in table["rows"]} == {"preload_family"}, rows
    assert table["bytes"] == (2 << 20) + TURNS * LEAK, table
    # the peak is in the last turn, with all of it
    assert table["peak"] == table["bytes"] + sum(BIG + 4096 * i for i in range(12)), table
    assert sum(row["peak_bytes"] for row in table["rows"]) == table["peak"], table
    # a turn is a step, recognised after 4 turns or 4 x 64 requests; each has the block of one more turn
    steps = table["steps"]
    assert table["step"] >= TURNS // 2 and len(steps) == min(32, table["step"] - 1), table["step"]
    assert all((step["growth"], step["line"], step["row_growth"]) == (LEAK, "leak_keep", LEAK) for step in steps), steps
    text = watch(program.pid, "--once").stdout
    assert text.count("most by leak_keep, preload_family, blocks of 100,001 bytes\n") == 5, text
    assert "  6,000,060      60    6,000,060    100,001  leak_keep  preload_family\n" in text, text
    sums = seen(program.pid, "--by", "size", "--rows", "1")["tables"][0]
    assert sums["row_count"] == 14 and [row["bytes"] for row in sums["rows"]] == [TURNS * LEAK], sums
    sums = seen(program.pid, "--by", "line")["tables"][0]["rows"]
    assert [(row["line"], row["bytes"]) for row in sums] == [("leak_keep", TURNS * LEAK), ("leak", 2 << 20)], sums
    program.end()


def check_steady():
    """A loop that repeats is not marked, and the same program has no table without the setting."""
    script = "import sys\nfor turn in range(400):\n    a, b = bytearray(100000), bytearray(200000)\n    del a, b\nprint('ready', flush=True); input()"
    program = Program(sys.executable, "-c", script, LD_PRELOAD=preload, TENURE_WATCH="1")
    table = seen(program.pid)["tables"][0]
    assert table["step"] > 10 and all(step["growth"] == 0 for step in table["steps"]), table
    program.end()
    program = Program(sys.executable, "-c", script, LD_PRELOAD=preload, TENURE_WATCH="0")
    answer = watch(program.pid, "--once")
    assert answer.returncode == 2 and "publishes no table" in answer.stderr and "TENURE_WATCH=1" in answer.stderr, answer
    program.end()


def check_torch():
    script = """
import ctypes
library = ctypes.CDLL(%r)
alloc, free = library.tenure_torch_alloc, library.tenure_torch_free
alloc.argtypes, alloc.restype = [ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p], ctypes.c_void_p
free.argtypes, free.restype = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p], None
kept = [alloc(1 << 20, 0, None) for _ in range(3)]
kept.append(alloc(5000, 1, None))  # another device
free(kept[0], 1 << 20, 0, None)
print("ready", flush=True)
input()
""" % torch
    with open(folder.name + "/train.py", "w") as file:
        file.write(script)
    program = Program(sys.executable, folder.name + "/train.py", TENURE_CUDART=standin, STANDIN_DEVICES="2", STANDIN_MEMORY="100000000",
                      TENURE_BUDGET="16MiB", TENURE_LINES="1", TENURE_WATCH="1")
    first, second = seen(program.pid)["tables"]
    assert (first["source"], first["bytes"], first["peak"]) == ("cuda:0", 2 << 20, 3 << 20), first
    assert [(row["line"], row["blocks"]) for row in first["rows"]] == [("train.py:7", 2)], first
    assert (second["source"], second["bytes"]) == ("cuda:1", 5000), second
    program.end()


def check_processes():
    """Numbers that are not those of a watched process."""
    for pid, words in ((0, "error: '0' is not the number of a process"), ("x", "'x' is not"), (1 << 40, "PID"), ((1 << 31) - 1, "there is no process")):
        answer = watch(pid, "--once")
        assert answer.returncode == 2 and words in answer.stderr, answer
    sleeper = subprocess.Popen(["sleep", "600"])
    answer = watch(sleeper.pid, "--once", "--wait", "100ms")
    assert answer.returncode == 2 and "(sleep) publishes no table" in answer.stderr, answer
    # a forged table of that process is not read: it has not mapped it
    with open("/dev/shm/tenure-watch-%d-forged" % sleeper.pid, "wb") as file:
        file.write(b"tnwatch\0" + bytes(100000))
    answer = watch(sleeper.pid, "--once")
    assert answer.returncode == 2 and "publishes no table" in answer.stderr, answer
    sleeper.kill()
    sleeper.wait()
    answer = watch(sleeper.pid, "--once")  # now it may be what a killed process left
    assert answer.returncode == 2 and "-forged: it has version 0" in answer.stderr, answer
    for path in left(sleeper.pid):
        os.remove(path)


def check_ends():
    """A process that ends during the watch, in each way, and one that becomes another program."""
    log = folder.name + "/log.jsonl"
    program = Program(family, "leak", LD_PRELOAD=preload, TENURE_WATCH="1")
    watcher = subprocess.Popen([tenure, "watch", str(program.pid), "--every", "20ms", "--json", "-o", log, "--wait", "1s"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    lines = [watcher.stdout.readline() for _ in range(3)]
    program.end()
    rest, error = watcher.communicate(timeout=600)
    assert watcher.returncode == 0 and "has ended" in error, (watcher.returncode, error)
    with open(log) as file:
        assert file.read() == "".join(lines) + rest
    answers = [json.loads(line)["tables"][0] for line in lines]
    assert answers[0]["steps"] and not answers[1]["steps"] and answers[1]["missed_steps"] == 0, answers[1]

    program = Program(family, "leak", LD_PRELOAD=preload, TENURE_WATCH="1")
    alive = [(row["line"], row["module"]) for row in seen(program.pid)["tables"][0]["rows"]]
    assert all(line and module for line, module in alive), alive
    program.process.send_signal(signal.SIGKILL)
    program.process.wait()
    answer = watch(program.pid, "--json", "-o", log)  # once, as nothing will change
    after = json.loads(answer.stdout)
    assert answer.returncode == 0 and after["ended"] is True and after["program"] == "preload_family", answer
    assert after["tables"][0]["bytes"] == (2 << 20) + TURNS * LEAK, answer
    # functions have the names that they had while the process lived
    assert [(row["line"], row["module"]) for row in after["tables"][0]["rows"]] == alive, (after, alive)
    with open(log) as file:
        assert file.read().count("\n") == len(lines) + rest.count("\n") + 1  # appended
    assert len(left(program.pid)) == 1
    os.remove(left(program.pid)[0])

    script = "import os; kept = bytearray(1 << 20); os.execv('/bin/sh', ['sh', '-c', 'echo ready; read line'])"
    program = Program(sys.executable, "-c", script, LD_PRELOAD=preload, TENURE_WATCH="1", TENURE_LEAST="1MiB")
    assert len(left(program.pid)) == 1
    answer = watch(program.pid, "--once")
    assert answer.returncode == 2 and "publishes no table" in answer.stderr, answer
    os.remove(left(program.pid)[0])
    program.end()


def check_limits():
    """Without room for the table, the program is told and runs on."""
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (100000, 100000))
    result = subprocess.run([family, "loop"], env=dict(os.environ, LD_PRELOAD=preload, TENURE_WATCH="1"), capture_output=True, text=True,
                            preexec_fn=limit)
    assert (result.returncode, result.stdout) == (0, "done\n"), result
    assert result.stderr.count("TENURE_WATCH: /dev/shm/tenure-watch-") == 1 and "File too large" in result.stderr, result.stderr


def check_options():
    for arguments, words in (((), "PID"), ((1, 2), "too many"), ((1, "--every", "0s"), "above 0"), ((1, "--by", "colour"), "line"),
                             ((1, "--rows", "0"), "rows"), ((1, "-o", "log.txt"), ".jsonl"), ((1, "-o", "/nowhere/a.jsonl"), "nowhere"),
                             ((1, "--once", "--every", "1s"), "--every")):
        answer = watch(*arguments)
        assert answer.returncode == 2 and words in answer.stderr and answer.stderr.count("\n") <= 3, (arguments, answer)


check_holders()
check_steady()
check_torch()
check_processes()
check_ends()
check_limits()
check_options()
