#!/bin/bash
# Builds the library, the command and tests in C for another processor, with Debian's cross compiler; runs the tests in QEMU,
# and compares the command's answers with those of this machine's:
#   machine.sh NAME PROCESSOR COMPILER-PREFIX FOLDER NATIVE-COMMAND      in the root of the tree
# NAME begins the names of the tests. Of each room below, those that are quick on this machine are run.
set -euo pipefail
name=$1 processor=$2 prefix=$3 folder=$4 native=$5
rooms='base|graph|import|weights|snapshot|export|report|program|plan|pool'
tools/libraries "$folder/libraries" "$prefix-gcc -fPIC" "$prefix-ar" || {
    [ $? -ne 77 ] || { echo "SKIP: the source packages of Debian cannot be had"; exit 77; }
    exit 1
}
export PKG_CONFIG_LIBDIR=$folder/libraries/lib/pkgconfig
cmake -S . -B "$folder" -G Ninja -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR="$processor" -DCMAKE_C_COMPILER="$prefix-gcc" \
    -DCMAKE_CROSSCOMPILING_EMULATOR="qemu-$processor-static;-L;/usr/$prefix" -DCMAKE_FIND_ROOT_PATH="/usr/$prefix" \
    -DCMAKE_FIND_ROOT_PATH_MODE_INCLUDE=ONLY -DCMAKE_BUILD_TYPE=Release -DCMAKE_C_FLAGS_RELEASE="-O1 -DNDEBUG" -DTENURE_WERROR=ON \
    -DTENURE_MPI=OFF -Dcmocka_DIR="$folder/libraries/lib" -DTENURE_TEST_PREFIX="$name." -DTENURE_TEST_ONLY="^($rooms)\\." >/dev/null
cmake --build "$folder" --parallel 2 --target tenure_gate tenure_command | tail -1
node tests/machines/answers.mjs . "$native" -- "qemu-$processor-static" -L "/usr/$prefix" "$folder/tenure"
TENURE_COUNT=5 ctest --test-dir "$folder" --parallel 2 --label-regex '^medium$' --output-on-failure
