#!/usr/bin/python3
"""tenure/_abi.py against the headers, by a C compiler: sizes and offsets of all structs, tables, arguments.

    layouts.py SOURCE LIBRARY [CC]

Writes a C program of what _abi.py says. What can be compared when compiling are static assertions; arguments are
passed in calls that are never evaluated, with integers and pointers as errors where they differ from the prototype.
Exit status: 0 they agree, 1 not.
"""
import ctypes
import os
import pathlib
import re
import subprocess
import sys
import tempfile

source = os.path.abspath(sys.argv[1])
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(source, "bindings/python"))
from tenure import _abi  # noqa: E402

SIMPLE = {ctypes.c_int: "int", ctypes.c_int64: "int64_t", ctypes.c_uint64: "uint64_t", ctypes.c_uint32: "uint32_t",
          ctypes.c_uint8: "uint8_t", ctypes.c_bool: "bool", ctypes.c_double: "double", ctypes.c_float: "float",
          ctypes.c_size_t: "size_t", ctypes.c_char_p: "char *", ctypes.c_void_p: "void *", ctypes.c_char: "char",
          None: "void"}
NAMES = {"STATUSES": "tn_status_name", "VERDICTS": "tn_verdict_name", "KINDS": "tn_kind_name", "PARTS": "tn_part_name",
         "PHASES": "tn_phase_name", "LOSSES": "tn_loss_name", "SCHEDULES": "tn_schedule_name", "OPTIMIZERS": "tn_optimizer_name",
         "OPCODES": "tn_opcode_name", "FATES": "tn_fate_name", "DTYPES": "tn_dtype_name"}
NUMBERS = {"TN_NONE": _abi.NONE, "TN_SIZE_UNKNOWN": _abi.SIZE_UNKNOWN, "TN_BODY_PINNED": _abi.BODY_PINNED,
           "TN_BODY_TIED": _abi.BODY_TIED, "TN_REWRITE_TO_RUN": _abi.TO_RUN, "TN_REWRITE_TO_TRAIN": _abi.TO_TRAIN,
           "TN_REWRITE_TRAINED": _abi.TRAINED, "TN_INPLACE_NONE": _abi.INPLACE_NONE,
           "TN_PART_COUNT": len(_abi.PARTS), "TN_PHASE_COUNT": len(_abi.PHASES), "TN_KIND_COUNT": len(_abi.KINDS),
           "TN_FATE_COUNT": len(_abi.FATES), "TN_OPCODE_COUNT": len(_abi.OPCODES), "TN_LOSS_COUNT": len(_abi.LOSSES), "TN_SCHEDULE_COUNT": len(_abi.SCHEDULES),
           "TN_OPTIMIZER_COUNT": len(_abi.OPTIMIZERS), "TN_E_OUTSIDE": len(_abi.STATUSES) - 1,
           "TN_BFLOAT16": len(_abi.DTYPES) - 1,
           "TN_VERDICT_STOPPED": len(_abi.VERDICTS) - 1, "TN_CONFLICT_BANK": len(_abi.CONFLICTS) - 1}
NUMBERS.update(("TN_FIT_" + name.upper(), bit) for name, bit in _abi.ALLOW.items())
NUMBERS.update(("TN_ATTR_" + name.upper(), at) for at, name in enumerate(_abi.ATTRS))
NUMBERS.update(("TN_CONFLICT_" + name.upper(), at) for at, name in enumerate(_abi.CONFLICTS))


INTEGERS = (ctypes.c_uint32, ctypes.c_uint64, ctypes.c_size_t, ctypes.c_int, ctypes.c_int64)
HEADERS = "".join(path.read_text() for path in sorted(pathlib.Path(source, "include/tenure").glob("*.h")))
HEADERS = re.sub(r"/\*.*?\*/", "", HEADERS, flags=re.DOTALL)  # examples in comments call functions, too


def structs():
    return {name: kind for name, kind in vars(_abi).items()
            if isinstance(kind, type) and issubclass(kind, ctypes.Structure) and name.startswith("tn_")}


