#!/usr/bin/python3
"""The package installed: into a fresh virtual environment by pip, which can reach no index, and by PYTHONPATH alone.

    install.py SOURCE LIBRARY

The ten lines of README.md run in both. The wheel names no path of this machine, and is the same twice. Nothing is
left in the source. Exit status: 0 all of it holds, 1 not, 77 no venv.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

source, library = pathlib.Path(sys.argv[1]).resolve(), str(pathlib.Path(sys.argv[2]).resolve())
package = source / "bindings/python"
quiet = dict(os.environ, TENURE_LIBRARY=library, PIP_NO_INDEX="1", PIP_DISABLE_PIP_VERSION_CHECK="1",
             PYTHONDONTWRITEBYTECODE="1")
quiet.pop("PYTHONPATH", None)


def ask(*words, **more):
    ran = subprocess.run([str(word) for word in words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT, universal_newlines=True, env=dict(quiet, **more.pop("env", {})), **more)
    assert ran.returncode == 0, "%s\n%s" % (words, ran.stdout)
    return ran.stdout


def readme():
    """The lines of Python in README.md."""
    return re.search(r"```python\n(.*?)```", (source / "README.md").read_text(), flags=re.S).group(1)


def check_wheel(folder):
    made = []
    for turn in ("one", "two"):
        ask(sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-w", folder / turn, package)
        made += (folder / turn).glob("*.whl")
    first, second = (path.read_bytes() for path in made)
    assert first == second, "the wheel differs from one time to the next"
    with zipfile.ZipFile(made[0]) as wheel:
        names = set(wheel.namelist())
        for name in names:
            for word in (str(source), str(folder), os.path.expanduser("~") + "/"):
                assert word.encode() not in wheel.read(name), "%s names %s" % (name, word)
    ours = {path.relative_to(package).as_posix() for path in (package / "tenure").rglob("*.py")} | {"tenure/py.typed"}
    assert ours <= names, ours - names
    return len(names)


def main():
    try:
        import ensurepip  # noqa: F401
    except ImportError:
        print("SKIP: no venv")
        return 77
    before = {path for path in package.rglob("*") if "__pycache__" not in path.parts}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        copy = folder / "source/bindings/python"
        shutil.copytree(package, copy, ignore=shutil.ignore_patterns("__pycache__"))
        ask(sys.executable, "-m", "venv", folder / "venv")
        python = folder / "venv/bin/python3"
        for how in ([], ["--no-build-isolation"], ["--editable"]):
            ask(python, "-m", "pip", "install", "--force-reinstall", *how, copy, cwd=folder)
            told = ask(python, "-c", readme(), cwd=source)
            assert "6021120" in told, told
            print("pip install %s: the lines of the README run" % " ".join(how))
        ask(python, "-m", "pip", "uninstall", "-y", "tenure")
        assert "6021120" in ask(sys.executable, "-c", readme(), cwd=source, env={"PYTHONPATH": str(package)})
        pages = ask(sys.executable, "-m", "pydoc", "tenure", cwd=folder, env={"PYTHONPATH": str(package)})
        for word in ("plan(what", "class Problem", "class Layout", "half open", "fit(model", "estimate(model"):
            assert word in pages, "pydoc: no %s" % word
        print("%d files in the wheel" % check_wheel(folder))
    after = {path for path in package.rglob("*") if "__pycache__" not in path.parts}
    assert after == before, "left behind: %s" % (after - before)
    return 0


sys.exit(main())
