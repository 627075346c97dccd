#!/usr/bin/env bash
# Make sure that there is a browser for the tests of the live page: what is installed, else the
# package of Debian.
set -euo pipefail

find_browser() { command -v chromium || command -v google-chrome || true; }

if [ -z "$(find_browser)" ] && [ "$(id -u)" = 0 ] && command -v apt-get > /dev/null; then
  echo "There is no browser: installing chromium"
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium > /dev/null
fi
if [ -z "$(find_browser)" ]; then
  echo "The tests of the live page need a browser. Install one, for example with" \
    "'sudo apt-get install chromium'." >&2
  exit 1
fi
echo "Browser: $(find_browser)"
