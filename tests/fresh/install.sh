#!/bin/bash
# What a user of the library does, on a machine that nobody prepared (tools/fresh-root): installs it, staged and in
# place, finds it by pkg-config, compiles, links and runs a C program with it. Runs in the root of the tree.
set -eux
stage=$(mktemp -d)
make install DESTDIR="$stage" PREFIX=/opt/tenure
make install # where nothing has to be told
ldconfig

try() { # PREFIX; the rest is told by the environment
    cc -std=c17 -Wall -Wextra -Werror examples/plan_buffers.c -o "$stage/plan_buffers" $(pkg-config --cflags --libs tenure)
    ldd "$stage/plan_buffers" | grep -q "libtenure.so.0 => $1"
    "$stage/plan_buffers"
    "$1/bin/tenure" plan examples/models/mobilenet_v2.onnx >/dev/null
    test -s "$1/share/man/man1/tenure.1"
}
pc=$(dirname "$(find "$stage" -name tenure.pc)")
PKG_CONFIG_PATH=$pc LD_LIBRARY_PATH=$pc/.. try "$stage/opt/tenure"
try /usr/local
