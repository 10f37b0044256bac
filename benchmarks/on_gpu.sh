#!/usr/bin/env bash
# Runs everything that needs a GPU: tests, compute-sanitizer, ladders with counters, comparison of
# the counters with ncu, comparisons with peers, random shapes, the custom kernels of notebook 07, the
# records of the course.
#
#   benchmarks/on_gpu.sh FOLDER [PART ...] [ROUTINE ...]
#
# Parts: tests, sanitizer, ladders, counters, peers, shapes, own, course. Default: all parts, all
# routines. Run it in the root of the repository with adokernels installed and built for that GPU,
# then read FOLDER/log. The files FOLDER/*.json, FOLDER/own_kernels/*.json and FOLDER/course/*.json
# have the names of the files in notebooks/data. If a command may run for only ten minutes, run the
# parts one after another into the same folder. Peers that are not installed are left out;
# with_peers.sh provides them. SEEDS and COUNT select the random shapes per routine (default: two
# seeds, 100 shapes per seed).
set -uo pipefail
folder=${1:?must be a folder for the results}
shift
all_routines=$(python3 -c 'from adokernels.model.tasks import TASKS; print(*TASKS)') || exit
parts=() routines=()
for word in "$@"; do
  case " $all_routines " in *" $word "*) routines+=("$word"); continue ;; esac
  case $word in
    tests|sanitizer|ladders|counters|peers|shapes|own|course) parts+=("$word") ;;
    *) echo "argument must be a part or a routine ($all_routines), got $word" >&2; exit 2 ;;
  esac
done
[ ${#parts[@]} -gt 0 ] || parts=(tests sanitizer ladders counters peers shapes own course)
[ ${#routines[@]} -gt 0 ] || read -ra routines <<< "$all_routines"
mkdir -p "$folder"
exec > >(tee -a "$folder/log") 2>&1
export PYTHONUNBUFFERED=1 ADOKERNELS_CACHE=$folder/cache
export PYTHONPATH=book${PYTHONPATH:+:$PYTHONPATH} # the exercises of the course
failed=0

step() {
  local start=$SECONDS
  echo "== $*"
  "$@" || { failed=1; echo "FAILED: $*"; }
  echo "   ($((SECONDS - start)) s)"
}

run_tests() {
  local selection=()
  if [ "${routines[*]}" != "$all_routines" ]; then
    local names="${routines[*]}"
    selection=(-k "${names// / or }")
  fi
  step python3 -m pytest -q -p no:cacheprovider --deselect tests/test_generated.py "${selection[@]}"
}

run_sanitizer() { # nothing is timed, so the tools run concurrently
  local pids=()
  for tool in memcheck racecheck initcheck synccheck; do
    (failed=0; step compute-sanitizer --tool "$tool" --error-exitcode 1 \
      python3 benchmarks/sanitize.py "${routines[@]}" > "$folder/$tool.log" 2>&1; exit $failed) &
    pids+=($!)
  done
  for pid in "${pids[@]}"; do wait "$pid" || failed=1; done
  tail -n 4 "$folder"/*check.log
}

# Prints one line per problem: routine, name of the problem, arguments of `adokernels bench`.
benchmark_problems() {
  python3 - "${routines[@]}" <<'END'
import sys
from adokernels.model.tasks import TASKS

for routine in sys.argv[1:]:
    for name, arguments in TASKS[routine].benchmark_problems.items():
        print(routine, name, arguments if isinstance(arguments, str) else " ".join(arguments))
END
}

run_ladders() {
  step adokernels info --refresh
  local lines line routine name arguments
  lines=$(benchmark_problems) || failed=1
  mapfile -t lines <<< "$lines"
  for line in "${lines[@]}"; do
    read -r routine name arguments <<< "$line"
    [ -n "$routine" ] || continue
    # shellcheck disable=SC2086 # the arguments are words
    step adokernels bench "$routine" --counters default --device cuda $arguments \
      --json "$folder/$routine-$name.json"
  done
}

# Problems whose kernels are long enough to compare rates.
run_counters() {
  local -A shapes=([transpose]=8192x8192 [average_matvec]=256x512x1024 [max_plus]=64x1048576
    [gpp]=200x128x2048x2)
  for routine in "${routines[@]}"; do
    step python3 benchmarks/counters.py "$routine" --shape "${shapes[$routine]:-8192x8192}" \
      --json "$folder/counters-$routine.json"
  done
}

# Prints the arguments that are among the chosen routines.
chosen() {
  for routine in "$@"; do
    case " ${routines[*]} " in *" $routine "*) echo "$routine" ;; esac
  done
}

filters=(grayscale gaussian_blur sobel edge_detect)
compared=(transpose "${filters[@]}" average_matvec max_plus gpp) # the routines that have peers

run_peers() { # one process per routine, to free its memory
  local options=(--device cuda --seconds 8 --json "$folder/peers") routine
  for routine in $(chosen "${compared[@]}"); do
    local peers=(python3 benchmarks/peers.py "$routine" "${options[@]}")
    if [ "$routine" = transpose ]; then
      step "${peers[@]}" --shapes 8192x8192 16384x16384
      step "${peers[@]}" --shapes 8191x8193 16383x16385
      step "${peers[@]}" --shapes 1024x1024 2048x2048 4096x4096 --dtypes float32 float64
    else
      step "${peers[@]}"
    fi
  done
}

run_shapes() { # one process per routine, to free its memory
  for seed in ${SEEDS:-1 2}; do
    for routine in $(chosen "${compared[@]}"); do
      step python3 benchmarks/shapes.py --device cuda --seed "$seed" --count "${COUNT:-100}" \
        --json "$folder/shapes" "$routine"
    done
  done
  mapfile -t some < <(chosen "${filters[@]}")
  [ ${#some[@]} = 0 ] || step python3 benchmarks/shapes.py --device cuda --standard \
    --json "$folder/shapes-standard" "${some[@]}"
}

run_own() { step python3 benchmarks/course/own_kernels.py "$folder/own_kernels"; }

run_course() {
  local name
  for name in transpose image_filters average_matvec gpp access_patterns exercises machine_code; do
    step python3 "benchmarks/course/$name.py" "$folder/course"
  done
  mv "$folder/course/gpp-si214-far.json" "$folder" # the documents show it with the ladders
}

nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.mem,power.draw,temperature.gpu --format=csv
for part in "${parts[@]}"; do "run_$part"; done
exit $failed
