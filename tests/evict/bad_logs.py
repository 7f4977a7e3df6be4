"""Logs that are none: refused with file and line, status 2, nothing on standard output.

    bad_logs.py TENURE
"""
import json
import pathlib
import subprocess
import sys
import tempfile

CONSTANT = ['{"INSTRUCTION":"CONSTANT","NAME":"x"}', '{"INSTRUCTION":"MEMORY","MEMORY":"8","NAME":"x"}']


def call(name="y", arguments=("x",), time='"5"', memory='"8"', alias='"-1"', results=None, more=""):
    results = json.dumps([name] if results is None else results)
    return [f'{{"INSTRUCTION":"CALL","NAME":"f","ARGS":{json.dumps(list(arguments))},"RESULT":{results},"TIME":{time}{more}}}',
            f'{{"INSTRUCTION":"MEMORY","MEMORY":{memory},"NAME":"{name}"}}',
            f'{{"INSTRUCTION":"ALIAS","ALIAS":{alias},"NAME":"{name}"}}']


def mutate(numbers, time='"5"'):
    return [f'{{"INSTRUCTION":"MUTATE","NAME":"f_","ARGS":["x"],"MUTATE":{numbers},"TIME":{time}}}']


# lines, the line that must be named, a word of the message
BAD = {
    "empty": ([], 0, "no CALL"),
    "no operator": (CONSTANT, 2, "no CALL"),
    "no JSON": ([*CONSTANT, "{"], 3, "JSON"),
    "truncated": ([*CONSTANT, call()[0][:40]], 3, "JSON"),
    "a list": (["[1]"], 1, "object"),
    "a member twice": (['{"INSTRUCTION":"ANNOTATE","INSTRUCTION":"CALL"}'], 1, "JSON"),
    "bad UTF-8": ([*CONSTANT, '{"INSTRUCTION":"RELEASE","NAME":"\udcff"}'], 3, "JSON"),
    "no instruction": (['{"NAME":"x"}'], 1, "INSTRUCTION"),
    "unknown instruction": (['{"INSTRUCTION":"JUMP"}'], 1, "JUMP"),
    "no memory": ([CONSTANT[0], *call()], 2, "MEMORY"),
    "memory of another": ([CONSTANT[0], CONSTANT[1].replace("x", "z")], 2, "x"),
    "memory at the end": ([CONSTANT[0]], 1, "MEMORY"),
    "memory alone": ([CONSTANT[1]], 1, "MEMORY"),
    "negative memory": ([*CONSTANT, *call(memory='"-8"')], 4, "negative"),
    "huge memory": ([*CONSTANT, *call(memory='"99999999999999999999"')], 4, "integer"),
    "above the limit": ([*CONSTANT, *call(memory=str(2 ** 61 + 1))], 4, "2^61"),
    "memory of words": ([*CONSTANT, *call(memory='"many"')], 4, "integer"),
    "real memory": ([*CONSTANT, *call(memory="8.5")], 4, "integer"),
    "negative time": ([*CONSTANT, *call(time='"-1"')], 3, "negative"),
    "no time": ([*CONSTANT, '{"INSTRUCTION":"CALL","NAME":"f","ARGS":["x"],"RESULT":["y"]}'], 3, "TIME"),
    "unknown tensor": ([*CONSTANT, *call(arguments=["z"])], 3, "z"),
    "a cycle": ([*CONSTANT, *call(arguments=["x", "y"])], 3, "y"),
    "a cycle of two": ([*CONSTANT, *call("y", ["z"]), *call("z", ["y"])], 3, "z"),
    "made twice": ([*CONSTANT, *call(), *call()], 8, "second"),
    "a constant twice": ([*CONSTANT, *CONSTANT], 4, "second"),
    "no results": ([*CONSTANT, *call(results=[])[:1]], 3, "RESULT"),
    "results of numbers": ([*CONSTANT, *call(results=[7])], 3, "RESULT"),
    "arguments of numbers": ([*CONSTANT, *call(arguments=[7])], 3, "ARGS"),
    "too few results": ([*CONSTANT, *call(results=["y", "z"])], 5, "MEMORY"),
    "alias out of range": ([*CONSTANT, *call(alias='"1"')], 5, "ALIAS"),
    "alias below": ([*CONSTANT, *call(alias='"-2"')], 5, "ALIAS"),
    "mutates nothing": ([*CONSTANT, *mutate("[]")], 3, "MUTATE"),
    "mutates out of range": ([*CONSTANT, *mutate("[1]")], 3, "MUTATE"),
    "mutates words": ([*CONSTANT, *mutate('["a"]')], 3, "MUTATE"),
    "released twice": ([*CONSTANT, *call(), '{"INSTRUCTION":"RELEASE","NAME":"y"}', '{"INSTRUCTION":"RELEASE","NAME":"y"}'], 7,
                       "y"),
    "used after release": ([*CONSTANT, *call(), '{"INSTRUCTION":"RELEASE","NAME":"y"}', *call("z", ["y"])], 7, "y"),
    "copy of nothing": ([*CONSTANT, '{"INSTRUCTION":"COPY","DST":"z","SRC":"q"}'], 3, "q"),
    "copy to a name that is": ([*CONSTANT, *call(), '{"INSTRUCTION":"COPY","DST":"y","SRC":"x"}'], 6, "y"),
    "copy from to nothing": ([*CONSTANT, '{"INSTRUCTION":"COPY_FROM","DST":"q","SRC":"x"}'], 3, "q"),
    "a member that is none": ([*CONSTANT, *call(more=',"SCRATHC":"64"')], 3, "SCRATHC"),
    "a member of another line": ([*CONSTANT, *call(more=',"IN_PLACE":1')], 3, "IN_PLACE"),
    "a part of a member": ([*CONSTANT, *call(more=',"RESUL":["y"]')], 3, "RESUL"),
    "a version": (['{"INSTRUCTION":"CONSTANT","NAME":"x","VERSION":999}', CONSTANT[1]], 1, "VERSION"),
    "a member of memory": ([CONSTANT[0], '{"INSTRUCTION":"MEMORY","MEMORY":"8","NAME":"x","BYTES":8}'], 2, "BYTES"),
    "a member of an alias": ([*CONSTANT, *call()[:2], '{"INSTRUCTION":"ALIAS","ALIAS":"0","NAME":"y","OFFSET":"4"}'], 5, "OFFSET"),
    "a member of a release": ([*CONSTANT, *call(), '{"INSTRUCTION":"RELEASE","NAME":"y","AT":3}'], 6, "AT"),
    "overwritten": ([*CONSTANT, '{"INSTRUCTION":"COPY","DST":"w","SRC":"x"}',
                     '{"INSTRUCTION":"MUTATE","NAME":"f_","ARGS":["x"],"MUTATE":[0],"TIME":"1","IN_PLACE":1}',
                     *call("y", ["w"])], 5, "overwritten"),
}


