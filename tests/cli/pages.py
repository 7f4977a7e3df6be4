#!/usr/bin/env python3
"""Every command of every page runs, and prints the lines that the page shows below it.

    pages.py [--write] TENURE SOURCE [PAGE...]

PAGE: README.md, docs/fit.md, ...; without any: README.md and docs/**/*.md. --write replaces shown lines that no longer appear by
the most similar lines of the output; read the difference before you commit it.

A command is a line `$ COMMAND` of an indented or fenced block. It runs in a folder that looks like a fresh clone, one
folder for each page, so a command finds the files that earlier commands of its page wrote. The lines below a command,
up to the next one, must appear in its output in that order. `...` stands for any text in a line, and for any lines if
it is alone. Exit status 1 (does not fit, is not valid) needs a line of output on the page; statuses from 2 upwards need a line that
begins with `tenure:` or `error:`.

A comment before a block says why its commands do not run here, or what they need to run:

    <!-- not run: takes minutes -->
    <!-- needs: mpirun, python3:torch -->      programs; a module of a Python

A command line of a block that lacks its `$ ` would escape: that is an error, unless the block is marked.
"""
import collections
import difflib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

FOLDERS = "examples docs bench fuzz tests tools bindings".split()
TIMEOUT = 1200  # seconds, against hanging
MARK = re.compile(r"<!--\s*(not run|needs):\s*(.*?)\s*-->")
BARE = re.compile(r"(tenure [a-z]+|build/[a-z]+|python3|mpirun|make) ")

Block = collections.namedtuple("Block", "line mark lines")  # mark: (kind, text) or None; lines without their indent
Command = collections.namedtuple("Command", "line text shown mark places")  # places: the line numbers of `shown`


def blocks(text):
    """The indented and fenced blocks of a page, each with the mark before it."""
    mark, fence, block = None, None, None
    lines = text.split("\n") + [""]
    for number, line in enumerate(lines, 1):
        if fence is not None:
            if line.strip().startswith("```"):
                yield Block(block[0], mark, block[1])
                mark, fence, block = None, None, None
            else:
                block[1].append(line[fence:])
            continue
        indented = line.startswith("    ")
        if block is not None and not indented and line.strip():
            yield Block(block[0], mark, block[1])
            mark, block = None, None
        if line.lstrip().startswith("```"):
            fence, block = len(line) - len(line.lstrip()), (number + 1, [])
        elif indented and (block is not None or not lines[number - 2].strip()):
            block = block or (number, [])
            block[1].append(line[4:])
        elif block is not None:
            block[1].append("")
        elif MARK.match(line.strip()):
            mark = MARK.match(line.strip()).groups()
        elif line.strip():
            mark = None
    if block is not None:
        yield Block(block[0], mark, block[1])


def commands(text):
    """The commands of a page, and the lines that lack their `$ `."""
    found, bare = [], []
    for block in blocks(text):
        current = None
        for number, line in enumerate(block.lines, block.line):
            if line.startswith("$ "):
                current = Command(number, line[2:], [], block.mark, [])
                found.append(current)
            elif current is not None and current.text.endswith("\\") and not current.shown:
                found[-1] = current = current._replace(text=current.text[:-1] + line.strip())
            elif current is not None and line.strip():
                current.shown.append(line.rstrip())
                current.places.append(number)
            elif current is None and BARE.match(line) and block.mark is None:
                bare.append((number, line))
    return found, bare


def find(line, printed, start):
    """Where a shown line appears from `start` on; len(printed) if it does not."""
    wanted = re.compile(".*".join(re.escape(part) for part in line.split("...")))
    return next((at for at in range(start, len(printed)) if wanted.search(printed[at])), len(printed))


def missing(shown, output):
    """The first shown line that is not in the output after those before it; None if there is none."""
    at, printed = 0, [line.rstrip() for line in output.split("\n")]
    for line in shown:
        if line.strip() == "...":
            continue
        at = find(line, printed, at) + 1
        if at > len(printed):
            return line
    return None


def similar(command, output):
    """For each shown line that is missing: its place, itself, and the most similar line of the output."""
    changes, start, printed = [], 0, [line.rstrip() for line in output.split("\n")]
    for place, line in zip(command.places, command.shown):
        if line.strip() == "...":
            continue
        at = find(line, printed, start)
        if at == len(printed) and "..." not in line:
            likeness = {at: difflib.SequenceMatcher(None, line, printed[at]).ratio() for at in range(start, len(printed))}
            at = max(likeness, key=likeness.get, default=len(printed))
            if likeness.get(at, 0) < 0.5:
                continue
            changes.append((place, line, printed[at]))
        start = min(at + 1, len(printed))
    return changes


