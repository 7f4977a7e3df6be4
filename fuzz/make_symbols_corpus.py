#!/usr/bin/env python3
"""Writes the seeds of fuzz_symbols: small ELF files behind the offset of a mapping.

    make_symbols_corpus.py FOLDER
"""
import os
import struct
import sys

SYMTAB, STRTAB, DYNSYM = 2, 3, 11
LOAD = 1
FUNCTION = 2


def elf(functions, kind=SYMTAB, link=2, offset=0, names=b"\0main\0a_function\0", count=None, sections=3):
    """functions: (offset in names, first address, size). Segment: file bytes 0 to 4,096 at address 0x400000."""
    symbols = bytes(24) + b"".join(struct.pack("<IBBHQQ", name, FUNCTION, 0, 1, first, size)
                                   for name, first, size in functions)
    symbols_at = 64 + 56
    names_at = symbols_at + len(symbols)
    sections_at = names_at + len(names)
    size = len(symbols) if count is None else 24 * count
    head = b"\x7fELF" + bytes([2, 1, 1]) + bytes(9) + struct.pack(
        "<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, sections_at, 0, 64, 56, 1, 64, sections, 0)
    segment = struct.pack("<IIQQQQQQ", LOAD, 5, 0, 0x400000, 0x400000, 4096, 4096, 4096)
    table = bytes(64) + struct.pack("<IIQQQQIIQQ", 0, kind, 0, 0, symbols_at, size, link, 0, 8, 24) + struct.pack(
        "<IIQQQQIIQQ", 0, STRTAB, 0, 0, names_at, len(names), 0, 0, 1, 0)
    return struct.pack("<H", offset) + head + segment + symbols + names + table


SEEDS = {
    "two": elf([(1, 0x400100, 200), (6, 0x400400, 1000)]),
    "dynamic": elf([(1, 0x400000, 4096)], kind=DYNSYM, offset=16),
    "overlap": elf([(1, 0x400100, 2000), (6, 0x400100, 100), (6, 0x400200, 10)]),
    "no_names": elf([(1, 0x400100, 200)], link=7),
    "name_outside": elf([(99, 0x400000, 4096)]),
    "long_name": elf([(1, 0x400000, 4096)], names=b"\0" + b"n" * 300),
    "most_symbols": elf([(1, 0x400000, 4096)], count=1 << 50),
    "no_sections": elf([], sections=0),
    "text": b"\0\0not a file of code",
}
os.makedirs(sys.argv[1], exist_ok=True)
for name, data in SEEDS.items():
    with open(os.path.join(sys.argv[1], name + ".bin"), "wb") as file:
        file.write(data)
