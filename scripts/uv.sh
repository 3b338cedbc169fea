#!/bin/sh
# Runs the uv of .venv with the index that is set for pip, since uv does not read pip's settings.
set -eu
if [ -z "${UV_DEFAULT_INDEX:-}${UV_INDEX_URL:-}" ]; then
  index=$(.venv/bin/python -m pip config list 2>/dev/null | sed -n "s/^[^=]*\.index-url='\(.*\)'\$/\1/p" | head -n 1)
  [ -z "$index" ] || export UV_DEFAULT_INDEX="$index"
fi
exec .venv/bin/python -m uv "$@"