def fault(command, status, output):
    """Why the output is not what the page says; None if it is."""
    line = missing(command.shown, output)
    if line is not None:
        return "does not print '%s'" % line
    if status == 1 and not command.shown:
        return "ends with status 1, and the page shows no line of its output"
    if status > 1 and not any(line.lstrip().startswith(("tenure:", "error:")) for line in command.shown):
        return "ends with status %d" % status
    return None


def lacks(needs):
    for need in needs.split(","):
        program, _, module = need.strip().partition(":")
        if not shutil.which(program):
            return program
        if module and subprocess.run([program, "-c", "import " + module], stderr=subprocess.DEVNULL).returncode:
            return "%s with %s" % (program, module)
    return None


def check_itself():
    page = "text\n\n    $ a\n      one ... two\n    ...\n\n    $ b \\\n        c\n\n<!-- not run: long -->\n\n```sh\n$ d\n```\n\n    tenure plan x\n"
    found, bare = commands(page)
    assert [c.text for c in found] == ["a", "b c", "d"] and found[0].shown == ["  one ... two", "..."], found
    assert [c.mark for c in found] == [None, None, ("not run", "long")], found
    assert [number for number, _ in bare] == [16], bare
    a = Command(1, "a", ["x ... z", "...", "w"], None, [3, 4, 5])
    assert fault(a, 0, "x y z\n1\nw\n") is None
    assert fault(a, 0, "w\nx y z\n") and fault(a, 2, "x y z\nw") and fault(a._replace(shown=[]), 1, "")
    assert fault(a._replace(shown=["tenure: no"]), 2, "tenure: no x") is None
    assert similar(a._replace(shown=["peak 5 bytes", "end"]), "start\npeak 6 bytes\nend\n") == [(3, "peak 5 bytes", "peak 6 bytes")]


def main():
    words = [word for word in sys.argv[1:] if word != "--write"]
    tenure, source = (pathlib.Path(word).resolve() for word in words[:2])
    pages = [source / word for word in words[2:]] or [source / "README.md", *sorted((source / "docs").rglob("*.md"))]
    check_itself()
    ran, left, failed = 0, collections.Counter(), 0
    environment = dict(os.environ, PATH="%s:%s" % (tenure.parent, os.environ["PATH"]), LC_ALL="C.UTF-8",
                       LD_LIBRARY_PATH=str(tenure.parent), TENURE_LIBRARY=str(tenure.parent / "libtenure.so"),
                       PYTHONPATH=str(source / "bindings/python"), OMPI_ALLOW_RUN_AS_ROOT="1",
                       OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMPI_MCA_rmaps_base_oversubscribe="1")
    with tempfile.TemporaryDirectory() as name:
        top = pathlib.Path(name)
        for folder in FOLDERS:  # copies: a command of a page cannot change the source
            shutil.copytree(source / folder, top / folder, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
        for count, page in enumerate(pages):
            place = top / ("page%d" % count)
            place.mkdir()
            for folder in FOLDERS:
                (place / folder).symlink_to(top / folder)
            found, bare = commands(page.read_text())
            for number, line in bare:
                print("FAILED: %s:%d: write '$ ' before it, or mark the block: %s" % (page.relative_to(source), number, line))
                failed += 1
            for command in found:
                kind, text = command.mark or ("", "")
                lacking = lacks(text) if kind == "needs" else None
                if kind == "not run" or lacking:
                    left[text if kind == "not run" else "no " + lacking] += 1
                    continue
                answer = subprocess.run(["bash", "-c", command.text], cwd=place, env=environment, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=TIMEOUT)
                output = answer.stdout.decode(errors="replace")
                why = fault(command, answer.returncode, output)
                ran += 1
                if why:
                    print("FAILED: %s:%d: `%s` %s\n%s" % (page.relative_to(source), command.line, command.text, why,
                                                         "\n".join("    | " + line for line in output.split("\n")[:60])))
                    failed += 1
                if why and "--write" in sys.argv:
                    lines = page.read_text().split("\n")
                    for number, old, new in similar(command, output):
                        lines[number - 1] = lines[number - 1].replace(old, new, 1)
                    page.write_text("\n".join(lines))
    print("%d commands of %d pages ran, %d failed; not run: %d" % (ran, len(pages), failed, sum(left.values())))
    for reason, number in sorted(left.items()):
        print("%6d  %s" % (number, reason))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
