"""Makes the wheel of this package, for pip (PEP 517, 660): a zip archive of the package and three files about it.

There is nothing to compile, so nothing is asked of setuptools, and `pip install` works without an index, without
build isolation and with it. The same tree gives the same bytes. tools/make-wheel calls platform_wheel, which adds
the shared library.
"""
import base64
import hashlib
import pathlib
import re
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
LIBRARIES = ("libtenure.so.0", "libtenure.so")  # that somebody laid into the package travel with it


def project():
    """The few lines that are needed of pyproject.toml, which Python before 3.11 cannot read."""
    text = (ROOT / "pyproject.toml").read_text()
    return {key: re.search(r'^%s = "(.*)"$' % key, text, flags=re.M).group(1)
            for key in ("name", "version", "description", "requires-python")}


def metadata():
    it = project()
    return ("Metadata-Version: 2.1\nName: %s\nVersion: %s\nSummary: %s\nLicense: Apache-2.0\nRequires-Python: %s\n"
            % (it["name"], it["version"], it["description"], it["requires-python"]))


def package():
    """(name in the wheel, content) of what is installed."""
    for path in sorted((ROOT / "tenure").rglob("*")):
        if path.suffix == ".py" or path.name == "py.typed" or path.name in LIBRARIES:
            yield path.relative_to(ROOT).as_posix(), path.read_bytes()


def write(folder, files, tag, pure=True):
    it = project()
    name = "%s-%s" % (it["name"], it["version"])
    about = [("%s.dist-info/METADATA" % name, metadata().encode()),
             ("%s.dist-info/WHEEL" % name, ("Wheel-Version: 1.0\nGenerator: tenure\nRoot-Is-Purelib: %s\nTag: %s\n"
                                            % (str(pure).lower(), tag)).encode())]
    record = []
    wheel = "%s-%s.whl" % (name, tag)
    with zipfile.ZipFile(pathlib.Path(folder) / wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content in list(files) + about:
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            record.append("%s,sha256=%s,%d\n" % (path, digest, len(content)))
            archive.writestr(zipfile.ZipInfo(path, (1980, 1, 1, 0, 0, 0)), content, zipfile.ZIP_DEFLATED)
        path = "%s.dist-info/RECORD" % name
        archive.writestr(zipfile.ZipInfo(path, (1980, 1, 1, 0, 0, 0)), "".join(record) + "%s,,\n" % path)
    return wheel


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    return write(wheel_directory, package(), "py3-none-any")


def platform_wheel(folder, libraries, platform):
    """A wheel for one platform, such as manylinux_2_34_x86_64. libraries: name in the package -> bytes. Returns its name."""
    files = [(name, content) for name, content in package() if pathlib.Path(name).name not in LIBRARIES]
    files += [("tenure/" + name, content) for name, content in sorted(libraries.items())]
    return write(folder, files, "py3-none-" + platform, pure=False)


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    return write(wheel_directory, [("tenure.pth", str(ROOT).encode() + b"\n")], "py3-none-any")


def build_sdist(sdist_directory, config_settings=None):
    raise NotImplementedError("the source is the repository; pip wheel makes a wheel")
