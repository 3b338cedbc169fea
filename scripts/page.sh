#!/bin/sh
# Builds the web page from web/ into the package (`build`), or checks that what is there is what the sources give
# (`check`). Running Clew needs none of this; without Node or its packages the check says so and passes, for a test
# compares the hash of the sources.
set -eu
cd "$(dirname "$0")/../web"
if ! command -v npm >/dev/null 2>&1; then
  echo "page: npm is not here, so the page was not built again" >&2
  [ "${1:-check}" = check ] && exit 0
  exit 1
fi
# A lock that was written where a registry shows the packages of one platform alone is not one for `npm ci`.
if [ ! -x node_modules/.bin/vite ] && ! npm ci --no-audit --no-fund --loglevel=silent &&
  ! npm install --no-save --no-audit --no-fund --loglevel=error; then
  echo "page: the packages of web/ cannot be installed, so the page was not built again" >&2
  [ "${1:-check}" = check ] && exit 0
  exit 1
fi
if [ "${1:-check}" = build ]; then
  exec npm run --silent build
fi
built=$(mktemp -d)
trap 'rm -rf "$built"' EXIT
npm run --silent build -- --outDir "$built" --logLevel error
diff -r "$built" ../src/clew/surface/web/page || { echo "page: built files differ from web/; run 'make page'" >&2; exit 1; }
echo "page: the built files are those of the sources"