def run(tenure, path):
    return subprocess.run([tenure, "simulate", path, "--policy", "live", "--budget", "1.0"], capture_output=True, text=True, timeout=1200)


def main():
    tenure, faults = sys.argv[1], []
    with tempfile.TemporaryDirectory() as folder:
        for name, (lines, line, word) in BAD.items():
            path = pathlib.Path(folder) / "run.log"
            path.write_bytes("\n".join(lines).encode("utf-8", "surrogateescape"))
            done = run(tenure, path)
            if done.returncode != 2 or done.stdout or f"run.log:{line}" not in done.stderr or word not in done.stderr:
                faults.append(f"{name}: status {done.returncode}, wanted line {line} and '{word}': {done.stderr.strip()}")
        path.write_text("\n".join([*CONSTANT, *call()]))
        good = run(tenure, path)
        if good.returncode != 0:
            faults.append(f"the good one: {good.stderr}")
        if run(tenure, pathlib.Path(folder) / "absent.log").returncode != 2:
            faults.append("an absent file")
        for words in (["--policy", "none"], ["--budget", "0.0"], ["--budget", "9.5"], ["--budget", "1K"], ["--overhead-max", "0.5"],
                      ["--sweep", "--budget", "0.5"], ["-o", "x.pdf"], ["--alignment", "3", "--addresses"]):
            if subprocess.run([tenure, "simulate", path, *words], capture_output=True).returncode != 2:
                faults.append(f"{words} was taken")
    print("\n".join(faults) or f"{len(BAD)} logs refused")
    sys.exit(bool(faults))


main()
