#!/bin/bash
# Builds the page and the package into the folder $1. Without Debian's source packages this is skipped.
web/build "$1"
status=$?
[ $status -ne 77 ] || echo "SKIP: the source packages of Debian cannot be had"
exit $status
