#!/usr/bin/env python3
"""Compares the memory of the models that a change touches, and checks limits.

    tenure_gate.py [--base REVISION] [--head REVISION | --staged] [--set KEY=VALUE]... [--limits FILE] [--output FILE]

A change is what lies between the merge base of BASE and HEAD, and HEAD; with --staged, between HEAD and the index. Every
changed .tflite and .onnx file is compared with its old revision by `tenure diff`. Where a limit is set, `tenure arena`
checks the arena of a .tflite model, and `tenure plan` that of an .onnx model. The result is one Markdown table.

Limits are lines of a file in the checked-out tree (default: .tenure-limits), as in .gitattributes: a pattern, then
settings. A pattern with a slash must match the whole path, another one the name of the file. If several lines match,
later settings win. A pattern with blanks is written in quotes.

    *.tflite               max-increase=2%
    models/wake_*.tflite   max=64KiB target=cortex-m4 kernels=cmsis-nn
    models/unet.onnx       max=96MiB

    max           the arena must fit in this many bytes
    max-increase  the peak of the tensors may grow by this much, in percent or bytes
    target        processor of the arena (`tenure arena --target`)
    kernels       kernel library of the arena (`tenure arena --kernels`, `tenure plan --kernels`)

--set KEY=VALUE is a setting for all models; lines of the file win. The command is the first `tenure` on the PATH, or the
program that the variable TENURE names.

Exit status: 0 within all limits, 1 a limit is exceeded, 2 a model or a limit cannot be read, or bad usage.
"""
import argparse
import fnmatch
import json
import os
import shlex
import subprocess
import sys
import tempfile

SUFFIXES = (".tflite", ".onnx")
KEYS = ("max", "max-increase", "target", "kernels")
POINTER = b"version https://git-lfs"


class Failure(Exception):
    """A problem that ends the check with status 2."""


def run(command):
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    except OSError as error:
        raise Failure(f"cannot run {command[0]}: {error.strerror}; install Tenure, or set TENURE to its path")
    return done.returncode, done.stdout, done.stderr.decode(errors="replace")


def git(*arguments):
    status, output, errors = run(["git", *arguments])
    if status:
        raise Failure(f"git {arguments[0]}: {errors.strip()}")
    return output


def commit(revision):
    status, output, _ = run(["git", "rev-parse", "--verify", "--quiet", "--end-of-options", revision + "^{commit}"])
    if status:
        raise Failure(f"there is no revision '{revision}' here; fetch it (GitHub: fetch-depth: 0, GitLab: GIT_DEPTH: 0)")
    return output.decode().strip()


def merge_base(base, head):
    status, output, _ = run(["git", "merge-base", base, head])
    if status:
        raise Failure("base and head have no common commit here; fetch the history (GitHub: fetch-depth: 0, GitLab: GIT_DEPTH: 0)")
    return output.decode().strip()


def changed(old, new):
    """(old path, new path) of each changed model; None for a revision without it. `new` is None for the index."""
    where = [old, new] if new else ["--cached", old]
    fields = git("diff", "--name-status", "-z", "--find-renames", "--no-relative", *where, "--").split(b"\0")
    fields = [os.fsdecode(field) for field in fields[:-1]]
    while fields:
        kind, path = fields.pop(0)[0], fields.pop(0)
        if kind in "RC":
            target = fields.pop(0)
            pair = (path if kind == "R" else None, target)
        else:
            pair = (None if kind == "A" else path, None if kind == "D" else path)
        # a file that was renamed to another kind is a model that was deleted, or a new one
        pair = tuple(it if it and it.lower().endswith(SUFFIXES) else None for it in pair)
        if pair[0] and pair[1] and os.path.splitext(pair[0])[1].lower() != os.path.splitext(pair[1])[1].lower():
            yield pair[0], None
            yield None, pair[1]
        elif any(pair):
            yield pair


def read_limits(path, required):
    """(pattern, settings) of each line."""
    try:
        with open(path, encoding="utf-8") as file:
            lines = file.read().splitlines()
    except FileNotFoundError:
        if required:
            raise Failure(f"{path}: no such file")
        return []
    except (OSError, UnicodeDecodeError) as error:
        raise Failure(f"{path}: cannot be read: {error}")
    found = []
    for number, line in enumerate(lines, 1):
        try:
            words = shlex.split(line, comments=True)
        except ValueError as error:
            raise Failure(f"{path}:{number}: {error}")
        if words:
            found.append((words[0], settings(words[1:], f"{path}:{number}")))
    return found


def settings(words, where):
    found = {}
    for word in words:
        key, equals, value = word.partition("=")
        if key not in KEYS or not equals or not value:
            raise Failure(f"{where}: '{word}' is not KEY=VALUE with one of the keys {', '.join(KEYS)}")
        found[key] = value
    return found


def settings_of(path, limits, common):
    found = dict(common)
    for pattern, values in limits:
        if fnmatch.fnmatchcase(path if "/" in pattern else os.path.basename(path), pattern.lstrip("/")):
            found.update(values)
    return found


