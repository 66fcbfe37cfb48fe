#!/usr/bin/env bash
# Runs all checks that must pass before a change is merged. Prints one line per step with its seconds, and the log of
# each failed step.
#
#   scripts/check.sh           the checks for every change
#   scripts/check.sh --long    also with PyTorch from any source, the release wheel, and the long campaigns of
#                              mutations and kills
#
# Steps and tests that cannot run here are skipped and listed at the end. The exit code is 0 if nothing failed. With
# SHARDPACK_REQUIRE_DATA=1, a step fails if one of its tests was skipped because the real files of `shared/data` are
# missing.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit

long=no
case "${1-}" in
  '') ;;
  --long) long=yes ;;
  *) echo "check: unknown argument: $1" >&2; echo "hint: the only option is --long" >&2; exit 2 ;;
esac

scripts/setup.sh --system || exit
# Property tests draw the same inputs in every check, so that only the checked change can make them fail. The long
# checks draw new inputs. A failure can be repeated with its seed.
if [[ $long == yes ]]; then
  export PROPTEST_RNG_SEED=${PROPTEST_RNG_SEED-$((RANDOM * 32768 + RANDOM))}
  echo "check: PROPTEST_RNG_SEED=$PROPTEST_RNG_SEED"
else
  export PROPTEST_RNG_SEED=${PROPTEST_RNG_SEED-1}
fi
# Tests wait about half of their time, so run two per core.
export RUST_TEST_THREADS=${RUST_TEST_THREADS-$((2 * $(getconf _NPROCESSORS_ONLN)))}
# Incremental compilation pays off only from the second build on, and takes 1 GB. Use it only if it was used before.
[[ -d target/debug/incremental ]] || export CARGO_INCREMENTAL=0
started_all=$SECONDS

