#!/bin/sh
# networks.sh TENURE SHARED - training graphs of other people's tools: by default each is planned at its lower bound.
set -u
tenure=$1
problems=$2/problems
failed=0
[ -d "$problems" ] || { echo "SKIP: no shared data"; exit 77; }
for name in somas_pangu_2.6B somas_resnet50 iopddl_G_1; do
    said=$("$tenure" plan "$problems/$name.csv" --brief) || failed=1
    case $said in
    *optimal*) ;;
    *) echo "$name: $said"; failed=1 ;;
    esac
done
exit $failed
