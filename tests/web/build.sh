#!/bin/bash
# Builds the page and the package into the folder $1. Without Debian's source packages this is skipped.
set -euo pipefail
if [ ! -e "$1/libraries/lib/pkgconfig/zlib.pc" ] && ! web/libraries "$1/libraries"; then
    echo "SKIP: the source packages of Debian cannot be had"
    exit 77
fi
web/build "$1"
