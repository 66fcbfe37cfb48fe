#!/usr/bin/env bash
# Everything that needs a GPU: the kernels' results beside the host's, then their speed. For anyone who has one.
#
#   scripts/gpu.sh FOLDER            FOLDER holds JPEGs, in folders or not
#   scripts/gpu.sh FOLDER --check-only
#   scripts/gpu.sh FOLDER --all         also the long campaigns, the benches beside other libraries and the steps of a training
#                                       loop (benches/device.py, python/examples/poster.py); what cannot run fails
#
# With compute-sanitizer on the PATH, a small batch of pictures and arrays of each type and codec are run under all of
# its tools too. With an installed wheel (scripts/package.sh), the tests of the Python package that need a device are run.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if (($# == 0)); then
  echo "gpu: expected a folder of JPEGs, found no argument" >&2
  echo "hint: scripts/gpu.sh FOLDER" >&2
  exit 2
fi

mode=${2:-}
# left_out WHAT: says what does not run here; with --all that is a failure, at the end.
missing=0
left_out() {
  echo "gpu: left out: $1" >&2
  missing=1
}
if [[ $mode == --all ]]; then
  export SHARDPACK_DAMAGED=${SHARDPACK_DAMAGED:-10000} SHARDPACK_BATCHES=${SHARDPACK_BATCHES:-10000}
fi

cargo build --release --quiet --package shardpack-gpu --examples
run=target/release/examples/pictures_on_device
only=()
[[ $mode != --check-only ]] || only=(--check-only)
"$run" "$1" "${only[@]}"
# SHARDPACK_CUBES can name datasets of cubes, with colons between them: their arrays are compared as well.
cargo test --release --quiet --package shardpack-gpu --test device -- --nocapture
python=python3
[[ -x .venv-package/bin/python ]] && python=.venv-package/bin/python
if "$python" -c 'import pytest, shardpack, torch' 2>/dev/null; then
  "$python" -m pytest -q -rs python/tests/test_device*.py
else
  left_out "python/tests/test_device*.py: $python has no wheel, or no PyTorch or pytest"
fi
if [[ $mode == --all ]]; then
  "$python" benches/device.py "$1" || left_out "benches/device.py failed"
  "$python" python/examples/poster.py --copies 4 --out target/poster || left_out "python/examples/poster.py failed"
fi
if [[ $mode != --check-only ]]; then
  target/release/examples/cube_rate
  # SHARDPACK_DATASET can name a dataset of pictures: it is loaded by 1, 4 and all threads, and then stays on the device.
  if [[ -n "${SHARDPACK_DATASET:-}" ]]; then
    cargo build --release --quiet --bin shardpack
    for threads in 1 4 "$(nproc)"; do
      for resident in "" --resident; do
        target/release/shardpack bench "$SHARDPACK_DATASET" --device cuda:0 ${resident:+"$resident"} --threads "$threads" --batch-size 256 --image rrc224 --dtype float16 --mean 0.485,0.456,0.406 --std 0.229,0.224,0.225
      done
    done
  fi
fi
if command -v compute-sanitizer >/dev/null 2>&1; then
  for tool in memcheck racecheck initcheck synccheck; do
    echo "gpu: compute-sanitizer, $tool"
    compute-sanitizer --tool "$tool" --error-exitcode 3 "$run" "$1" --small
    # Kernels for arrays read whole words at the ends of streams, and of damaged ones what nobody wrote. Nothing that comes
    # out depends on it: played on the CPU, they find such memory filled in two ways.
    [[ $tool != initcheck ]] || continue
    # It follows cargo to the test, which it started.
    compute-sanitizer --tool "$tool" --error-exitcode 3 --target-processes all \
      cargo test --release --quiet --package shardpack-gpu --test device -- --nocapture arrays_of_each damage_is_flagged
  done
else
  left_out "compute-sanitizer, which is not on the PATH"
fi
[[ $mode != --all || $missing == 0 ]]
