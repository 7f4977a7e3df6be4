# What the scripts of this folder read: they run in a folder of their own and end with `exit $failed`.
failed=0

# expect STATUS PATTERN COMMAND...: the status, and the pattern in what it prints (both streams)
expect() {
    local status=$1 pattern=$2
    shift 2
    "$@" >out 2>err </dev/null
    local got=$?
    if [ $got -ne "$status" ] || ! cat out err | grep -qE -- "$pattern"; then
        echo "FAILED: $* (status $got, expected $status and '$pattern')"
        cat out err | head -5
        failed=1
    fi
}

# case_count FULL LEAST: the number of cases by the percentage TENURE_COUNT (default: 100); tests/count.h says the same for C
case_count() {
    local percent=$((${TENURE_COUNT:-100} / ${TENURE_SLOWER:-1}))
    local count=$(($1 * percent / 100))
    [ "$percent" -lt 100 ] || count=$1
    [ "$count" -ge "$2" ] || count=$2
    echo "$count"
}
