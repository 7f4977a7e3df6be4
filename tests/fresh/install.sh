#!/bin/bash
# What a user of the library does, on a machine that nobody prepared (tools/fresh-root): installs it, staged and in
# place, finds it by pkg-config and by CMake, compiles, links and runs a C program with it, and walks through the
# tutorial. Runs in the root of the tree.
set -eux
stage=$(mktemp -d)
make install DESTDIR="$stage" PREFIX=/opt/tenure
make install # where nothing has to be told
ldconfig
. tests/fresh/try.sh
pc=$(dirname "$(find "$stage" -name tenure.pc)")
PKG_CONFIG_PATH=$pc LD_LIBRARY_PATH=$pc/.. try "$stage/opt/tenure"
try /usr/local
sed -n 's/^    \$ //p' docs/tutorial.md >"$stage/tutorial"
[ "$(grep -c '^tenure ' "$stage/tutorial")" -ge 8 ] # no blank page
PATH=/usr/local/bin:$PATH bash -eux "$stage/tutorial" # where make install puts it