class Reader:
    """Writes revisions of files into a folder, where `tenure` reads them."""

    def __init__(self, folder):
        self.folder, self.count, self.names = folder, 0, {}

    def file(self, revision, path, name):
        """The path of a copy. `name` replaces it in messages."""
        self.count += 1
        place = os.path.join(self.folder, f"{self.count}{os.path.splitext(path)[1].lower()}")
        # --filters: a file of Git LFS is fetched as in a checkout
        data = git("cat-file", "--filters", f"{revision}:{path}")
        if data.startswith(POINTER):
            raise Failure("a pointer of Git LFS, not the model; install git-lfs and fetch the file")
        with open(place, "wb") as file:
            file.write(data)
        self.names[place] = name
        return place

    def tenure(self, *arguments):
        """(exit status 0 or 1, the object that it printed)."""
        status, output, errors = run([os.environ.get("TENURE") or "tenure", *arguments, "--json"])
        if status not in (0, 1) or (status and not output.strip()):
            lines = [line for line in errors.splitlines() if "error:" in line] or errors.splitlines()[-1:]
            text = lines[0] if lines else f"`tenure {arguments[0]}` ended with status {status}"
            text = text.split("error: ", 1)[-1]
            for place, name in self.names.items():
                text = text.replace(place + ": ", "").replace(place, name)
            raise Failure(text)
        return status, json.loads(output)


def text(name):
    """A name out of a file as code of Markdown: nothing in it ends the cell, the code or the line."""
    name = "".join(c if c.isprintable() else "?" for c in str(name)).replace("`", "'")
    name = name if len(name) <= 80 else name[:40] + "..." + name[-37:]
    return "`" + name.replace("|", "\\|") + "`"


def escaped(message):
    """A sentence of `tenure` as text of Markdown."""
    message = " ".join(str(message).split())
    return "".join("\\" + c if c in "\\`*_{}[]<>()#+!|@~&" else c for c in message if c.isprintable())


def kind(tensor):
    """The operator that writes it."""
    return f" ({escaped(tensor['op'])})" if tensor.get("op") else ""


def grown(difference):
    """The tensors that grew most."""
    more = sorted((t for t in difference["tensors"] if t["change"] > 0), key=lambda t: -t["change"])
    parts = [f"{text(t['new_name'] or t['old_name'])}{kind(t)} {t['change']:+,}" for t in more[:3]]
    if len(more) > 3:
        parts.append(f"{len(more) - 3} more")
    if difference["lost_change"] > 0:
        parts.append(f"alignment and holes {difference['lost_change']:+,}")
    return "grew: " + ", ".join(parts) if parts else ""


def holders(answer):
    """The tensors at the peak of an arena that does not fit."""
    parts = [f"{'scratch of ' if h.get('kind') == 'workspace' else ''}{text(h['name'])}{kind(h)} {h['allocated']:,}"
             for h in answer.get("holders", [])[:3]]
    return "at the peak: " + ", ".join(parts) if parts else ""


class Row:
    def __init__(self, name):
        self.name, self.limit, self.reason = name, "", None
        self.old, self.new = None, None  # peaks in bytes
        self.result, self.notes, self.status = [], [], 0

    def fail(self, status, result):
        self.status = max(self.status, status)
        self.result.append(result)

    def cells(self):
        def number(it):
            return "" if it is None else f"{it:,}"
        change = ""
        if self.old is not None and self.new is not None:
            change = f"{self.new - self.old:+,}"
            if self.old:
                change += f" ({100 * (self.new - self.old) / self.old:+.1f} %)"
        result = "; ".join(self.result) if self.result else "ok"
        if self.status:
            result = f"**{result}**"
        return [self.name, number(self.old), number(self.new), change, self.limit, result, "; ".join(filter(None, self.notes))]


def check_arena(row, reader, place, values):
    """Compares the arena with `max`."""
    limit = values["max"]
    options = [f"--{key}={values[key]}" for key in ("target", "kernels") if key in values]
    if place.endswith(".tflite"):
        status, answer = reader.tenure("arena", f"--max={limit}", *options, place)
        bytes_needed, allowed = answer["total_as_it_is"]["most"], answer["max"]
        if answer.get("fits_with_plan") and status:
            row.notes.append("it fits with a plan inside: `tenure arena MODEL -o planned.tflite`")
    else:
        if "target" in values:
            raise Failure("'target' is a setting of .tflite models")
        status, answer = reader.tenure("plan", f"--capacity={limit}", *options, place)
        bytes_needed, allowed = answer.get("peak"), (answer.get("banks") or [{}])[0].get("capacity")
        if status:  # the answer is the error: what the plan needs is in the claim about the model as it is
            bytes_needed = next((claim.get("bytes") for claim in answer.get("claims", []) if not claim["techniques"]), None)
            row.notes += [f"it would fit in {hint['bytes']:,} with {' and '.join(hint['with'])}: `tenure fit`"
                          for hint in answer.get("would_fit", [])[:1] if hint["within_budget"] and "bytes" in hint]
    row.limit = f"arena {bytes_needed:,} of " if bytes_needed is not None else "arena "
    row.limit += limit if allowed is None else f"{allowed:,}"
    if status:
        row.fail(1, "too large")
        row.notes.append(holders(answer))


