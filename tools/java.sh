#!/usr/bin/env bash
# Make sure that there is a Java for Spark: what is installed, else the package of Debian and Ubuntu.
set -euo pipefail
OLDEST=17 # of Spark 4

version() { # the major version of the Java that pyspark would start; 0 without one
  local java="${JAVA_HOME:+$JAVA_HOME/bin/}java"
  command -v "$java" > /dev/null || { echo 0; return; }
  "$java" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1
}

found=$(version)
if [ "${found:-0}" -lt "$OLDEST" ] && [ "$(id -u)" = 0 ] && command -v apt-get > /dev/null; then
  echo "Java $OLDEST or newer is not here (found ${found:-0}): installing default-jre-headless"
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq && apt-get install -y -qq --no-install-recommends default-jre-headless > /dev/null
  found=$(version)
fi
if [ "${found:-0}" -lt "$OLDEST" ]; then
  echo "Spark needs Java $OLDEST or newer, found ${found:-0} (0: none). Install it, for example with" \
    "'sudo apt-get install default-jre-headless', or set JAVA_HOME." >&2
  exit 1
fi
echo "Java $found"
