#!/usr/bin/env bash
# Fuzzes the native text parser for SECONDS (default 60) per target, with AddressSanitizer and
# UndefinedBehaviorSanitizer: by libFuzzer where a clang++ has it, else by the small driver beside
# this script, which needs g++ alone. libFuzzer keeps inputs that led somewhere new in build/fuzz.
#
#   fuzz/run.sh [SECONDS [TARGET...]]        targets: text number names
#   FUZZ_ENGINE=gcc fuzz/run.sh ...          do not look for clang++
#   FUZZ_SEED=n fuzz/run.sh ...              repeat a run of the driver or of libFuzzer
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-60}
shift || true
targets=("$@")
[ ${#targets[@]} -gt 0 ] || targets=(text number names)
seed=${FUZZ_SEED:-$(date +%s)}
out=build/fuzz
mkdir -p "$out"
sources=()
for file in cpp/sonline/text/*.cpp; do
  [ "$file" = cpp/sonline/text/bindings.cpp ] || sources+=("$file")
done
flags=(-std=c++20 -g -O1 -Icpp -Ifuzz -fno-omit-frame-pointer
  -fsanitize=address,undefined -fno-sanitize-recover=all)

clang=
if [ "${FUZZ_ENGINE:-}" != gcc ]; then
  for candidate in clang++ clang++-{22,21,20,19,18,17,16,15,14}; do
    if command -v "$candidate" > /dev/null && echo 'extern "C" int LLVMFuzzerTestOneInput(
        const unsigned char*, unsigned long) { return 0; }' |
        "$candidate" -x c++ -fsanitize=fuzzer - -o "$out/probe" 2> /dev/null; then
      clang=$candidate
      break
    fi
  done
fi

failed=0
for target in "${targets[@]}"; do
  corpus=$out/corpus-$target
  mkdir -p "$corpus"
  if [ -n "$clang" ]; then
    echo "==> $target: libFuzzer ($("$clang" --version | head -n 1)), $seconds s, seed $seed"
    "$clang" "${flags[@]}" -fsanitize=fuzzer "fuzz/$target.cpp" "${sources[@]}" -o "$out/$target"
    "$out/$target" "$corpus" fuzz/seeds -dict=fuzz/text.dict -max_total_time="$seconds" \
      -max_len=4096 -timeout=10 -rss_limit_mb=2048 -seed="$seed" -artifact_prefix="$out/crash-" \
      -print_final_stats=1 > "$out/$target.log" 2>&1 || { grep -v "^#" "$out/$target.log"; failed=1; }
    grep -E '^(#[0-9]+.*DONE|Done|stat::number_of_executed)' "$out/$target.log" || true
  else
    echo "==> $target: the driver of this folder (${CXX:-g++}), $seconds s, seed $seed"
    objects=()
    for file in "fuzz/$target.cpp" "${sources[@]}"; do
      object=$out/$(basename "$file" .cpp).gcc.o
      [ "$file" = "fuzz/$target.cpp" ] && object=$out/target-$target.gcc.o
      "${CXX:-g++}" "${flags[@]}" -fsanitize-coverage=trace-pc -c "$file" -o "$object"
      objects+=("$object")
    done
    "${CXX:-g++}" "${flags[@]}" -c fuzz/driver.cpp -o "$out/driver.gcc.o"
    "${CXX:-g++}" "${flags[@]}" "${objects[@]}" "$out/driver.gcc.o" -o "$out/$target-gcc"
    "$out/$target-gcc" "$seconds" "$seed" "$out/crash-$target" fuzz/text.dict fuzz/seeds/* ||
      failed=1
  fi
done
exit $failed
