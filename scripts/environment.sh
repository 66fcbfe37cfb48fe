# Sourced by setup.sh and package.sh: virtual environments that hold what lists of pinned packages say.

# environment FOLDER PYTHON LIST…: brings FOLDER to hold the packages of each LIST; PYTHON makes it where
# it is not there. FOLDER keeps the digest of each list that it holds, so that a second run costs one
# comparison. It is made anew after a run that was interrupted, and when one of its lists has changed.
environment() {
  local folder=$1 python=$2 list
  shift 2
  local busy=$folder/installing
  if ! environment_holds "$folder"; then
    rm -rf "$folder"
    "$python" -m venv "$folder" || return
  fi
  for list in "$@"; do
    ! environment_holds "$folder" "$list" || continue
    say "installing $(grep -c '==' "$list") packages of $list into $folder"
    : >"$busy"
    "$folder/bin/python" -m pip install --quiet --disable-pip-version-check --no-cache-dir --only-binary :all: \
      --requirement "$list" || return
    sha256sum "$list" >"$folder/$(basename "$list").sha256"
    rm -f "$busy"
  done
}

# environment_holds FOLDER [LIST…]: whether FOLDER is whole and up to date, and holds each LIST.
environment_holds() {
  local folder=$1 list
  shift
  [[ -x $folder/bin/python && ! -e $folder/installing ]] || return
  cat "$folder"/*.sha256 2>/dev/null | sha256sum --check --status 2>/dev/null || return
  for list in "$@"; do
    [[ -f $folder/$(basename "$list").sha256 ]] || return
  done
}
