#!/usr/bin/python3
"""The notebook of the examples, executed by Jupyter: every cell runs, and shows its result as a table and a picture.

    notebook.py SOURCE LIBTENURE [PAGE]

PAGE keeps the executed notebook as HTML, for people to look at. Exit status 77: Jupyter is not there.
"""
import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile


def main():
    source, library = (pathlib.Path(word).resolve() for word in sys.argv[1:3])
    for package in ("nbconvert", "ipykernel"):
        if importlib.util.find_spec(package) is None:
            print("SKIP: no python3-%s" % package)
            return 77
    with tempfile.TemporaryDirectory() as folder:
        page = pathlib.Path(folder, "memory.html")
        environment = dict(os.environ, PYTHONPATH=str(source / "bindings/python"), TENURE_LIBRARY=str(library), HOME=folder,
                           PYTHONDONTWRITEBYTECODE="1")
        subprocess.run([sys.executable, "-m", "nbconvert", "--to", "html", "--execute", "--output-dir", folder,
                        str(source / "examples/notebook/memory.ipynb")], check=True, env=environment)
        text = page.read_text(encoding="utf-8")
        if len(sys.argv) > 3:
            pathlib.Path(sys.argv[3]).write_text(text, encoding="utf-8")
        code = ("import tenure; m = tenure.load('examples/models/mobilenet_v2.onnx'); "
                "print(tenure.plan(m).peak, tenure.estimate(m, train=True).total, tenure.fit(m, '60MiB', train=True, costs='v100-16').bytes)")
        numbers = subprocess.run([sys.executable, "-c", code], cwd=source, env=environment, check=True, stdout=subprocess.PIPE).stdout
        for count in map(int, numbers.split()):
            assert "%s bytes" % format(count, ",") in text, count
        assert text.count("<svg xmlns") == 2, "pictures of the plan and the fit"
        assert "Traceback" not in text and "&lt;tenure." not in text, "a result is shown as text"
    return 0


sys.exit(main())
