#!/usr/bin/env bash
# Runs all tests and measurements that need a GPU. First compares the kernels with the host, then measures them.
#
#   scripts/gpu.sh FOLDER               FOLDER holds JPEGs, at any depth
#   scripts/gpu.sh FOLDER --check-only  without measurements
#   scripts/gpu.sh FOLDER --train       only the steps of training (benches/train.py): needs an installed wheel,
#                                       PyTorch and torchvision
#   scripts/gpu.sh FOLDER --all         with the long campaigns, the benches against other libraries and a training loop
#                                       (benches/device.py, python/examples/poster.py); a step that cannot run is a
#                                       failure
#
# If compute-sanitizer is on the PATH, its tools check a small batch of pictures, and arrays of each type and codec. If
# the wheel is installed (scripts/package.sh), the Python tests that need a device run too.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if (($# == 0)); then
  echo "gpu: no folder of JPEGs given" >&2
  echo "hint: scripts/gpu.sh FOLDER" >&2
  exit 2
fi

mode=${2:-}
if [[ $mode == --train ]]; then
  python=python3
  [[ -x .venv-package/bin/python ]] && python=.venv-package/bin/python
  exec "$python" benches/train.py "$1" "${@:3}"
fi
# left_out STEP: reports a step that cannot run here. With --all, the script then fails at the end.
missing=0
left_out() {
  echo "gpu: skipped: $1" >&2
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
# This test also compares the arrays in the datasets listed in SHARDPACK_CUBES, separated by colons.
cargo test --release --quiet --package shardpack-gpu --test device -- --nocapture
python=python3
[[ -x .venv-package/bin/python ]] && python=.venv-package/bin/python
if "$python" -c 'import pytest, shardpack, torch' 2>/dev/null; then
  "$python" -m pytest -q -rs python/tests/test_device*.py
else
  left_out "python/tests/test_device*.py: $python lacks shardpack, PyTorch or pytest"
fi
if [[ $mode == --all ]]; then
  "$python" benches/device.py "$1" || left_out "benches/device.py failed"
  "$python" python/examples/poster.py --copies 4 --out target/poster || left_out "python/examples/poster.py failed"
fi
if [[ $mode != --check-only ]]; then
  target/release/examples/cube_rate
  # If SHARDPACK_DATASET names a dataset of pictures, load it with 1, 4 and all threads, with and without --resident.
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
    # Kernels for arrays read whole words at the ends of streams, and read uninitialised memory after damage. Their
    # output does not depend on these bytes. Tests on the CPU check this with two different contents of that memory.
    [[ $tool != initcheck ]] || continue
    # Use `all`, because cargo starts the test as a child process.
    compute-sanitizer --tool "$tool" --error-exitcode 3 --target-processes all \
      cargo test --release --quiet --package shardpack-gpu --test device -- --nocapture arrays_of_each damage_is_flagged
  done
else
  left_out "compute-sanitizer: not on the PATH"
fi
[[ $mode != --all || $missing == 0 ]]
