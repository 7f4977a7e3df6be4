#!/bin/bash
# Binaries are hardened: hardened.sh FILE... Each has read-only relocations, immediate binding and a stack that cannot be executed; the
# command is position independent; code checks its stack and, where the C library can, the bounds of what it copies.
set -u
failed=0
command -v readelf >/dev/null || { echo 'SKIP: no readelf'; exit 77; }
wants() { # wants FILE WHAT PATTERN TEXT
    grep -qE -- "$3" <<<"$4" || { echo "FAILED: $1: $2"; failed=1; }
}
for file in "$@"; do
    headers=$(readelf -hldW "$file")
    symbols=$(readelf -sW --dyn-syms "$file")
    wants "$file" 'not position independent' 'Type: +DYN' "$headers"
    wants "$file" 'no read-only relocations' 'GNU_RELRO' "$headers"
    wants "$file" 'no immediate binding' '\(FLAGS(_1)?\).*NOW|BIND_NOW' "$headers"
    wants "$file" 'an executable stack' 'GNU_STACK.* RW +0x' "$headers"
    wants "$file" 'no stack protector' '__stack_chk_fail' "$symbols"
    wants "$file" 'no _FORTIFY_SOURCE' '__(v?snprintf|v?fprintf|printf|memcpy|pread)_chk' "$symbols"
done
exit $failed
