#!/usr/bin/env bash
# Fuzzes the native code for SECONDS (default 60) per target, guided by coverage, with
# AddressSanitizer and UndefinedBehaviorSanitizer: by libFuzzer where a clang++ has it, else by the
# small driver beside this script, which needs g++ alone. Runs start from fuzz/seeds and fuzz/corpus and
# keep the inputs that reached new code in build/fuzz/corpus-TARGET; build/fuzz/runs.log counts the
# executions. An input that fails is written to build/fuzz/crash-*, and the exit code is 1.
#
#   fuzz/run.sh [SECONDS [TARGET...]]        targets: text number names kernel
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
# What is tested: the kernel for the target of that name, the text parser for the others.
parser=()
kernel=()
for target in "${targets[@]}"; do
  if [ "$target" = kernel ]; then
    for file in cpp/sonline/*.cpp; do
      case $file in */bindings*) ;; *) kernel+=("$file") ;; esac
    done
  elif [ ${#parser[@]} -eq 0 ]; then
    for file in cpp/sonline/text/*.cpp; do
      [ "$file" = cpp/sonline/text/bindings.cpp ] || parser+=("$file")
    done
  fi
done
flags=(-std=c++20 -g1 -Icpp -Ifuzz -DSONLINE_CHUNK_BITS=2 -fno-omit-frame-pointer
  -fsanitize=address,undefined -fno-sanitize-recover=all -Wno-psabi)

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

# The engine: which compiler, what it is told, and what is linked to a target beside the parser.
if [ -n "$clang" ]; then
  compiler=$clang
  flags+=(-fsanitize=fuzzer-no-link)
  engine="libFuzzer ($("$clang" --version | head -n 1))"
else
  compiler=${CXX:-g++}
  command -v "$compiler" > /dev/null || {
    echo "fuzz/run.sh: no clang++ with libFuzzer and no $compiler: nothing was fuzzed" >&2
    exit 2
  }
  engine="the driver of this folder ($("$compiler" --version | head -n 1))"
fi
echo "==> $engine, $seconds s for each of: ${targets[*]}; seed $seed"

# Everything is compiled once, side by side.
objects=$out/objects-$(basename "$compiler")
mkdir -p "$objects"
compile() {
  local file=$1 level=-O2
  shift
  # With -O2 the kernel takes much longer to compile, which no short run would win back.
  case $file in cpp/sonline/model*) level=-O1 ;; esac
  "$compiler" "${flags[@]}" $level "$@" -c "$file" -o "$objects/${file//\//-}.o"
}
running=()
for file in "${kernel[@]}" "${parser[@]}" "${targets[@]/#/fuzz/}"; do
  file=${file%.cpp}.cpp
  if [ -n "$clang" ]; then compile "$file" & else compile "$file" -fsanitize-coverage=trace-pc & fi
  running+=($!)
  if [ ${#running[@]} -ge "${JOBS:-2}" ]; then
    wait "${running[0]}"
    running=("${running[@]:1}")
  fi
done
for job in "${running[@]}"; do wait "$job"; done

objects_of() {
  local file
  for file in "$@"; do echo "$objects/${file//\//-}.o"; done
}
failed=0
for target in "${targets[@]}"; do
  program=$objects/$target
  object=$objects/fuzz-$target.cpp.o
  corpus=$out/corpus-$target
  mkdir -p "$corpus" "fuzz/corpus/$target"
  mapfile -t tested < <(objects_of "${parser[@]}")
  [ "$target" != kernel ] || mapfile -t tested < <(objects_of "${kernel[@]}")
  map_bits=13
  case $target in # longer inputs reach nothing new and run slower
    number) length=64 ;;
    names) length=256 ;;
    kernel) length=256 map_bits=16 ;;
    *) length=2048 ;;
  esac
  if [ -n "$clang" ]; then
    "$compiler" "${flags[@]}" -fsanitize=fuzzer "$object" "${tested[@]}" -o "$program"
    "$program" "$corpus" fuzz/seeds "fuzz/corpus/$target" -dict=fuzz/text.dict -max_total_time="$seconds" \
      -max_len="$length" -timeout=10 -rss_limit_mb=2048 -seed="$seed" \
      -artifact_prefix="$out/crash-" -print_final_stats=1 > "$out/$target.log" 2>&1 ||
      { grep -v "^#" "$out/$target.log"; failed=1; }
    summary=$(grep -E '^#[0-9]+.*DONE' "$out/$target.log" || echo stopped)
  else
    "$compiler" -std=c++20 -O2 -DFUZZ_MAP_BITS=$map_bits -c fuzz/driver.cpp -o "$program-driver.o"
    "$compiler" "${flags[@]}" "$object" "${tested[@]}" "$program-driver.o" -o "$program"
    summary=$(UBSAN_OPTIONS=abort_on_error=1:print_stacktrace=1 "$program" "$seconds" "$seed" "$length" \
      "$out/crash-$target" "$corpus" fuzz/text.dict fuzz/seeds "fuzz/corpus/$target" "$corpus") || failed=1
  fi
  echo "$target: $summary"
  echo "$(date -u +%FT%TZ) $target seed $seed: $summary" >> "$out/runs.log"
done
exit $failed
