#!/bin/sh
# Adds the sample handbook and chat to a fresh collection, asks, goes on asking, searches and explains.
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
run ask "What does E-4471 mean and is it dangerous?"
printf '\n%s$ clew chat%s\n' "$bold" "$plain"
for question in "How often do parcel signing keys rotate?" "And webhook secrets?"; do
  printf '> %s\n' "$question"
  printf '%s\n' "$question" | "$clew" --path "$demo" chat --session demo
done
run add examples/chat
run ask "How many stations have 2023 swivels?"
run search "which key do stations sign their parcels with" -k 3
run explain "What does E-4471 mean and is it dangerous?" -k 3

cat <<TEXT

The collection is in $demo. Next:
  $clew --path $demo search "your own question"
  $clew --path $demo add your/folder
  $clew --help
TEXT
