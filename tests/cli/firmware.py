#!/usr/bin/env python3
"""The arena as a step of firmware builds: the CMake function (tools/tenure-arena.cmake) with examples/firmware, for the
host and for a Cortex-M4; the ESP-IDF component and the Zephyr module in stand-ins for these build systems; the libraries
for Arduino and PlatformIO.

    firmware.py TENURE SOURCE cmake|formats

Builds pass or fail by the size that `tenure arena --json` prints, and a failed build leaves no header for the next one.
The files of the formats have the keys that their documentation requires.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

tenure, source = os.path.abspath(sys.argv[1]), pathlib.Path(sys.argv[2]).resolve()
FIRMWARE = source / "examples/firmware"
MODEL = source / "examples/models/wake_words.tflite"
failed = 0


def check(condition, text):
    global failed
    if not condition:
        failed = 1
        print("FAILED:", text)


def run(*command, status=0, **settings):
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **settings)
    check(status is None or done.returncode == status or (status == "bad" and done.returncode),
          f"{' '.join(map(str, command))}: status {done.returncode}\n{done.stdout}")
    return done.stdout


def arena(*options):
    return json.loads(subprocess.run([tenure, "arena", str(MODEL), "--json", *options], stdout=subprocess.PIPE, check=True).stdout)


def size_of(header):
    found = re.search(r"_ARENA_SIZE (\d+)u", header.read_text()) if header.exists() else None
    return int(found[1]) if found else None


class Installed:
    """What `make install` installs of it, by the rule of CMakeLists.txt."""

    def __init__(self, folder):
        self.prefix = folder / "prefix"
        (self.prefix / "bin").mkdir(parents=True)
        (self.prefix / "bin/tenure").symlink_to(tenure)
        rule = re.search(r"install\(FILES (tools/tenure-arena\.cmake) DESTINATION \$\{CMAKE_INSTALL_DATADIR\}/(\S+)\s+RENAME (\S+) ",
                         (source / "CMakeLists.txt").read_text())
        check(rule is not None, "CMakeLists.txt does not install tools/tenure-arena.cmake")
        place = self.prefix / "share" / rule[2]
        place.mkdir(parents=True)
        shutil.copy(source / rule[1], place / rule[3])
        self.environment = dict(os.environ, PATH=f"{self.prefix}/bin:{os.environ['PATH']}")

    def configure(self, project, build, *options, status=0, **changes):
        return run("cmake", "-S", project, "-B", build, *options, status=status, env=dict(self.environment, **changes))

    def build(self, build, status=0):
        text = run("cmake", "--build", build, status=status, env=self.environment)
        check("CMake Warning" not in text, f"a warning about our own script:\n{text}")
        return text


def example(here, folder):
    """examples/firmware, on the host: it fits, then it does not, then it fits again."""
    planned = arena("--kernels", "cmsis-nn")["total"]["most"]
    build = folder / "host"
    here.configure(FIRMWARE, build, "-G", "Unix Makefiles")
    check(f"tenure-arena_DIR:PATH={here.prefix}/share" in (build / "CMakeCache.txt").read_text(), "the installed package is not found")
    here.build(build)
    check(size_of(build / "wake_words_arena.h") == planned, f"the header does not have the {planned} bytes of the planned model")
    run(build / "firmware")
    verdict = run(tenure, "verify", build / "wake_words_planned.tflite")
    check(verdict.startswith("valid"), verdict)
    here.configure(FIRMWARE, build, f"-DARENA_MAX={planned - 1}")
    for _ in range(2):  # again: nothing of the failed build is taken for the result
        text = here.build(build, status="bad")
        check(all(word in text for word in ("does not fit", "36,864", "pointwise1", "18,432", "depthwise1")), f"no holders:\n{text}")
        check(not (build / "wake_words_arena.h").exists(), "a header is left")
    here.configure(FIRMWARE, build, f"-DARENA_MAX={planned}")
    here.build(build)
    if shutil.which("arm-none-eabi-gcc"):
        here.configure(FIRMWARE, folder / "arm", "--toolchain", FIRMWARE / "cortex_m4.cmake")
        check(f"tenure-arena_DIR:PATH={here.prefix}/share" in (folder / "arm/CMakeCache.txt").read_text(), "not found in a cross build")
        here.build(folder / "arm")
        symbols = run("arm-none-eabi-nm", "-S", folder / "arm/firmware")
        check(re.search(rf"^20020000 0*{planned:x} B wake_words_arena$", symbols, re.M), symbols)
    else:
        print("SKIP: no arm-none-eabi-gcc")


def project(folder, name, text):
    place = folder / name
    place.mkdir()
    (place / "CMakeLists.txt").write_text(f"cmake_minimum_required(VERSION 3.19)\nproject({name} NONE)\n{text}\n")
    return place


TARGET = "add_custom_target(firmware ALL)\n"  # no compiler is needed to see what the step does


def function(here, folder):
    """Models as they are, names with blanks, wrong use, and a machine without Tenure."""
    as_it_is = arena()["total_as_it_is"]["most"]
    spaces = folder / "two words"
    spaces.mkdir()
    shutil.copy(MODEL, spaces / "wake words.tflite")
    text = f"""find_package(tenure-arena REQUIRED)
{TARGET}tenure_arena(firmware "{spaces}/wake words.tflite" HEADER "a header.h" MAX ${{MAX}})"""
    place, build = project(folder, "as_it_is", text), folder / "as it is"
    here.configure(place, build, f"-DMAX={as_it_is}", *(["-G", "Ninja"] if shutil.which("ninja") else []))  # make removes files itself
    here.build(build)
    header = build / "a header.h"
    check(size_of(header) == as_it_is, f"the header does not have the {as_it_is} bytes of the model as it is")
    names = set(re.findall(r"\bWAKE_WORDS_\w+|\bwake_words_\w+", header.read_text()))
    run(tenure, "arena", spaces / "wake words.tflite", "-q", "-o", folder / "full.h")
    check(names - {"WAKE_WORDS_ARENA_H"} <= set(re.findall(r"\w+", (folder / "full.h").read_text())), "other names than the header with a plan")
    (folder / "one.c").write_text(f'#define WAKE_WORDS_DEFINE\n#include "{header}"\n#include "{header}"\n'
                                  f'_Static_assert(sizeof wake_words_arena == {as_it_is}, "size");\n')
    for compiler in (["cc", "-std=c11"], ["c++", "-x", "c++"]):
        if shutil.which(compiler[0]):
            text = (folder / "one.c").read_text().replace("_Static_assert", "static_assert" if "c++" in compiler else "_Static_assert")
            (folder / "two.c").write_text(text)
            run(*compiler, "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-c", folder / "two.c", "-o", folder / "one.o")
    here.configure(place, build, f"-DMAX={as_it_is - 1}")
    text = here.build(build, status="bad")
    check("PLANNED of tenure_arena() writes that file" in text and "pointwise1" in text and not header.exists(), text)
    here.configure(place, build, "-DMAX=96K")
    check("could mean kB or KiB" in here.build(build, status="bad"), "an ambiguous size")

    def refused(name, call, reason, **changes):
        text = here.configure(project(folder, name, f"include({source}/tools/tenure-arena.cmake)\n{TARGET}{call}"), folder / f"{name} build",
                              status="bad", **changes)
        check(reason in " ".join(text.split()), f"{call}: no '{reason}':\n{text}")
    refused("words", f"tenure_arena(firmware {MODEL} MAX)", "not understood: MAX; use tenure_arena(")
    refused("file", "tenure_arena(firmware none.tflite)", "there is no file")
    refused("target", f"tenure_arena(nothing {MODEL})", "there is no target nothing")

    # without the program: the header of the source folder is used, and the warning says that nothing was checked
    bare = folder / "bare"
    bare.mkdir()
    for program in ("cmake", "make", "ninja"):
        if shutil.which(program):
            (bare / program).symlink_to(shutil.which(program))
    refused("absent", f"tenure_arena(firmware {MODEL})", "the program tenure is not found; install", PATH=str(bare))
    place = project(folder, "kept", f"include({source}/tools/tenure-arena.cmake)\n{TARGET}tenure_arena(firmware {MODEL})")
    (place / "wake_words_arena.h").write_text("/* kept */\n")
    text = here.configure(place, folder / "kept build", PATH=str(bare))
    check("is not checked" in " ".join(text.split()), text)


def espressif(here, folder):
    """Stand-ins for the two functions of ESP-IDF that the component calls."""
    place = project(folder, "idf", f"""set(component {FIRMWARE}/esp-idf/tenure)
