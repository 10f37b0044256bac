#!/usr/bin/env bash
# Everything that only a GPU can tell, in one go: tests, sanitizer, ladders, peers.
#
#   benchmarks/on_gpu.sh FOLDER [tests|sanitizer|ladders|peers ...]
#
# Run it in the root of the repository with adokernels built for that GPU and installed, and read
# FOLDER/log. The JSON files it leaves are what notebooks/data holds. Peers that are not installed
# are left out; with_peers.sh brings them along.
set -uo pipefail
folder=${1:?a folder for the results}
shift
parts=${*:-tests sanitizer ladders peers}
mkdir -p "$folder"
exec > >(tee "$folder/log") 2>&1
export PYTHONUNBUFFERED=1 ADOKERNELS_CACHE=$folder/cache
failed=0

step() {
  local start=$SECONDS
  echo "== $*"
  "$@" || { failed=1; echo "FAILED: $*"; }
  echo "   ($((SECONDS - start)) s)"
}

ladder() { # routine name shape more...
  step adokernels bench "$1" --device cuda --shape "$3" "${@:4}" --json "$folder/$1-$2.json"
}

nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.mem,power.draw,temperature.gpu --format=csv
for part in $parts; do
  case $part in
    tests) step python3 -m pytest -q -p no:cacheprovider --deselect tests/test_generated.py ;;
    sanitizer)
      pids=()
      for tool in memcheck racecheck initcheck synccheck; do # nothing is timed: all at once
        (failed=0; step compute-sanitizer --tool "$tool" --error-exitcode 1 \
          python3 benchmarks/sanitize.py > "$folder/$tool.log" 2>&1; exit $failed) &
        pids+=($!)
      done
      for pid in "${pids[@]}"; do wait "$pid" || failed=1; done
      tail -n 4 "$folder"/*check.log ;;
    ladders)
      step adokernels info --refresh
      ladder transpose int64-8192 8192x8192 --dtype int64
      ladder transpose float32-8192 8192x8192 --dtype float32
      ladder transpose float32-odd 8191x8193 --dtype float32
      for routine in grayscale gaussian_blur sobel edge_detect; do
        ladder $routine 2560x1600 1600x2560
        ladder $routine 16384 16384x16384 --seconds 1.5
      done
      ladder average_matvec 1024 1024x1024x1024 --seconds 1
      ladder average_matvec float64-512 512x1024x1024 --dtype float64
      ladder max_plus float64 64x4194304 --seconds 1
      ladder max_plus float32 64x8388608 --dtype float32
      step python3 benchmarks/gpp.py --device cuda --seconds 4.5 --json "$folder/gpp"
      step python3 benchmarks/counters.py gpp --shape 800x1385x11075x2 --no-instructions \
        --into "$folder/gpp/cuda-gpp-ladder-800x1385x11075x2.json" ;;
    peers)
      step python3 benchmarks/transpose.py --device cuda --shapes 8192x8192 16384x16384 \
        --seconds 1 --json "$folder/peers"
      step python3 benchmarks/transpose.py --device cuda --shapes 8191x8193 16383x16385 \
        --seconds 1 --json "$folder/peers"
      step python3 benchmarks/transpose.py --device cuda --shapes 1024x1024 2048x2048 4096x4096 \
        --dtypes float32 float64 --seconds 1 --json "$folder/peers"
      step python3 benchmarks/image_filters.py --device cuda --seconds 1 --json "$folder/peers"
      step python3 benchmarks/reductions.py --device cuda --routines average_matvec --seconds 1 \
        --json "$folder/peers"
      step python3 benchmarks/reductions.py --device cuda --routines max_plus --seconds 1 \
        --json "$folder/peers"
      step python3 benchmarks/a_against_a.py --device cuda ;;
  esac
done
exit $failed
