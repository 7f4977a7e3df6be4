#!/bin/bash
# Headers of plans compile without a warning, as C and as C++, for the host and for microcontrollers; the
# example firmware links with its tensors in the memories that the plan chose, and runs on the host.
# header.sh TENURE SOURCE [FOLDER of further models]
set -u
. "$(dirname "$(readlink -f "$0")")/expect.sh"
tenure=$1
source=$2
shift 2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
failed=0
fail() { echo "FAILED: $*"; failed=1; }
flags="-Wall -Wextra -Wpedantic -Werror"
compilers="gcc,-std=c99 gcc,-std=c11 gcc,-std=c17"
for compiler in g++,-std=c++11 g++,-std=c++17 clang,-std=c17 arm-none-eabi-gcc,-mcpu=cortex-m0,-mthumb,-ffreestanding,-std=c17 \
    arm-none-eabi-gcc,-mcpu=cortex-m4,-mthumb,-ffreestanding,-std=c99 arm-none-eabi-g++,-mcpu=cortex-m55,-mthumb,-ffreestanding,-std=c++17; do
    if command -v "${compiler%%,*}" >/dev/null; then
        compilers="$compilers $compiler"
    else
        echo "SKIP: no ${compiler%%,*}"
    fi
done

compile() { # COMPILER FILE: objects of both kinds, with the arrays and without
    local name=${1%% *} language=c
    [ "${name%++}" != "$name" ] && language=c++
    # shellcheck disable=SC2086
    $name ${1#"$name"} $flags -x $language -c "$2" -o object.o 2>err || return 1
}

# The gate compiles each header with some of the compilers in turn; all of them compile several.
kinds=$(wc -w <<<"$compilers")
every=$(case_count "$kinds" 2)
count=0
for model in "$source"/examples/models/*.tflite "$source"/examples/models/five_operators.onnx "$source"/fuzz/corpus/tflite/*.tflite ${1:+"$1"/*.tflite}; do
    [ -e "$model" ] || { echo "SKIP: $model is not there"; continue; }
    for options in "" "--bank fast=32KiB@2GB/s --bank slow=none@1GB/s"; do
        # shellcheck disable=SC2086
        $tenure plan "$model" $options -o plan.h >out 2>&1 || { fail "plan $model $options"; cat out; continue; }
        # shellcheck disable=SC2086
        for compiler in $(printf '%s\n' $compilers $compilers | tail -n +$((1 + count * every % kinds)) | head -"$every"); do
            upper=$(sed -n 's/^#ifndef \(.*\)_PLAN_H$/\1/p' plan.h)
            printf '#define %s_DEFINE\n#include "plan.h"\n#include "plan.h"\n' "$upper" >one.c
            compile "${compiler//,/ }" one.c || { fail "${compiler//,/ }: $model $options"; head -5 err; }
        done
        count=$((count + 1))
    done
done

# what the plan promises is asserted again: a tensor that was moved out, a memory that is too small
$tenure plan "$source/examples/models/keywords.tflite" -o plan.h >out
printf '#include "plan.h"\n' >one.c
compile gcc one.c || fail "the header as it is"
sed -i 's/^\(#define KEYWORDS_OFFSET_FRAMES\) .*/\1 999999u/' plan.h
compile gcc one.c && fail "a tensor outside its memory compiles"
$tenure plan "$source/examples/models/keywords.tflite" -o plan.h >out
printf '#define KEYWORDS_ARENA_CAPACITY 4096u\n#include "plan.h"\n' >one.c
compile gcc one.c && fail "a memory that is too small compiles"

# hostile names: of the file, and of tensors
cp "$source/fuzz/corpus/tflite/convolution.tflite" '1* "x" ??) µ.tflite'
$tenure plan '1* "x" ??) µ.tflite' -o plan.h >out 2>&1 || fail "a strange name of a file"
printf '#include "plan.h"\n' >one.c
compile "gcc -std=c11" one.c || { fail "a header of a strange name"; head -5 err; }
printf 'id,lower,upper,size\n"/*,0,3,600\n\\??/,1,4,500\n*/,3,6,700\n+,3,6,700\n' >names.csv
$tenure plan names.csv -o plan.h >out 2>&1 || fail "strange names of buffers"
compile "gcc -std=c11" one.c || { fail "a header of strange names"; head -5 err; }

# the example firmware
$tenure plan "$source/examples/models/wake_words.tflite" --alignment 16 --bank dtcm=40KiB@2GB/s --bank sram=64KiB@1GB/s -o wake_words.h >out ||
    fail "the plan of the firmware"
# shellcheck disable=SC2086
gcc -std=c11 $flags -I. "$source/examples/firmware/main.c" -o firmware && ./firmware || fail "the firmware on the host"
if command -v arm-none-eabi-gcc >/dev/null; then
    # shellcheck disable=SC2086
    arm-none-eabi-gcc -mcpu=cortex-m4 -mthumb -Os -std=c11 $flags -ffreestanding -nostdlib -I. "$source/examples/firmware/main.c" \
        -T "$source/examples/firmware/cortex_m4.ld" -o firmware.elf || fail "the firmware for Cortex-M4"
    for place in "wake_words_dtcm 20000000" "wake_words_sram 20020000"; do
        arm-none-eabi-nm firmware.elf | grep -q "^${place#* } . ${place% *}$" ||
            { fail "${place% *} is not at ${place#* }"; arm-none-eabi-nm firmware.elf | grep wake; }
    done
fi
echo "$count headers compiled"
exit $failed