macro(idf_component_register)
endmacro()
function(idf_build_get_property variable property)
  set(IDF_TARGET esp32s3)
  set(PROJECT_DIR ${{CMAKE_CURRENT_SOURCE_DIR}})
  set(${{variable}} ${{${{property}}}} PARENT_SCOPE)
endfunction()
include(${{component}}/project_include.cmake)
include(${{component}}/CMakeLists.txt)
{TARGET}tenure_arena(firmware {MODEL} PLANNED planned.tflite)""")
    totals = set()
    for version in ("1.2.1", "1.2.0"):
        (place / "dependencies.lock").write_text(f"""dependencies:
  espressif/esp-dsp:
    version: 9.9.9
  espressif/esp-nn:
    component_hash: 0
    dependencies:
    - name: idf
      version: '>=4.2'
    source:
      registry_url: https://components.espressif.com/
      type: service
    version: {version}
  idf:
    source:
      type: idf
    version: 5.3.1
target: esp32s3
""")
        text = here.configure(place, folder / "idf build")
        check(f"esp32s3, ESP-NN {version}" in text, text)
        here.build(folder / "idf build")
        total = arena("--target", "esp32-s3", "--kernels", f"esp-nn@{version}")["total"]["most"]
        check(size_of(folder / "idf build/wake_words_arena.h") == total, f"ESP-NN {version}: not {total} bytes")
        totals.add(total)
    here.configure(place, folder / "idf build", "-DCONFIG_NN_ANSI_C=y")
    here.build(folder / "idf build")
    check(size_of(folder / "idf build/wake_words_arena.h") == arena("--target", "esp32-s3", "--kernels", "reference")["total"]["most"], "ANSI C")
    (place / "dependencies.lock").unlink()
    here.configure(place, folder / "idf build", "-DCONFIG_NN_ANSI_C=")
    here.build(folder / "idf build")
    check(size_of(folder / "idf build/wake_words_arena.h") == arena("--target", "esp32-s3")["total"]["most"], "no lock: the largest")


def zephyr(here, folder):
    """The module's folder, added as Zephyr does, with what its Kconfig chose."""
    place = project(folder, "zephyr", f"""set(CONFIG_TENURE y)
set(CONFIG_TENURE_CHIP cortex-m55)
set(CONFIG_TENURE_KERNELS cmsis-nn)
add_subdirectory({FIRMWARE}/zephyr/zephyr module)
add_custom_target(app ALL)
tenure_arena(app {MODEL} PLANNED planned.tflite)""")
    here.configure(place, folder / "zephyr build")
    here.build(folder / "zephyr build")
    total = arena("--target", "cortex-m55", "--kernels", "cmsis-nn")["total"]["most"]
    check(size_of(folder / "zephyr build/wake_words_arena.h") == total, f"not {total} bytes")
    # every default of the Kconfig is a name that the command knows, and every symbol that CMakeLists.txt reads is defined
    text = (FIRMWARE / "zephyr/zephyr/Kconfig").read_text()
    for name in re.findall(r'default "(cortex[^"]*|esp32[^"]*|x86-64)" if', text):
        arena("--target", name)
    for name in re.findall(r'default "(cmsis-nn|reference)"', text):
        arena("--kernels", name)
    check(text.count("\nif ") == text.count("\nendif"), "Kconfig: if without endif")
    defined = set(re.findall(r"^config (\w+)$", text, re.M))
    used = set(re.findall(r"CONFIG_(\w+)", (FIRMWARE / "zephyr/zephyr/CMakeLists.txt").read_text()))
    check(used <= defined, f"Kconfig does not define {used - defined}")


