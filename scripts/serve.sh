#!/bin/sh
# Serves the sample collection, the handbook and the chat, with its web page.
set -eu
cd "$(dirname "$0")/.."
clew=.venv/bin/clew
sample=${CLEW_SAMPLE:-sample.clew}
[ -d "$sample" ] || "$clew" --path "$sample" add examples/handbook examples/chat
exec "$clew" --path "$sample" serve "$@"
