#!/usr/bin/env bash
# Build the wheel of the Python package and install it into a separate virtual environment, .venv-package, together
# with the libraries that its tests import.
#
#   scripts/package.sh                 the wheel is in target/wheels; .venv-package/bin/python imports the new build
#   scripts/package.sh --environment   only the libraries, without the wheel
#
#   --profile dev   build like `cargo test`, with overflow checks and reusing what it has compiled; default: release
#   --torch         install PyTorch even if only its build with CUDA is available: 3 GB to download, 7 GB on disk.
#                   By default, PyTorch is installed only if its index of CPU builds is reachable: a tenth of that.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/environment.sh

say() { printf 'package: %s\n' "$*"; }
python=.venv-package/bin/python cpu_index=https://download.pytorch.org/whl/cpu
wheel=yes torch=no profile=release
while (($#)); do
  case $1 in
    --environment) wheel=no ;;
    --torch) torch=yes ;;
    --profile) profile=${2-}; shift ;;
    *) echo "package: unknown argument: $1" >&2; echo "hint: the options are --environment, --profile and --torch" >&2; exit 2 ;;
  esac
  shift
done
[[ $profile == dev || $profile == release ]] || { echo "package: --profile: expected dev or release, found: $profile" >&2; exit 2; }

lists=(scripts/requirements-package.txt)
answers() { .venv/bin/python -c 'import sys, urllib.request as r; r.urlopen(sys.argv[1] + "/torch/", timeout=10)' "$cpu_index" 2>/dev/null; }
if environment_holds .venv-package scripts/requirements-torch.txt; then
  lists+=(scripts/requirements-torch.txt)
elif answers; then
  lists+=(scripts/requirements-torch.txt)
  export PIP_EXTRA_INDEX_URL="${PIP_EXTRA_INDEX_URL-} $cpu_index"
elif [[ $torch == yes ]]; then
  lists+=(scripts/requirements-torch.txt)
else
  say "without PyTorch: $cpu_index does not answer; --torch installs the build with CUDA, 3 GB"
fi
environment .venv-package .venv/bin/python "${lists[@]}"
[[ $wheel == yes ]] || exit 0

rm -rf target/wheels
# With the same features as the workspace's tests, `dev` compiles only this package. Otherwise it would compile most
# crates again.
options="--profile $profile"
[[ $profile == release ]] || options+=" --features cli,hdf5,shardpack/default,shardpack/hdf5,shardpack-io/conformance,shardpack-jpeg/default"
MATURIN_PEP517_ARGS=$options "$python" -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir target/wheels ./python
"$python" -m pip install --quiet --disable-pip-version-check --no-deps --force-reinstall target/wheels/shardpack-*.whl
say "$(basename target/wheels/shardpack-*.whl), $(du -h --apparent-size target/wheels/shardpack-*.whl | cut -f1), profile $profile"
# Run outside the source tree, so that Python imports the wheel.
cd / && "$OLDPWD/$python" -c 'import shardpack; print("package: imported shardpack", shardpack.__version__)'