def check(reader, old_revision, new_revision, pair, limits, common):
    """The row of one model."""
    old_path, new_path = pair
    row = Row(text(new_path or old_path))
    if old_path and new_path and old_path != new_path:
        row.notes.append(f"was {text(old_path)}")
    values = settings_of(new_path or old_path, limits, common)
    old, new, unreadable = None, None, None
    if old_path:
        try:
            old = reader.file(old_revision, old_path, "the old revision")
            row.old = reader.tenure("diff", old, old)[1]["new"]["peak"]
        except Failure as failure:
            old, unreadable = None, failure
    if not new_path:
        row.result.append("deleted")
        return row
    try:
        new = reader.file(new_revision, new_path, "the model")
        options = [f"--max-increase={values['max-increase']}"] if "max-increase" in values else []
        status, difference = reader.tenure("diff", *(options if old else []), old or new, new)
        row.new = difference["new"]["peak"]
        if old:
            row.notes.append(grown(difference))
        elif unreadable:
            row.notes.append(f"the old revision cannot be read: {escaped(unreadable)}")
        else:
            row.result.append("new")
        if status:
            row.fail(1, f"grew by more than {values['max-increase']}")
        if options and unreadable:
            row.fail(2, "max-increase cannot be checked")
            row.reason = f"max-increase cannot be checked, because the old revision cannot be read: {unreadable}"
        if "max" in values:
            check_arena(row, reader, new, values)
    except Failure as failure:
        row.fail(2, "cannot be checked")
        row.notes.append(escaped(failure))
        row.reason = str(failure)
    return row


def table(rows):
    if not rows:
        return "### Memory of models\n\nThis change touches no .tflite or .onnx model.\n"
    titles = ["model", "peak before", "peak now", "change", "limit", "result", "largest changes and notes"]
    lines = ["### Memory of models", "", "| " + " | ".join(titles) + " |", "|---|--:|--:|--:|---|---|---|"]
    lines += ["| " + " | ".join(row.cells()) + " |" for row in rows]
    exceeded = sum(row.status == 1 for row in rows)
    unread = sum(row.status == 2 for row in rows)
    verdict = [f"models over a limit: {exceeded} of {len(rows)}"] if exceeded else []
    verdict += [f"models that cannot be checked: {unread} of {len(rows)}"] if unread else []
    verdict = "; ".join(verdict) or "all models are within their limits"
    lines += ["", verdict[0].upper() + verdict[1:] + ". Sizes are in bytes. The peak counts the tensors; the arena also contains "
              "the data of the runtime and of its kernels."]
    return "\n".join(lines) + "\n"


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", default="origin/HEAD", help="revision that the change is compared with (default: origin/HEAD)")
    parser.add_argument("--head", default="HEAD", help="revision with the change (default: HEAD)")
    parser.add_argument("--staged", action="store_true", help="check what the next commit would contain")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting for all models; may be repeated")
    parser.add_argument("--limits", metavar="FILE", help="file with limits (default: .tenure-limits, if it exists)")
    parser.add_argument("--output", metavar="FILE", help="write the table to this file, too")
    return parser.parse_args()


def main():
    options = arguments()
    common = settings(options.set, "--set")
    top = os.fsdecode(git("rev-parse", "--show-toplevel")[:-1])
    output = os.path.abspath(options.output) if options.output else None
    limits = read_limits(options.limits or os.path.join(top, ".tenure-limits"), options.limits is not None)
    if options.staged:
        empty = git("hash-object", "-t", "tree", "/dev/null").decode().strip()  # before the first commit
        first = run(["git", "rev-parse", "--verify", "--quiet", "HEAD"])[0]
        old, new = empty if first else commit("HEAD"), None
    else:
        new = commit(options.head)
        old = merge_base(commit(options.base), new)
    with tempfile.TemporaryDirectory() as folder:
        reader = Reader(folder)
        rows = [check(reader, old, new or "", pair, limits, common) for pair in changed(old, new)]
    shown = table(rows)
    sys.stdout.write(shown)
    if output:
        with open(output, "w", encoding="utf-8") as file:
            file.write(shown)
    for row in rows:
        if row.status == 2:
            print(f"tenure_gate: error: {row.name.strip('`')}: {row.reason or row.result[0]}", file=sys.stderr)
    return max([row.status for row in rows], default=0)


try:
    sys.stdout.reconfigure(encoding="utf-8", errors="replace")
    sys.exit(main())
except Failure as failure:
    print(f"tenure_gate: error: {failure}", file=sys.stderr)
    sys.exit(2)
