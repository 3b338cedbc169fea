#!/bin/sh
# Adds the sample handbook to a fresh collection and shows the first four verbs on it.
set -eu
cd "$(dirname "$0")/.."
clew=.venv/bin/clew
demo=${CLEW_DEMO:-demo.clew}

say() { printf '\n\033[1m$ %s\033[0m\n' "$*"; }
run() { say clew "$@"; "$clew" --path "$demo" "$@"; }

run add examples/handbook
run search "I opened a phishing attachment by mistake; will I get into trouble?" -k 3
run context "How often do station signing keys rotate, and who does it?" --tokens 600
run explain "What does E-4471 mean and is it dangerous?" -k 3

cat <<TEXT

The collection is in $demo. Go on with:
  $clew --path $demo search "your own question"
  $clew --path $demo add your/folder
  $clew --help
TEXT
