#!/bin/sh
# Runs what this folder holds; README.md has the commands. Ends with an error if anything failed.
here=$(cd "$(dirname "$0")" && pwd) || exit 1
what=${1:-all}
[ $# -gt 0 ] && shift
# Copies of the folder may have lost it.
chmod +x "$here"/bin/* 2>/dev/null

# Takes tests and benches out of their archive, once.
unpack() {
    [ -d "$here/benches" ] && return
    (
        cd "$here" || exit 1
        tar -xJf programs.tar.xz 2>/dev/null ||
            python3 -c 'import tarfile; tarfile.open("programs.tar.xz").extractall()'
    ) || {
        echo "programs.tar.xz cannot be unpacked: neither tar with xz nor python3 could" >&2
        exit 1
    }
}

verify() {
    "$here/bin/cotangent" verify "$@"
}

tests() {
    unpack
    failed=0
    for test in "$here"/tests/*; do
        [ -f "$test" ] || continue
        "$test" --quiet "$@" || {
            echo "failed: $(basename "$test")"
            failed=1
        }
    done
    return $failed
}

soak() {
    unpack
    "$here/soak/soak" "$@"
}

benches() {
    unpack
    failed=0
    for bench in "$here"/benches/*; do
        [ -f "$bench" ] || continue
        (cd "$here" && "$bench" --bench "$@") || failed=1
    done
    return $failed
}

record() {
    "$here/bin/record" --out "$here/record" "$@"
}

case $what in
    verify | tests | soak | benches | record) "$what" "$@" ;;
    all)
        status=0
        verify || status=1
        tests || status=1
        record || status=1
        exit $status
        ;;
    *)
        echo "usage: sh run.sh [verify|tests|soak|benches|record] [arguments]" >&2
        exit 2
        ;;
esac
