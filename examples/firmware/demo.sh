#!/bin/bash
# The story of a microcontroller in one screen: how large must the arena be, does a plan make it fit, does it
# still hold, and the firmware around it. demo.sh BUILD (make demo-mcu)
set -eu
build=$(cd "$1" && pwd)
source=$(cd "$(dirname "$0")/../.." && pwd)
model=$source/examples/models/wake_words.tflite
mkdir -p "$build/mcu"
cd "$build/mcu"
cp "$model" .
PATH=$build:$PATH
say() { printf '\n$ %s\n' "$*"; }

echo "A network that sees whether somebody is in front of the camera; 64 KiB of memory. Without a plan:"
say tenure arena wake_words.tflite --plan none --max 64KiB
tenure arena wake_words.tflite --plan none --max 64KiB | grep -E '^  (head|tail|total|does not fit)' || true
echo
echo "With one, which is proved, and travels inside the model:"
say tenure arena wake_words.tflite --max 64KiB -o planned.tflite
tenure arena wake_words.tflite --max 64KiB -o planned.tflite | grep -E '^  (head|tail|total|fits|lower)'
say tenure verify planned.tflite
tenure verify planned.tflite
echo
echo "In two memories, as a header; every promise is asserted again by the compiler:"
say tenure plan wake_words.tflite --alignment 16 --bank dtcm=40KiB@2GB/s --bank sram=64KiB@1GB/s -o wake_words.h
tenure plan wake_words.tflite --alignment 16 --bank dtcm=40KiB@2GB/s --bank sram=64KiB@1GB/s -o wake_words.h | grep -E '^  (arena|bank|dtcm|sram)' || true
if command -v arm-none-eabi-gcc >/dev/null; then
    say arm-none-eabi-gcc -mcpu=cortex-m4 ... main.c -o firmware.elf
    arm-none-eabi-gcc -mcpu=cortex-m4 -mthumb -Os -std=c11 -Wall -Wextra -Wpedantic -Werror -ffreestanding -nostdlib -I. \
        "$source/examples/firmware/main.c" -T "$source/examples/firmware/cortex_m4.ld" -o firmware.elf
    arm-none-eabi-nm -S firmware.elf | grep ' wake_words_'
else
    echo "(no arm-none-eabi-gcc here: apt-get install gcc-arm-none-eabi)"
fi
