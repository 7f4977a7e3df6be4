#!/bin/bash
# Debian packages, on a machine that nobody prepared (tools/fresh-root): made, judged by lintian, installed by name, used,
# removed without a trace. Runs in the root of the tree, after install.sh, whose copy it takes away first.
set -eux
xargs rm -f <build/install_manifest.txt
ldconfig
make deb
apt-get install -y --no-install-recommends ./build-deb/{tenure,libtenure0,libtenure-dev,python3-tenure}_*.deb
. tests/fresh/try.sh
try /usr
python3 -c "import tenure; assert tenure.plan([1, 2], [0, 1], [1, 2]).peak == 2"
apt-get purge -y tenure libtenure0 libtenure-dev python3-tenure
test -z "$(find /usr -path /usr/local -prune -o -name '*tenure*' -print)"
