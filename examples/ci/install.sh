#!/bin/sh
# Unpacks a release of Tenure without installing it, and prints the folder with the command. For continuous integration:
# the only download is the release file, and it must have the given checksum.
#
#     install.sh URL SHA256 FOLDER
#
# URL: a .deb package, or a .tar.gz with the command in a folder bin. Needs curl and sha256sum, and dpkg-deb for a package.
set -eu
fail() { echo "install.sh: error: $*" >&2; exit 2; }
[ $# -eq 3 ] || fail "usage: install.sh URL SHA256 FOLDER"
url=$1 sum=$2 folder=$3
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
curl --fail --silent --show-error --location --output "$folder/release" -- "$url" || fail "cannot download $url"
echo "$sum  $folder/release" | sha256sum --check --status ||
    fail "$url has the SHA-256 $(sha256sum "$folder/release" | cut -d' ' -f1), not $sum"
case $url in
*.deb) dpkg-deb --extract "$folder/release" "$folder/root" ;;
*.tar.gz | *.tgz) mkdir -p "$folder/root" && tar -xzf "$folder/release" -C "$folder/root" ;;
*) fail "$url is neither a .deb nor a .tar.gz" ;;
esac
command=$(find "$folder/root" -path '*/bin/tenure' -type f | head -n 1)
[ -n "$command" ] || fail "$url has no bin/tenure"
"$command" --version >"$folder/version" 2>&1 ||
    fail "the command does not start here: $(head -n 1 "$folder/version"); it needs the libraries jansson and zlib"
dirname "$command"
