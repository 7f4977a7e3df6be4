# shell functions for install.sh and packages.sh

# try PREFIX: the library below it is found, linked and run, the command plans, its page is there. What finders need to
# know beyond that is told by the environment.
try() {
    local made
    made=$(mktemp -d)
    cc -std=c17 -Wall -Wextra -Werror examples/plan_buffers.c -o "$made/by_pkg_config" $(pkg-config --cflags --libs tenure)
    cmake -S tests/fresh/find_package -B "$made" -DEXAMPLE="$PWD/examples/plan_buffers.c" -DCMAKE_PREFIX_PATH="$1"
    cmake --build "$made"
    for program in "$made/by_pkg_config" "$made/user"; do
        realpath "$(ldd "$program" | sed -n 's/.*libtenure.so.0 => \(.*\) (.*/\1/p')" | grep -q "^$1/"
        "$program"
    done
    "$1/bin/tenure" plan examples/models/mobilenet_v2.onnx >/dev/null
    test -s "$1/share/man/man1/tenure.1" || test -s "$1/share/man/man1/tenure.1.gz"
}
