#!/usr/bin/env bash
# Build the documentation site into target/site, from the repository's Markdown, the docstrings of the Python package
# and `cargo doc`. Dead links in Markdown pages or in the built site are errors.
#
#   scripts/site.sh               open target/site/index.html
#   scripts/site.sh --no-rust     without the crates' reference, which takes minutes
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/environment.sh

say() { printf 'site: %s\n' "$*"; }
rust=yes
case "${1-}" in
  '') ;;
  --no-rust) rust=no ;;
  *) echo "site: unknown argument: $1" >&2; echo "hint: the only option is --no-rust" >&2; exit 2 ;;
esac

environment .venv-site python3 scripts/requirements-site.txt
python=.venv-site/bin/python
"$python" scripts/check_links.py
if [[ $rust == yes ]]; then
  RUSTDOCFLAGS=-Dwarnings cargo doc --workspace --all-features --no-deps --quiet
fi
"$python" scripts/site.py source "$rust"
# Without these variables, the theme prints an advertisement in every build.
NO_MKDOCS_2_WARNING=1 DISABLE_MKDOCS_2_WARNING=true "$python" -m mkdocs build --quiet --clean
if [[ $rust == yes ]]; then
  cp -r target/doc target/site/rust
fi
"$python" scripts/site.py check
say "$(du -sh target/site | cut -f1) in target/site"