def c_type(kind):
    if kind in SIMPLE:
        return SIMPLE[kind]
    if isinstance(kind, type) and issubclass(kind, ctypes.Structure):
        return kind.__name__
    return c_type(kind._type_) + " *"


def check_structs():
    for name, kind in structs().items():
        if not hasattr(kind, "_fields_"):
            continue
        yield '_Static_assert(sizeof(%s) == %d, "%s");' % (name, ctypes.sizeof(kind), name)
        for member, what in kind._fields_:
            at, where = getattr(kind, member), "%s.%s" % (name, member)
            yield '_Static_assert(offsetof(%s, %s) == %d, "%s");' % (name, member, at.offset, where)
            yield '_Static_assert(sizeof(((%s *)0)->%s) == %d, "%s is another size");' % (name, member, at.size, where)
            number = {ctypes.c_double: "double", ctypes.c_float: "float", ctypes.c_bool: "bool"}.get(what)
            if number:
                yield '_Static_assert(_Generic(((%s *)0)->%s, %s: 1, default: 0), "%s");' % (name, member, number, where)


def prototype(name):
    """Types of the arguments, without their names and const."""
    found = re.search(r"\b%s\(([^)]*)\)\s*;" % name, HEADERS).group(1)
    return [re.sub(r"\bconst\b|\w+(\[.*\])?$", "", word.strip()).strip() for word in found.split(",")]


def check_functions():
    for name, (result, arguments) in _abi.FUNCTIONS.items():
        given = ", ".join("*(%s *)0" % c_type(kind) for kind in arguments)
        yield "(void)sizeof(%s(%s), 0);" % (name, given)
        if result is not None and name != "tn_setup_need":
            found = "__typeof__(%s(%s))" % (name, given)
            yield '_Static_assert(sizeof(%s) == sizeof(%s), "%s gives another type");' % (found, c_type(result), name)
        for kind, word in zip(arguments, prototype(name)):
            if kind in INTEGERS:
                yield '_Static_assert(sizeof(%s) == %d, "%s: %s");' % (word, ctypes.sizeof(kind), name, word)


def program():
    yield "#define TENURE_EXPERIMENTAL\n#include <stddef.h>\n#include <stdio.h>\n#include <string.h>\n#include <tenure/tenure.h>"
    yield "static int differ(const char *table, int at, const char *ours, const char *theirs) {"
    yield "    int bad = strcmp(ours, theirs) != 0;"
    yield '    if (bad) printf("%s[%d]: %s is %s\\n", table, at, ours, theirs);\n    return bad;\n}'
    yield "int main(void) {\n    int bad = 0;"
    yield from check_structs()
    yield from check_functions()
    for name, value in NUMBERS.items():
        yield '_Static_assert(%s == %dull, "%s");' % (name, value, name)
    for table, function in NAMES.items():
        for at, text in enumerate(getattr(_abi, table)):
            yield '    bad |= differ("%s", %d, "%s", %s(%d));' % (table, at, text, function, at)
    yield "    return bad;\n}"


def main():
    library, cc = os.path.abspath(sys.argv[2]), (sys.argv[3:] or ["cc"])[0]
    with tempfile.TemporaryDirectory() as folder:
        path, made = os.path.join(folder, "layouts.c"), os.path.join(folder, "layouts")
        with open(path, "w") as file:
            file.write("\n".join(program()) + "\n")
        flags = ["-std=c17", "-Wall", "-Wconversion", "-Wno-unused-value", "-Wno-discarded-qualifiers",
                 "-Wno-incompatible-pointer-types-discards-qualifiers", "-Werror", "-I", os.path.join(source, "include")]
        built = subprocess.run([cc, *flags, path, library, "-o", made])
        if built.returncode:
            sys.exit(1)
        ran = subprocess.run([made], env=dict(os.environ, LD_LIBRARY_PATH=os.path.dirname(library)))
    count = sum(hasattr(kind, "_fields_") for kind in structs().values())
    print("%d structs, %d functions, %d numbers: %s" % (count, len(_abi.FUNCTIONS), len(NUMBERS),
                                                        "they differ" if ran.returncode else "they agree"))
    sys.exit(1 if ran.returncode else 0)


main()
