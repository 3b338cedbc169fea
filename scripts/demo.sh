#!/bin/sh
# Adds the sample handbook to a fresh collection and runs four verbs on it.
set -eu
cd "$(dirname "$0")/.."
clew=.venv/bin/clew
demo=${CLEW_DEMO:-demo.clew}

bold='' plain=''
if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then
  bold=$(printf '\033[1m') plain=$(printf '\033[0m')
fi
run() {
  printf '\n%s$ clew %s%s\n' "$bold" "$*" "$plain"
  "$clew" --path "$demo" "$@"
}

run add examples/handbook
run search "I opened a phishing attachment by mistake; will I get into trouble?" -k 3
run context "How often do station signing keys rotate, and who does it?" --tokens 600
run explain "What does E-4471 mean and is it dangerous?" -k 3

cat <<TEXT

The collection is in $demo. Next:
  $clew --path $demo search "your own question"
  $clew --path $demo add your/folder
  $clew --help
TEXT
