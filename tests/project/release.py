#!/usr/bin/python3
"""The files of a release: the same bytes twice, checksums that sha256sum accepts, a bill of materials with what SPDX requires, the
commit in the archive, and versions that must agree.

    release.py SOURCE

Exit status: 0 all of it holds, 1 not, 77 SOURCE is no checkout of git.
"""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

source = pathlib.Path(sys.argv[1]).resolve()


def run(*words, **more):
    return subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True, **more)


def check_files(folder):
    made = run(source / "tools/make-release", folder / "files", "source", "--twice")
    assert made.returncode == 0 and "the same bytes" in made.stdout, made.stdout
    sums = run("sha256sum", "-c", "SHA256SUMS", cwd=folder / "files")
    assert sums.returncode == 0 and sums.stdout.count(": OK") == 2, sums.stdout
    bill = json.loads(next((folder / "files").glob("*.spdx.json")).read_text())
    for key in ("spdxVersion", "dataLicense", "SPDXID", "name", "documentNamespace", "creationInfo"):  # SPDX 2.3, clause 6
        assert bill[key], key
    known = {entry["SPDXID"] for entry in [bill, *bill["packages"], *bill["files"]]}
    for relation in bill["relationships"]:
        assert {relation["spdxElementId"], relation["relatedSpdxElement"]} <= known, relation
    listed = run("tar", "-tzf", next((folder / "files").glob("*.tar.gz"))).stdout.split()
    tracked = run("git", "-C", source, "ls-tree", "-r", "--name-only", "HEAD").stdout.split()
    assert {name.split("/", 1)[1] for name in listed if not name.endswith("/")} == set(tracked)


def check_revision(folder):
    """The archive knows its commit, also inside the checkout of another project."""
    other = folder / "other"
    other.mkdir()
    run("git", "init", "--quiet", cwd=other)
    run("tar", "-xzf", next((folder / "files").glob("*.tar.gz")), "-C", other)
    tree = next(other.glob("tenure-*"))
    run("cmake", "-DFOLDER=%s" % tree, "-DOUTPUT=%s/revision.h" % other, "-P", tree / "tools/revision.cmake")
    head = run("git", "-C", source, "rev-parse", "HEAD").stdout[:8]
    assert '"%s"' % head in (other / "revision.h").read_text(), (other / "revision.h").read_text()


def check_versions(folder):
    copy = folder / "copy"
    assert run("git", "clone", "--quiet", "--no-hardlinks", source, copy).returncode == 0
    for name, old, new in (("bindings/python/pyproject.toml", 'version = "', 'version = "9'), ("CHANGELOG.md", "(0.", "(8.")):
        path = copy / name
        text = path.read_text()
        path.write_text(text.replace(old, new, 1))
        made = run(copy / "tools/make-release", folder / "none", "source")
        assert made.returncode == 1 and "versions differ" in made.stdout and name in made.stdout, made.stdout
        assert not (folder / "none").exists()
        path.write_text(text)


def main():
    if shutil.which("git") is None or run("git", "-C", source, "rev-parse", "HEAD").returncode:
        print("SKIP: not a checkout of git")
        return 77
    with tempfile.TemporaryDirectory() as name:
        check_files(pathlib.Path(name))
        check_revision(pathlib.Path(name))
        check_versions(pathlib.Path(name))
    return 0


sys.exit(main())
