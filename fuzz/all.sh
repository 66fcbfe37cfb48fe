#!/usr/bin/env bash
# Runs fuzz targets for SECONDS each (default 3600), one per core at a time. Prints a line for each
# target. Exits with 1 if a target found a bug, and stores the failing inputs in artifacts/TARGET.
#
#   fuzz/all.sh [SECONDS] [TARGET…]           all targets, or the named ones
#   FUZZ_BIN=FOLDER fuzz/all.sh …             uses programs built elsewhere, without Rust
#
# Each target starts from corpus/TARGET, to which it adds new inputs, and from seeds/TARGET. JOBS is the
# number of parallel targets. FUZZ_RSS_MB (default 2048) and FUZZ_TIMEOUT (seconds, default 60) limit a
# single input. FUZZ_OUT is the folder for corpus, logs and artifacts (default: this folder).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)

seconds=${1:-3600}
[[ $seconds =~ ^[1-9][0-9]*$ ]] || { echo "fuzz/all.sh: expected a number of seconds, found: $seconds" >&2; exit 2; }
shift || true
out=${FUZZ_OUT:-$here}
mkdir -p "$out"
if [ -n "${FUZZ_BIN:-}" ]; then
    bin=$(cd "$FUZZ_BIN" && pwd)
    mapfile -t targets < <(cd "$bin" && find . -maxdepth 1 -type f -perm -u+x ! -name '*.sh' -printf '%f\n' | sort)
else
    bin=$here/target/$(rustc -vV | sed -n 's/^host: //p')/release
    mapfile -t targets < <(cd "$here/fuzz_targets" && ls -- *.rs | sed 's/[.]rs$//')
fi
for target in "$@"; do
    [[ " ${targets[*]} " == *" $target "* ]] || { echo "fuzz/all.sh: unknown target: $target" >&2; exit 2; }
done
[ $# = 0 ] || targets=("$@")
if [ -z "${FUZZ_BIN:-}" ]; then
    (cd "$here/.." && cargo test --quiet --features hdf5 --test integration write_corpus -- --ignored >/dev/null)
    (cd "$here" && cargo +nightly fuzz build)
fi
# Use /dev/shm for temporary files, because some targets write each input to a file.
if [ -z "${TMPDIR:-}" ] && [ -w /dev/shm ]; then
    export TMPDIR=/dev/shm
fi

# Sums a figure in the fuzzer's final statistics.
total() {
    awk -v "name=stat::$1:" '$1 == name { n += $2 } END { print n + 0 }' "$2"
}

# Runs one target until its time is up, restarting it after each finding.
one() {
    local target=$1 log=$out/logs/$1.log end=$((SECONDS + seconds)) found=0 code left last=-1
    local corpus=$out/corpus/$target artifacts=$out/artifacts/$target from=("$out/corpus/$target")
    mkdir -p "$corpus" "$artifacts" "$out/logs"
    for folder in "$here/corpus/$target" "$here/seeds/$target"; do
        if [ -d "$folder" ] && [ ! "$folder" -ef "$corpus" ]; then from+=("$folder"); fi
    done
    : >"$log"
    while left=$((end - SECONDS)) && [ $left -gt 0 ]; do
        code=0
        # A target that was killed by a signal or for lack of memory has also found a bug.
        "$bin/$target" -max_total_time=$left -timeout="${FUZZ_TIMEOUT:-60}" -rss_limit_mb="${FUZZ_RSS_MB:-2048}" \
            -print_final_stats=1 -artifact_prefix="$artifacts/" "${from[@]}" >>"$log" 2>&1 || code=$?
        [ $code = 0 ] && break
        found=$((found + 1))
        # Stop after 20 findings, or if the target fails at once: it would find nothing new.
        if [ $found -ge 20 ] || [ $SECONDS = $last ]; then break; fi
        last=$SECONDS
    done
    local runs fresh note=""
    runs=$(total number_of_executed_units "$log")
    fresh=$(total new_units_added "$log")
    # A target without any runs did not work.
    if [ $found != 0 ] || [ "$runs" = 0 ]; then note="  see $artifacts and $log"; fi
    printf '%-14s %12s runs  %6s new inputs  %3s crashes%s\n' "$target" "$runs" "$fresh" $found "$note"
    [ -z "$note" ]
}

jobs=${JOBS:-$(nproc)} failed=0 running=0
for target in "${targets[@]}"; do
    if [ $running -ge "$jobs" ]; then
        wait -n || failed=1
        running=$((running - 1))
    fi
    one "$target" &
    running=$((running + 1))
done
while [ $running -gt 0 ]; do
    wait -n || failed=1
    running=$((running - 1))
done
exit $failed
