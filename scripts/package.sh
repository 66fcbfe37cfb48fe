#!/usr/bin/env bash
# Build the Python package's wheel and install it, with the libraries that its tests import, into a virtual environment of its own: .venv-package.
#
#   scripts/package.sh                 the wheel is in target/wheels; .venv-package/bin/python imports what was just built
#   scripts/package.sh --environment   the libraries alone, without the wheel
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

case "${1-}" in
  '' | --environment) ;;
  *) echo "package: unknown argument: $1" >&2; echo "hint: the only one is --environment" >&2; exit 2 ;;
esac

say() { printf 'package: %s\n' "$*"; }
python=.venv-package/bin/python requirements=scripts/requirements-package.txt

# As scripts/setup.sh does it: made anew when the list has changed or an earlier run was interrupted, else used as it is.
stamp=.venv-package/requirements.sha256
wanted=$(sha256sum <"$requirements")
if [[ ! -x $python || ! -f $stamp || $(<"$stamp") != "$wanted" ]]; then
  say "installing $(grep -c '==' "$requirements") packages into .venv-package"
  rm -rf .venv-package
  .venv/bin/python -m venv .venv-package
  "$python" -m pip install --quiet --disable-pip-version-check --no-cache-dir --only-binary :all: --requirement "$requirements"
  printf '%s\n' "$wanted" >"$stamp"
fi
[[ ${1-} != --environment ]] || exit 0

rm -rf target/wheels
"$python" -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir target/wheels ./python
"$python" -m pip install --quiet --disable-pip-version-check --no-deps --force-reinstall target/wheels/shardpack-*.whl
say "$(basename target/wheels/shardpack-*.whl), $(du -h --apparent-size target/wheels/shardpack-*.whl | cut -f1)"
# From elsewhere than the tree, so that it is the wheel that is imported.
cd / && "$OLDPWD/$python" -c 'import shardpack; print("package: imported shardpack", shardpack.__version__)'