def manifests():
    try:
        import yaml
    except ImportError:
        print("SKIP: python3-yaml is not installed")
        return
    version = re.search(r"project\(tenure VERSION (\S+)", (source / "CMakeLists.txt").read_text())[1]
    component = yaml.safe_load((FIRMWARE / "esp-idf/tenure/idf_component.yml").read_text())
    check(component["version"] == version and isinstance(component["description"], str) and component["dependencies"]["idf"]["version"].startswith(">="),
          "idf_component.yml")
    check(set(component) <= {"version", "description", "url", "repository", "issues", "documentation", "license", "dependencies", "files", "targets",
                             "maintainers", "tags", "examples"}, "idf_component.yml: unknown keys")
    module = yaml.safe_load((FIRMWARE / "zephyr/zephyr/module.yml").read_text())
    check(set(module) == {"name", "build"} and set(module["build"]) == {"cmake", "kconfig"}, "module.yml: keys")
    check((FIRMWARE / "zephyr" / module["build"]["cmake"] / "CMakeLists.txt").is_file() and (FIRMWARE / "zephyr" / module["build"]["kconfig"]).is_file(),
          "module.yml: files")
    library = json.loads((FIRMWARE / "arduino/library.json").read_text())
    check(library["version"] == version and re.fullmatch(r"[A-Za-z0-9]+", library["name"]), "library.json")
    check((FIRMWARE / "arduino" / library["build"]["srcDir"] / library["headers"]).is_file(), "library.json: headers")
    lines = (FIRMWARE / "arduino/library.properties").read_text().splitlines()
    properties = dict(line.split("=", 1) for line in lines)
    required = {"name", "version", "author", "maintainer", "sentence", "paragraph", "category", "url", "architectures"}
    check(required <= set(properties) and all(properties.values()), "library.properties: keys")
    check(properties["version"] == version and re.fullmatch(r"[A-Za-z][\w .-]{0,62}", properties["name"]), "library.properties: name, version")
    check(properties["category"] in ("Display", "Communication", "Signal Input/Output", "Sensors", "Device Control", "Timing", "Data Storage",
                                     "Data Processing", "Other"), "library.properties: category")
    check((FIRMWARE / "arduino/src" / properties["includes"]).is_file(), "library.properties: includes")