logs=target/check
mkdir -p "$logs"
passed=0 failed=0 unchecked=()
# have_data LOG: fails if the real files are required but a test in the log was skipped because they are missing.
have_data() {
  [[ ${SHARDPACK_REQUIRE_DATA-} == 1 ]] || return 0
  local missing
  missing=$(grep -ciE 'skipped.*shared/data' "$1") || return 0
  printf 'ERROR: %s tests skipped for want of shared/data, which SHARDPACK_REQUIRE_DATA=1 requires\n' "$missing"
  return 1
}
# formatting: checks rustfmt's formatting, and that no file has a merge conflict marker.
formatting() {
  cargo fmt --all --check || return
  local marks
  marks=$(git grep -nIE '^(<{7}|>{7}|[|]{7}) |^={7}$')
  case $? in
    0) printf 'ERROR: merge conflict markers:\n%s\n' "$marks"; return 1 ;;
    1) ;;
    *) return 1 ;;
  esac
}
# step NAME COMMAND…: runs the command, writes its output to a log, and prints the verdict. Later steps run even if it
# fails.
step() {
  local name=$1 log=$logs/${1// /-}.log started=$SECONDS status=0 verdict skipped
  shift
  "$@" >"$log" 2>&1 </dev/null && have_data "$log" >>"$log" || status=$?
  if ((status == 0)); then
    verdict=ok passed=$((passed + 1))
  else
    verdict=FAILED failed=$((failed + 1))
  fi
  printf '%-28s %-6s %5d s\n' "$name" "$verdict" "$((SECONDS - started))"
  if [[ $verdict == FAILED ]]; then
    # Show the names of failures before the end of the log, because many test binaries may run in between.
    { grep -E '^(test .* FAILED|FAILED|ERROR)' "$log"; grep -A3 -E '^(error|thread .* panicked)' "$log" | head -n 60; echo '…'; tail -n 20 "$log"; } | sed 's/^/    /'
    printf '    (whole log: %s)\n' "$log"
  else
    # Show the test counts, to make a step that ran nothing visible.
    grep -E '^(test result:|Ran [0-9]+ tests|[0-9]+ passed)' "$log" |
      awk '/^test result:/ { p += $4; f += $6; i += $8; next } !seen[$0]++ { print "    " $0 } END { if (p + f + i) printf "    %d passed, %d failed, %d ignored\n", p, f, i }'
  fi
  # List the tests that did not run, and why. Each Rust test prints a line `skipped: …`.
  skipped=$(sed -nE "s/^skipped: (.*)/1 × \1/p; s/^SKIPPED \[([0-9]+)\] [^:]*:([0-9]+: )?/\1 × /p; s/.* \.\.\. skipped ['\"](.*)['\"]$/1 × \1/p" "$log" |
    awk '{ n = $1; sub(/^[0-9]+ × +/, ""); sum[$0] += n } END { for (why in sum) print sum[why] " × " why }' | sort -k 3)
  if [[ -n $skipped ]]; then
    sed 's/^/    skipped: /' <<<"$skipped"
    while read -r line; do unchecked+=("$name: $line"); done <<<"$skipped"
  fi
}
# leave_out NAME WHY: records a step that cannot run here.
leave_out() {
  unchecked+=("$1: $2")
  printf '%-28s %-6s %s\n' "$1" skipped "$2"
}

# Download the tests' packages during compilation. If the download fails, it is repeated below and its message is shown.
wheel=(--profile dev)
[[ $long == no ]] || wheel=(--torch)
{ scripts/setup.sh --tests && scripts/package.sh --environment "${wheel[@]}"; } >"$logs/setup.log" 2>&1 </dev/null &
setup=$!

python=.venv/bin/python package=.venv-package/bin/python

step "formatting"        formatting
step "lints"             cargo clippy --workspace --all-targets --all-features --quiet -- -D warnings
step "documentation"     env RUSTDOCFLAGS=-Dwarnings cargo doc --workspace --all-features --no-deps --quiet
# Show the output, because it names the skipped tests. Enable HDF5, as in the wheel. Leave out the examples, because the
# lints have checked them, and linking two dozen programs takes a minute.
step "rust tests"        cargo test --workspace --all-features --tests --no-fail-fast -- --show-output
step "doc tests"         cargo test --workspace --all-features --doc --no-fail-fast
wait "$setup"
scripts/setup.sh --tests || exit
step "links"             "$python" scripts/check_links.py
step "plain words"       "$python" scripts/plain.py
step "device code"       "$python" scripts/make_ptx.py --check
step "licences"          "$python" scripts/licences.py --check
if ! cargo deny --version >/dev/null 2>&1; then
  leave_out "dependencies"  "cargo-deny is not installed: \`cargo install --locked cargo-deny\`"
else
  step "dependencies"    cargo deny check bans licenses sources
fi
# The Rust tests have already compiled most of the wheel.
step "wheel"             scripts/package.sh "${wheel[@]}"
# Each process gets whole classes and files of tests. The tests spend half of their time waiting for signals, stores and
# bench rounds.
pytest=(-m pytest --quiet -rs --numprocesses 4 --dist loadscope -p no:cacheprovider)
[[ $long == no ]] || pytest+=(-m '')
step "command tests"     "$python" "${pytest[@]}" tests/python
step "package tests"     "$package" "${pytest[@]}" python/tests
if "$package" -c 'import torch' 2>/dev/null; then
  step "package types"   "$package" -m mypy --strict --config-file python/pyproject.toml python/shardpack python/examples
else
  leave_out "package types" "PyTorch is not installed: --long installs it"
fi
step "package stubs"     "$package" -m mypy.stubtest shardpack._shardpack --mypy-config-file python/pyproject.toml
if [[ $long == yes ]]; then
  step "without features" cargo test --package shardpack-sources --lib hdf5
  step "crates"          cargo package --workspace --exclude shardpack-python --exclude shardpack-gpu-play --allow-dirty
  step "long campaigns"  cargo test --release --package shardpack --test integration -- --ignored mutations
  step "played kernels" env SHARDPACK_LONG=1 cargo test --release --package shardpack-gpu --lib -- --include-ignored
  step "orders"          env SHARDPACK_LONG=1 cargo test --release --package shardpack-loader --test loader order_resume
  step "stores, cache"   cargo test --release --package shardpack-store --test store -- --ignored cache schedules
  # This is a separate workspace, because its server requires a particular compiler.
  step "stores, s3s"     cargo test --manifest-path tests/s3s/Cargo.toml --target-dir target
  # This is a separate workspace, because it needs candle's crates.
  step "candle example"  cargo test --manifest-path examples/candle/Cargo.toml --target-dir target
  step "kills and resumes" "$python" tests/python/kill_campaign.py --rounds 200
fi

printf '\ncheck: %d passed, %d failed; %d s\n' "$passed" "$failed" "$((SECONDS - started_all))"
if ((${#unchecked[@]})); then
  printf 'check: not checked here: %s\n' "$(printf '%s; ' "${unchecked[@]}" | sed 's/; $//')"
else
  echo 'check: nothing was left out'
fi
((failed == 0))
