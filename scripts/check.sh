#!/usr/bin/env bash
# Everything that must hold before a change goes in. One line for each step, with its seconds; the log of a failed step is shown.
#
#   scripts/check.sh           the checks of every change
#   scripts/check.sh --long    the same, and the long campaigns: more mutations, more kills
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit

long=no
case "${1-}" in
  '') ;;
  --long) long=yes ;;
  *) echo "check: unknown argument: $1" >&2; echo "hint: the only one is --long" >&2; exit 2 ;;
esac

scripts/setup.sh || exit

logs=target/check
mkdir -p "$logs"
passed=0 failed=0
# step NAME COMMAND…: runs it with its output in a log, and prints the verdict. A failed step does not hide the steps after it.
step() {
  local name=$1 log started=$SECONDS verdict
  log=$logs/${name// /-}.log
  shift
  if "$@" >"$log" 2>&1 </dev/null; then
    verdict=ok passed=$((passed + 1))
  else
    verdict=FAILED failed=$((failed + 1))
  fi
  printf '%-28s %-6s %5d s\n' "$name" "$verdict" "$((SECONDS - started))"
  if [[ $verdict == FAILED ]]; then
    # What failed, by name, before the end of the log: with many test binaries the two are far apart.
    { grep -E '^(test .* FAILED|FAIL:|ERROR:)' "$log"; grep -A3 -E '^(error|thread .* panicked)' "$log" | head -n 60; echo '…'; tail -n 20 "$log"; } | sed 's/^/    /'
    printf '    (whole log: %s)\n' "$log"
  else
    # What the test runners say they ran, so that a step that ran nothing is seen.
    grep -E '^(test result:|Ran [0-9]+ tests|OK \(skipped|[0-9]+ passed)' "$log" | awk '{ n[$0]++ } END { for (l in n) print l }' |
      awk '/^test result:/ { p += $4; f += $6; i += $8; next } { print "    " $0 } END { if (p + f + i) printf "    %d passed, %d failed, %d ignored\n", p, f, i }'
  fi
}

# Its download takes longer than its unpacking: meanwhile the cores compile. If it fails, the step "wheel" tries again, and says why.
scripts/package.sh --environment >"$logs/environment.log" 2>&1 </dev/null &
environment=$!

python=.venv/bin/python package=.venv-package/bin/python

step "formatting"        cargo fmt --all --check
step "lints"             cargo clippy --workspace --all-targets --quiet -- -D warnings
step "documentation"     env RUSTDOCFLAGS=-Dwarnings cargo doc --workspace --no-deps --quiet
step "build"             cargo build --workspace --all-targets --quiet
step "rust tests"        cargo test --workspace --no-fail-fast
step "python tests"      "$python" -m unittest discover --start-directory tests/python --verbose
wait "$environment"
step "wheel"             scripts/package.sh
step "package tests"     "$package" -m pytest python/tests --quiet
step "package types"     "$package" -m mypy --strict --config-file python/pyproject.toml python/shardpack python/examples
step "package stubs"     "$package" -m mypy.stubtest shardpack._shardpack --mypy-config-file python/pyproject.toml
if [[ $long == yes ]]; then
  step "long campaigns"  cargo test --release --package shardpack --test mutations -- --ignored
  step "kills and resumes" "$python" tests/python/kill_campaign.py --rounds 200
fi

printf '\ncheck: %d passed, %d failed\n' "$passed" "$failed"
((failed == 0))