def arduino(folder):
    """The header in the library is that of the model; library and sketch compile as C++."""
    shipped = FIRMWARE / "arduino/src/wake_words_arena.h"
    run(tenure, "arena", MODEL, "-q", "-o", folder / "again.h")
    check((folder / "again.h").read_text() == shipped.read_text(), f"{shipped}: make it again by `tenure arena`")
    if not shutil.which("c++"):
        print("SKIP: no c++")
        return
    stand_in = folder / "stand_in"
    stand_in.mkdir()
    (stand_in / "Arduino.h").write_text("""#pragma once
#include <stdint.h>
struct Printer { void begin(long) {} void print(const char *) {} void println(unsigned long) {} };
static Printer Serial;
void setup(); void loop();
""")
    flags = ["c++", "-std=c++11", "-Wall", "-Wextra", "-Werror", f"-I{stand_in}", f"-I{shipped.parent}", "-include", "Arduino.h", "-fsyntax-only", "-x", "c++"]
    run(*flags, FIRMWARE / "arduino/src/wake_words_arena.cpp", FIRMWARE / "arduino/examples/arena/arena.ino", FIRMWARE / "platformio/src/main.cpp")


def platformio(folder):
    """The script with a stand-in for PlatformIO's environment."""
    text = (FIRMWARE / "platformio/platformio.ini").read_text()
    options = dict(re.findall(r"^(custom_tenure_\w+) = (.*)$", text, re.M))
    check("extra_scripts = pre:tenure_arena.py" in text, "platformio.ini: no script")

    class Environment:
        def __init__(self, **changes):
            self.options, self.paths, self.status = dict(options, custom_tenure_program=tenure, **changes), [], 0

        def GetProjectOption(self, name, default):
            return self.options.get(name, default)

        def subst(self, text):
            return text.replace("$PROJECT_DIR", str(FIRMWARE / "platformio")).replace("$BUILD_DIR", str(folder / "pio"))

        def Append(self, CPPPATH):
            self.paths += CPPPATH

        def Exit(self, status):
            self.status = status

    script = (FIRMWARE / "platformio/tenure_arena.py").read_text()
    header = folder / "pio/tenure/wake_words_arena.h"
    for changes, status in (({}, 0), ({"custom_tenure_max": "80KiB"}, 1), ({"custom_tenure_chip": "z80"}, 2), ({"custom_tenure_program": "/nowhere"}, 2)):
        environment, errors = Environment(**{k: v for k, v in changes.items() if k != "custom_tenure_program"}), folder / "errors"
        environment.options.update(changes)
        kept = sys.stderr
        with open(errors, "w") as sys.stderr:
            exec(compile(script, "tenure_arena.py", "exec"), {"Import": lambda name: None, "env": environment, "__name__": "script"})
        sys.stderr = kept
        check(environment.status == status, f"{changes}: status {environment.status}\n{errors.read_text()}")
        check(bool(environment.paths) == (status == 0) and header.exists() == (status == 0), f"{changes}: header")
        check(status != 1 or "pointwise1" in errors.read_text(), f"no holders: {errors.read_text()}")
        if status == 0:
            total = arena("--target", "esp32-s3", "--kernels", options["custom_tenure_kernels"])["total"]["most"]
            check(size_of(header) == total, f"not {total} bytes")


def main():
    if not shutil.which("cmake"):
        print("SKIP: no cmake")
        return 77
    with tempfile.TemporaryDirectory(prefix="tenure-firmware-") as name:
        folder = pathlib.Path(name)
        here = Installed(folder)
        if sys.argv[3] == "cmake":
            example(here, folder)
            function(here, folder)
        else:
            manifests()
            arduino(folder)
            platformio(folder)
            espressif(here, folder)
            zephyr(here, folder)
    return failed


sys.exit(main())
