#!/usr/bin/env python3
"""The gate for repositories (examples/ci): a change that needs more memory, one that does not, models that are new,
deleted, renamed and unreadable, names with blanks and with signs of Markdown; then the git hook, the action's steps and
the job's script, as their services would run them.

    gate.py TENURE SOURCE

The models have two convolutions; the bytes of each tensor follow from its shape, so the table is compared with numbers
that this test computes itself.
"""
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

tenure, source = os.path.abspath(sys.argv[1]), pathlib.Path(sys.argv[2]).resolve()
sys.path.insert(0, str(source / "examples/models"))
sys.dont_write_bytecode = True
import make_tflite  # noqa: E402

CI = source / "examples/ci"
failed = 0


def check(condition, text):
    global failed
    if not condition:
        failed = 1
        print("FAILED:", text)


def up(size):
    return -(-size // 64) * 64  # buffers of `tenure diff` are aligned to 64 bytes


def model(path, channels, name="features", last=4):
    """48 x 48 pixels; `name` has 48 * 48 * channels bytes, and lives with the second convolution's 48 * 48 * last."""
    made = make_tflite.Model(7)
    image = made.tensor("image", [1, 48, 48, 1])
    at = made.convolution(image, name, channels, (3, 3))
    at = made.convolution(at, "last", last, (3, 3))
    out, sys.stdout = sys.stdout, open(os.devnull, "w")
    made.save(path, image, at)
    sys.stdout.close()
    sys.stdout = out


def peak(channels, last=4):
    return up(48 * 48 * channels) + max(up(48 * 48), up(48 * 48 * last))


class Repository:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir()
        scratch = self.folder.parent / "scratch"  # where the gate puts revisions
        scratch.mkdir(exist_ok=True)
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("GIT_", "GITHUB_", "RUNNER_", "CI_"))}
        self.environment = dict(kept, TENURE=tenure, HOME=str(self.folder.parent), GIT_CONFIG_NOSYSTEM="1", LC_ALL="C.UTF-8",
                                TMPDIR=str(scratch))
        self.git("init", "--quiet", "--initial-branch=main")
        self.git("config", "diff.renames", "false")  # the gate's result does not depend on such settings
        self.git("config", "user.name", "test")
        self.git("config", "user.email", "test@example.com")

    def git(self, *arguments, status=0):
        done = subprocess.run(["git", *arguments], cwd=self.folder, env=self.environment, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True)
        if status is not None:
            check(done.returncode == status, f"git {arguments}: {done.returncode}\n{done.stdout}")
        return done

    def commit(self, message):
        self.git("add", "--all")
        self.git("commit", "--quiet", "--no-verify", "--message", message)

    def gate(self, *arguments, status, **environment):
        done = subprocess.run([sys.executable, str(CI / "tenure_gate.py"), *arguments], cwd=self.folder,
                              env=dict(self.environment, **environment), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        check(done.returncode == status, f"{arguments}: status {done.returncode}, not {status}\n{done.stdout}{done.stderr}")
        check("Traceback" not in done.stderr, done.stderr)
        check("/scratch/" not in done.stdout + done.stderr, f"a temporary path is shown:\n{done.stdout}{done.stderr}")
        return done


def rows(table):
    """{model: cells} of the table, and whether each line has as many cells as the head."""
    lines = [line for line in table.splitlines() if line.startswith("|")]
    split = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    check(all(len(cells) == 7 for cells in split), f"not a table:\n{table}")
    return {cells[0]: cells for cells in split[2:]}


def changes(folder):
    here = Repository(folder / "changes")
    names = {name: here.folder / name for name in ("two words/a model.tflite", "same.tflite", "gone.tflite", "was.tflite", "broken.tflite")}
    for path in names.values():
        path.parent.mkdir(exist_ok=True)
        model(path, 8)
    model(names["was.tflite"], 2, "moved")
    shutil.copy(source / "examples/models/two_branches.onnx", here.folder / "graph.onnx")
    here.commit("models")
    here.git("branch", "base")

    # nothing of it is a model
    (here.folder / "README").write_text("text\n")
    here.commit("text")
    done = here.gate("--base", "base", status=0)
    check("touches no" in done.stdout, done.stdout)

    # a model that was changed and needs the same; one that is gone; one that moved; one that is new
    model(names["same.tflite"], 8, "renamed")
    names["gone.tflite"].unlink()
    names["was.tflite"].rename(here.folder / "is.tflite")
    model(here.folder / "new`|<b>.tflite", 3)
    here.commit("no growth")
    done = here.gate("--base", "base", "--set", "max-increase=0", status=0)
    table = rows(done.stdout)
    check(sorted(table) == sorted(["`same.tflite`", "`gone.tflite`", "`is.tflite`", "`new'\\|<b>.tflite`"]), f"{list(table)}")
    check(table["`same.tflite`"][1:4] == [f"{peak(8):,}", f"{peak(8):,}", "+0 (+0.0 %)"], f"{table['`same.tflite`']}")
    check(table["`gone.tflite`"][1:3] == [f"{peak(8):,}", ""] and table["`gone.tflite`"][5] == "deleted", f"{table['`gone.tflite`']}")
    check(table["`is.tflite`"][1:4] == [f"{peak(2):,}", f"{peak(2):,}", "+0 (+0.0 %)"] and "was `was.tflite`" in table["`is.tflite`"][6],
          f"{table['`is.tflite`']}")
    check(table["`new'\\|<b>.tflite`"][1:3] == ["", f"{peak(3):,}"], f"{table}")
    check("within their limits" in done.stdout, done.stdout)

    # one that grows: the table names the tensor; without a limit it only reports
    here.git("branch", "--force", "base")
    model(names["two words/a model.tflite"], 12)
    here.commit("more channels")
    cells = ["`two words/a model.tflite`", f"{peak(8):,}", f"{peak(12):,}", f"{peak(12) - peak(8):+,} ({100 * (peak(12) / peak(8) - 1):+.1f} %)"]
    for limit, status in (([], 0), (["--set", "max-increase=50%"], 0), (["--set", "max-increase=2%"], 1),
                          (["--set", f"max-increase={peak(12) - peak(8)}"], 0), (["--set", f"max-increase={peak(12) - peak(8) - 1}"], 1)):
        done = here.gate("--base", "base", *limit, "--output", "table.md", status=status)
        table = rows(done.stdout)
        check(list(table) == cells[:1] and table[cells[0]][:4] == cells, f"{table}")
        check(f"grew: `features` (CONV\\_2D) {48 * 48 * 4:+,}" in table[cells[0]][6], f"the tensor is not named: {table}")
        check(("**grew by more than" in done.stdout) == (status == 1), done.stdout)
        check((here.folder / "table.md").read_text() == done.stdout, "--output is another table")
    (here.folder / "table.md").unlink()
    shown = done.stdout

    # two tensors grow: the larger change comes first
    here.git("checkout", "--quiet", "-b", "two")
    model(names["two words/a model.tflite"], 9, last=6)
    here.commit("two tensors")
    done = here.gate("--base", "base", status=0)
    check(f"{peak(9, 6):,}" in done.stdout and f"grew: `last` (CONV\\_2D) {48 * 48 * 2:+,}, `features` (CONV\\_2D) {48 * 48:+,}" in done.stdout, done.stdout)
    here.git("checkout", "--quiet", "main")

    # limits from the file: the last line that matches wins; the arena is that of `tenure arena --max`
    limits = here.folder / ".tenure-limits"
    limits.write_text("# limits\n*.tflite max-increase=2%\n\n'two words/*' max-increase=60% max=64KiB target=cortex-m0\n")
    done = here.gate("--base", "base", status=0)
    check(re.search(r"arena [\d,]+ of 65,536", done.stdout), done.stdout)
    limits.write_text("'two words/*' max=32KiB\n")
    done = here.gate("--base", "base", status=1)
    check("**too large**" in done.stdout and f"at the peak: `features` (CONV\\_2D) {48 * 48 * 12:,}" in done.stdout, done.stdout)
    answer = subprocess.run([tenure, "arena", "--brief", "--max=32KiB", str(names["two words/a model.tflite"])], stdout=subprocess.PIPE, text=True)
    check(answer.returncode == 1, "the arena fits after all")
    for text, reason in (("*.tflite max=a\n", "--max"), ("*.tflite maximum=3\n", ":1: 'maximum=3' is not KEY=VALUE"),
                         ("'*.tflite max=3\n", ":1: No closing quotation")):
        limits.write_text(text)
        check(reason in here.gate("--base", "base", status=2).stderr, f"{text}: no {reason}")
    limits.unlink()

    # .onnx: the arena of `tenure plan`; 8,192 bytes (two tensors of 4,096)
    here.git("branch", "--force", "base")
    data = (here.folder / "graph.onnx").read_bytes()
    (here.folder / "graph.onnx").unlink()
    (here.folder / "graph 2.ONNX").write_bytes(data + b"\x1a\x00")  # the producer's version, again
    here.commit("onnx")
    for limit, status in (("8KiB", 0), ("8191", 1)):
        done = here.gate("--base", "base", "--set", f"max={limit}", status=status)
        check("| `graph 2.ONNX` | 8,192 | 8,192 |" in done.stdout and f"| arena 8,192 of {limit} |" in done.stdout, done.stdout)

    # unreadable: now, before, and a pointer of Git LFS
    here.git("branch", "--force", "base")
    names["broken.tflite"].write_bytes(b"no model")
    (here.folder / "large.tflite").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")
    here.commit("damage")
    done = here.gate("--base", "base", status=2)
    check("broken.tflite: it has no mark" in done.stderr and "large.tflite: a pointer of Git LFS" in done.stderr, done.stderr)
    check("cannot be checked: 2 of 2" in done.stdout and len(rows(done.stdout)) == 2, done.stdout)
    here.git("branch", "--force", "base")
    model(names["broken.tflite"], 2)
    here.commit("repair")
    done = here.gate("--base", "base", status=0)
    check("the old revision cannot be read" in done.stdout, done.stdout)
    check("max-increase cannot be checked" in here.gate("--base", "base", "--set", "max-increase=2%", status=2).stderr, "not said")

    check("fetch" in here.gate("--base", "nowhere", status=2).stderr, "a base that is not here")
    check("install Tenure" in here.gate("--base", "base", status=2, TENURE="/nowhere/tenure").stderr, "no command")
    check("is not KEY=VALUE" in here.gate("--set", "max", "--base", "base", status=2).stderr, "--set without a value")
    return shown


def hook(folder):
    """The git hook refuses a commit, and nothing else of the index or the tree is looked at."""
    here = Repository(folder / "hook")
    shutil.copy(CI / "pre-commit", here.folder / ".git/hooks/pre-commit")
    model(here.folder / "a.tflite", 4)
    here.git("add", "a.tflite")
    check("set the script" in here.git("commit", "-m", "first", status=1).stdout, "the hook does not say how it is set up")
    here.git("config", "tenure.gate", str(CI / "tenure_gate.py"))
    (here.folder / ".tenure-limits").write_text("*.tflite max-increase=2%\n")
    here.git("commit", "-m", "first")
    model(here.folder / "a.tflite", 5)
    here.git("commit", "-m", "not in the index", "--allow-empty")
    here.git("add", "a.tflite")
    check("grew: `features`" in here.git("commit", "-m", "grown", status=1).stdout, "the hook lets it pass")
    model(here.folder / "a.tflite", 4)
    here.git("add", "a.tflite")
    here.git("commit", "-m", "as before", "--allow-empty")


def expression(text, inputs):
    """`${{ inputs.x }}` of an action."""
    return re.sub(r"\$\{\{ inputs\.(\w+) \}\}", lambda found: inputs[found[1]], text)


def services(folder, yaml):
    """The steps of the action and the script of the job, with a release file of our own."""
    release = folder / "release 1.tar.gz"
    with tarfile.open(release, "w:gz") as file:
        script = folder / "tenure"
        script.write_text(f'#!/bin/sh\nexec "{tenure}" "$@"\n')
        script.chmod(0o755)
        file.add(script, "tenure-0.1.0/bin/tenure")
    digest = hashlib.sha256(release.read_bytes()).hexdigest()
    here = Repository(folder / "services")
    model(here.folder / "a.tflite", 4)
    here.commit("models")
    base = here.git("rev-parse", "HEAD").stdout.strip()
    model(here.folder / "a.tflite", 6)
    (here.folder / ".tenure-limits").write_text("a.tflite max=1MiB\n")
    here.commit("grown")
    here.environment.pop("TENURE")

    action = yaml.safe_load((CI / "action.yml").read_text())
    check(set(action) == {"name", "description", "inputs", "outputs", "runs"} and action["runs"]["using"] == "composite", "action.yml: keys")
    check(all(set(it) <= {"description", "default", "required"} and "description" in it for it in action["inputs"].values()), "action.yml: inputs")
    check(all(set(it) == {"description", "value"} for it in action["outputs"].values()), "action.yml: outputs")
    inputs = {name: it["default"] for name, it in action["inputs"].items()}
    inputs.update(release=release.as_uri(), sha256=digest, base=base)
    for settings, expected, sha256 in (("", 0, digest), ("max-increase=60%\nmax=96KiB\n", 0, digest), ("max-increase=2%\n", 1, digest), ("", 2, "0" * 64)):
        temporary = pathlib.Path(tempfile.mkdtemp(dir=folder))
        files = {name: temporary / name.lower() for name in ("GITHUB_PATH", "GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
        path, status = here.environment["PATH"], 0
        inputs.update(settings=settings, sha256=sha256)
        for step in action["runs"]["steps"]:
            check(step["shell"] == "bash" and "${{" not in step["run"], "action.yml: expressions belong into env, where they are data")
            environment = dict(here.environment, PATH=path, GITHUB_ACTION_PATH=str(CI), RUNNER_TEMP=str(temporary),
                               **{name: str(file) for name, file in files.items()},
                               **{name: expression(value, inputs) for name, value in step["env"].items()})
            done = subprocess.run(["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", step["run"]], cwd=here.folder, env=environment,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            status = done.returncode
            if status:
                break
            if files["GITHUB_PATH"].exists():
                path = files["GITHUB_PATH"].read_text().strip() + ":" + path
        check(status == expected, f"action, {settings!r}: status {status}, not {expected}\n{done.stdout}")
        if expected == 2:
            check("has the SHA-256" in done.stdout, done.stdout)
            continue
        check("| `a.tflite` |" in files["GITHUB_STEP_SUMMARY"].read_text(), "no table in the summary")
        check(files["GITHUB_OUTPUT"].read_text().splitlines() == [f"table={temporary}/tenure.md", f"status={expected}"], "outputs")

    workflow = yaml.safe_load((CI / "workflow.yml").read_text())
    (job,) = workflow["jobs"].values()
    used = [step for step in job["steps"] if step.get("uses", "").startswith("./")]
    check(len(used) == 1 and set(used[0]["with"]) <= set(inputs), "workflow.yml: settings that the action does not have")
    check(any(step.get("with", {}).get("fetch-depth") == 0 for step in job["steps"]), "workflow.yml: no history")

    (job,) = yaml.safe_load((CI / "gitlab.yml").read_text()).values()
    check({"script", "rules", "artifacts"} <= set(job) and str(job["variables"]["GIT_DEPTH"]) == "0", "gitlab.yml: keys")
    shutil.copytree(CI, here.folder / "ci/tenure")
    if shutil.which("dpkg-deb"):  # the release file as a package
        package = folder / "package"
        (package / "DEBIAN").mkdir(parents=True)
        (package / "DEBIAN/control").write_text("Package: tenure\nVersion: 0.1.0\nArchitecture: all\nMaintainer: me <me@example.org>\nDescription: test\n")
        (package / "usr/bin").mkdir(parents=True)
        shutil.copy(script, package / "usr/bin/tenure")
        release = folder / "tenure_0.1.0_all.deb"
        subprocess.run(["dpkg-deb", "--root-owner-group", "--build", str(package), str(release)], stdout=subprocess.DEVNULL, check=True)
        digest = hashlib.sha256(release.read_bytes()).hexdigest()
    else:
        print("SKIP: no dpkg-deb")
    for sha256, expected in ((digest, 0), ("0" * 64, 2)):
        environment = dict(here.environment, CI_PROJECT_DIR=str(here.folder), CI_MERGE_REQUEST_DIFF_BASE_SHA=base, TENURE_RELEASE=release.as_uri(), TENURE_SHA256=sha256)
        done = subprocess.run(["sh", "-e", "-c", "\n".join(job["script"])], cwd=here.folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        check(done.returncode == expected, f"gitlab.yml: status {done.returncode}\n{done.stdout}")
    check("| `a.tflite` |" in (here.folder / "tenure.md").read_text(), "gitlab.yml: no table")

    hooks = yaml.safe_load((source / ".pre-commit-hooks.yaml").read_text())
    check(isinstance(hooks, list) and all({"id", "name", "entry", "language"} <= set(it) for it in hooks), ".pre-commit-hooks.yaml: keys")
    for it in hooks:
        check(it["language"] == "script" and os.access(source / it["entry"].split()[0], os.X_OK), ".pre-commit-hooks.yaml: entry")
        check(re.search(it["files"], "models/a b.TFLITE") and not re.search(it["files"], "a.tflite.txt"), ".pre-commit-hooks.yaml: files")
        done = subprocess.run([source / it["entry"].split()[0], *it["entry"].split()[1:]], cwd=here.folder, env=dict(here.environment, TENURE=tenure))
        check(done.returncode == 0, "the entry of the hook")


def main():
    if not shutil.which("git"):
        print("SKIP: no git")
        return 77
    with tempfile.TemporaryDirectory(prefix="tenure-gate-") as folder:
        print(changes(pathlib.Path(folder)))
        hook(pathlib.Path(folder))
        try:
            import yaml
        except ImportError:
            print("SKIP: python3-yaml is not installed")
        else:
            services(pathlib.Path(folder), yaml)
    return failed


sys.exit(main())
