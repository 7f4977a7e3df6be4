"""A step before the build of a PlatformIO project: computes the tensor arena of a model, and stops the build if it does not
fit. Writes <model>_arena.h, which sources can include, and <model>_planned.tflite, the model with the plan inside: the
size in the header is for this file. Both are in the folder `tenure` of the build folder.

platformio.ini:
    extra_scripts = pre:tenure_arena.py
    custom_tenure_model    path of the model, from the folder of the project
    custom_tenure_max      most bytes of the arena, such as 96KiB (default: no limit)
    custom_tenure_chip     processor, a name of `tenure arena --target` (default: cortex-m4)
    custom_tenure_kernels  kernel library, as in `tenure arena --kernels` (default: the largest of all)
    custom_tenure_program  the command of Tenure (default: tenure on the PATH)
"""
import os
import subprocess
import sys

Import("env")  # noqa: F821 - a function of PlatformIO


def option(name, default=""):
    return env.GetProjectOption("custom_tenure_" + name, default)  # noqa: F821


def main():
    model = os.path.join(env.subst("$PROJECT_DIR"), option("model"))  # noqa: F821
    folder = os.path.join(env.subst("$BUILD_DIR"), "tenure")  # noqa: F821
    os.makedirs(folder, exist_ok=True)
    stem = os.path.join(folder, os.path.splitext(os.path.basename(model))[0])
    made = [stem + "_arena.h", stem + "_planned.tflite"]
    command = [option("program", "tenure"), "arena", model, "-o", made[0], "-o", made[1]]
    for name, key in (("target", "chip"), ("max", "max"), ("kernels", "kernels")):
        if option(key):
            command += [f"--{name}", option(key)]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True)
    except OSError as error:
        sys.stderr.write(f"tenure_arena: error: cannot run {command[0]}: {error.strerror}; install Tenure, or set custom_tenure_program\n")
        env.Exit(2)  # noqa: F821
        return
    if done.returncode:
        for path in made:  # nothing of a failed build is used by a later one
            if os.path.exists(path):
                os.remove(path)
        sys.stderr.write(done.stdout)
        sys.stderr.write(f"tenure_arena: error: {os.path.basename(model)}: " +
                         ("the arena does not fit\n" if done.returncode == 1 else "its arena is not known\n"))
        env.Exit(done.returncode)  # noqa: F821
        return
    env.Append(CPPPATH=[folder])  # noqa: F821


main()
