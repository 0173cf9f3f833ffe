#!/usr/bin/env bash
# Tests and times Postlude on a machine with a Hopper GPU. `cargo xtask gpu` packs this script with what it runs.
#
#   ./check_and_time.sh FOLDER     logs, results of the benchmark and summary.txt go to FOLDER
#
#   CHECKS=0             no tests, no corpus and no random kernels
#   FUZZ_GRAPHS=2000     how many random kernels are run
#   FUZZ_SEED=1          the seed of the first quarter of them; the others have the next three
#   SUITES="..."         what is timed, each word in a process of its own: suites of `postlude bench`, joined by commas
#                        where they share one, or `schedules`, every schedule of the planner's table on the plain rows.
#                        Nothing is timed where it is empty
#   BENCH_FILTER=...     only rows of the benchmark whose names contain this
#   PEERS="warm time"    PyTorch beside ours, where it is installed: compiles its peers, times them, or one of the two
#   PEERS_CACHE=...      the folder where compiled peers are kept from one run to the next
#   PEERS_SECONDS=...    no row is begun after this many seconds, in either (500)
#   CALLS=1              what one call costs on the CPU, of ours and of NumPy where it is installed
#   SANITIZE=1           runs the corpus under compute-sanitizer too, where it is found
#   SANITIZE_FILTER=...  only cases of the corpus whose names contain this, there (it is slow)
#   POSTLUDE_CUBLASLT    the file of cuBLASLt, where it is in no usual place
#
# What a word of SUITES finds goes to bench-WORD.json (with `-` for commas) row by row: a suite that runs out of time
# leaves the rows it had.
#
# Every step is run whatever became of those before. Exit code 1 if one failed.

set -u
here=$(cd "$(dirname "$0")" && pwd)
out=${1:?"usage: $0 FOLDER"}
mkdir -p "$out"
out=$(cd "$out" && pwd)
cd "$here"
failed=0
: >"$out/summary.txt"

# The run's own cache, and none of the driver's: first use is measured cold.
export POSTLUDE_CACHE_DIR="$out/cache"
export CUDA_CACHE_DISABLE=1
export RUST_BACKTRACE=1

say() { echo "$*" | tee -a "$out/summary.txt"; }

# step NAME SECONDS COMMAND...: standard output to NAME.out, errors to NAME.err
step() {
    attempt "$@"
    report "$1"
}

attempt() {
    local name=$1 limit=$2 start=$SECONDS
    shift 2
    timeout --kill-after=10 "$limit" "$@" >"$out/$name.out" 2>"$out/$name.err"
    echo "$? $((SECONDS - start)) $limit" >"$out/$name.ended"
}

report() {
    local name=$1 code seconds limit
    read -r code seconds limit <"$out/$name.ended"
    rm "$out/$name.ended"
    if [ "$code" -eq 0 ]; then
        say "ok      $name ($seconds s)"
    else
        failed=$((failed + 1))
        case $code in
            124 | 137) say "FAILED  $name: more than $limit s" ;;
            *) say "FAILED  $name: exit code $code" ;;
        esac
        cat "$out/$name.out" "$out/$name.err" | tail -n 15 | cut -c 1-400 | sed 's/^/        /' | tee -a "$out/summary.txt"
    fi
    # A test without a GPU passes, and says that it was skipped.
    if grep -q '^SKIPPED' "$out/$name.err"; then
        failed=$((failed + 1))
        say "        skipped: $(grep -c '^SKIPPED' "$out/$name.err") tests, the first: $(grep -m1 '^SKIPPED' "$out/$name.err")"
    fi
}

step info 60 ./postlude info
# What is only right or wrong shares the GPU; what is timed has it alone.
checks=()
check() {
    checks+=("$1")
    attempt "$@" &
}

if [ "${CHECKS:-1}" = 1 ]; then
    for test in tests/*; do
        check "$(basename "$test")" 300 "./$test" --nocapture --test-threads=1
    done
    check corpus 300 ./postlude corpus --backend cuda --folder corpus
    # An error of the GPU is for good, and ends its process: there are several.
    for quarter in 0 1 2 3; do
        check "fuzz-$quarter" 300 ./postlude fuzz --backend cuda --graphs "$((${FUZZ_GRAPHS:-2000} / 4))" \
            --seed "$((${FUZZ_SEED:-1} + quarter))" --jobs 4
    done
fi

if [ "${SANITIZE:-0}" = 1 ]; then
    sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda*/bin/compute-sanitizer 2>/dev/null | head -n 1)
    if [ -n "$sanitizer" ]; then
        for tool in memcheck synccheck; do
            check "$tool" 500 "$sanitizer" --tool "$tool" --error-exitcode 9 \
                ./postlude corpus --backend cuda --folder corpus ${SANITIZE_FILTER:+"$SANITIZE_FILTER"}
        done
    else
        failed=$((failed + 1))
        say "FAILED  compute-sanitizer was asked for and not found"
    fi
fi

wait
for name in ${checks[@]+"${checks[@]}"}; do report "$name"; done

# The seconds that a word of SUITES may take: about twice what it needs.
limit() {
    local total=30 suite
    for suite in ${1//,/ }; do
        case $suite in
            first_use) total=$((total + 20)) ;;
            layouts | unaligned) total=$((total + 60)) ;;
            epilogues) total=$((total + 360)) ;;
            plain | fused | f16 | schedules) total=$((total + 110)) ;;
            *) total=$((total + 150)) ;;
        esac
    done
    echo "$total"
}

for word in ${SUITES-first_use,plain,fused epilogues layouts f16 unaligned random schedules}; do
    seconds=$(limit "$word")
    name=bench-${word//,/-}
    case $word in
        schedules) wanted=(--suite plain --every-schedule) ;;
        *) wanted=(--suite "$word") ;;
    esac
    # No row is begun that could not end in time.
    step "$name" "$seconds" ./postlude bench --backend cuda --against cublaslt "${wanted[@]}" \
        --seconds "$((seconds - 20))" ${BENCH_FILTER:+"$BENCH_FILTER"} --json "$out/$name.json"
    cat "$out/$name.out"
done

if [ "${CALLS:-0}" = 1 ]; then
    for round in 1 2; do
        step "calls-$round" 60 ./call_cost
        step "numpy-$round" 60 python3 numpy_calls.py
        paste "$out/calls-$round.out" "$out/numpy-$round.out"
    done
fi

peers_cache=${PEERS_CACHE:-$here/peers-cache}
export TORCHINDUCTOR_CACHE_DIR=${TORCHINDUCTOR_CACHE_DIR:-$peers_cache/inductor}
export TRITON_CACHE_DIR=${TRITON_CACHE_DIR:-$peers_cache/triton}
for word in ${PEERS-}; do
    seconds=${PEERS_SECONDS:-500}
    case $word in
        warm) wanted=(--warm) ;;
        time) wanted=(--json "$out/peers.json") ;;
        *) wanted=(--no-such-word "$word") ;;
    esac
    # A row that is begun may take a minute more: what is not cached is compiled.
    step "peers-$word" "$((seconds + 90))" python3 peers.py "${wanted[@]}" --seconds "$seconds" \
        ${BENCH_FILTER:+"$BENCH_FILTER"}
    cat "$out/peers-$word.out"
done
rm -rf "$out/cache"

if [ "$failed" -eq 0 ]; then say "all right"; else say "$failed failed"; fi
[ "$failed" -eq 0 ]
