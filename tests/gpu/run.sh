#!/usr/bin/env bash
# Runs what `./dev gpu-bundle` packed, where there is a GPU and a CUDA build of LibTorch; nothing else is needed.
#
#   ./run.sh [--results DIR] [--torch DIR] [--mnist DIR] [PART…]
#
# Parts: tests (each suite in a process of its own), rules (on logical parts of the GPU), recorded and graphs (the rules
# and functions with replicas, recorded), fuzz (random training programs), nccl, workers, pjrt (XLA's plugin for CUDA,
# which JAX brings; with --mnist a training too), sanitizer (NVIDIA's compute-sanitizer over a few tests), figures; all
# unless given. DIR of --torch holds lib/libtorch_cuda.so; unless given it is that of python3's torch.
# Each log goes to the results' folder, lines for each part to the output, and a line of all counts at the end.
# Where LibTorch sees no GPU nothing runs, simulated ones neither: each case is counted as skipped, of a part's as many as
# its programs list. Exits with 1 where a case has failed, with 2 where the arguments are wrong or LibTorch is missing.
set -uo pipefail
readonly called_from=$PWD
cd "$(dirname "${BASH_SOURCE[0]}")" || exit 1

readonly all_parts="tests rules recorded graphs fuzz nccl workers pjrt sanitizer figures"
results=$PWD/results torch="" mnist=""
wrong() { echo "$1" >&2 && exit 2; }
from_caller() { [[ $1 == /* ]] && echo "$1" || echo "$called_from/$1"; }
while [[ ${1:-} == --* ]]; do
  (($# > 1)) || wrong "$1 needs a folder"
  case $1 in
    --results) results=$(from_caller "$2") ;;
    --torch) torch=$(from_caller "$2") ;;
    --mnist) mnist=$(from_caller "$2") ;;
    *) wrong "unknown option $1" ;;
  esac
  shift 2
done
read -ra parts <<<"${*:-$all_parts}"
for part in "${parts[@]}"; do
  [[ " $all_parts " == *" $part "* ]] || wrong "unknown part $part"
done
[[ -n $torch ]] ||
  torch=$(python3 -c 'import importlib.util as i; print(i.find_spec("torch").submodule_search_locations[0])') || exit 2
export LD_LIBRARY_PATH="$torch/lib:$PWD/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
export OMP_NUM_THREADS=1
export NCCL_SOCKET_IFNAME=lo  # all members are here
mkdir -p "$results"

# LibTorch is asked, not the machine: with its CPU build there is no GPU either.
./gpu_workers look >"$results/look.log" 2>&1
case $? in
  0) gpu=1 ;;
  77) gpu="" ;;
  *) cat "$results/look.log" >&2 && wrong "no program of these runs with $torch" ;;
esac
passed=0 failed=0 skipped=0

# tell NAME PASSED FAILED SKIPPED [WORDS]: a line of the output, counted.
tell() {
  ((passed += $2, failed += $3, skipped += $4))
  echo "$1: $2 passed, $3 failed, $4 skipped${5:+: $5}"
}

# skip NAME CASES [WHY]
skip() { tell "$1" 0 0 "$2" "${3:-no GPU}"; }

# skip_listed NAME PROGRAM [OPTION]: as many as there are of those that the program would run.
skip_listed() {
  local cases
  cases=$("${@:2}" --gtest_list_tests | grep -c '^ ')
  if ((cases)); then skip "$1" "$cases"; else tell "$1" 0 1 0 "lists no case"; fi
}

# note NAME LOG: what gtest has counted in the log.
note() {
  local passed_here skipped_here lost words=""
  passed_here=$(grep -oP '\[  PASSED  \] \K\d+' "$2" | tail -1)
  skipped_here=$(grep -oP '\[  SKIPPED \] \K\d+(?= test)' "$2" | tail -1)
  lost=$(grep -oP '\[  FAILED  \] \K\d+(?= test)' "$2" | tail -1)
  [[ -n $passed_here ]] || words="has not ended" lost=$((${lost:-0} + 1))
  tell "$1" "${passed_here:-0}" "${lost:-0}" "${skipped_here:-0}" "$words"
}

# note_one NAME STATUS LOG: a program that is one case, and ends with a line on what came of it.
note_one() {
  case $2 in
    0) tell "$1" 1 0 0 "$(tail -1 "$3")" ;;
    77) tell "$1" 0 0 1 "$(tail -1 "$3")" ;;
    *) tell "$1" 0 1 0 "$(tail -1 "$3")" ;;
  esac
}

run_tests() {
  local suite suites=()
  while read -r suite; do suites+=("$suite"); done < <(./gpu_test --gtest_list_tests | grep -oP '^\S+(?=\.)')
  for suite in "${suites[@]}"; do
    if [[ -z $gpu ]]; then skip_listed "$suite" ./gpu_test --gtest_filter="$suite.*" && continue; fi
    timeout 150 ./gpu_test --gtest_filter="$suite.*" >"$results/tests.${suite//\//_}.log" 2>&1 &
  done
  [[ -n $gpu ]] || return 0
  wait
  for suite in "${suites[@]}"; do note "$suite" "$results/tests.${suite//\//_}.log"; done
}

# sharded NAME PROGRAM [OPTION]: the program's tests in as many processes as one GPU has memory for.
sharded() {
  local i shards=14
  [[ -n $gpu ]] || { skip_listed "$@" && return; }
  for ((i = 0; i < shards; ++i)); do
    GTEST_TOTAL_SHARDS=$shards GTEST_SHARD_INDEX=$i timeout 170 "${@:2}" >"$results/$1.$i.log" 2>&1 &
  done
  wait
  for ((i = 0; i < shards; ++i)); do note "$1, shard $i" "$results/$1.$i.log"; done
}

run_nccl() { sharded nccl ./nccl_processes_test; }
run_rules() { TUTTI_TEST_DEVICE=gpu sharded rules ./rules_test --gtest_filter=All/Rules.*; }

# recorded NAME: rules and functions with replicas, as the simulated GPUs run them.
recorded() {
  TUTTI_TEST_DEVICE=gpu sharded "$1.functions" ./equivalence_test --gtest_filter="FunctionOnDevices.*:\
*FunctionCommunications*:*FunctionOnAMesh.*:*FunctionWithRun.*:*MixedPrecisionStep.*:*CustomTrainingLoop.*:\
*RecordedGradients.*:RecordedReplicas.*"
  TUTTI_TEST_DEVICE=gpu sharded "$1.rules" ./rules_test --gtest_filter=All/RecordedRules.*
}

run_recorded() { recorded recorded; }
run_graphs() { TUTTI_TEST_GRAPHS=1 recorded graphs; }

run_fuzz() {
  local seed status processes=()
  [[ -n $gpu ]] || { skip fuzz 14 && return; }
  for seed in {1..14}; do
    ./idiom_fuzz --gpus --seed "$seed" --seconds 60 >"$results/fuzz.$seed.log" 2>&1 &
    processes+=($!)
  done
  for seed in {1..14}; do
    wait "${processes[seed - 1]}"
    status=$?
    grep -q ' 0 findings' "$results/fuzz.$seed.log" || status=1
    note_one "fuzz, seed $seed" "$status" "$results/fuzz.$seed.log"
  done
}

run_workers() {
  local case
  for case in train die; do
    timeout 150 ./gpu_workers $case >"$results/workers.$case.log" 2>&1
    note_one "workers, $case" $? "$results/workers.$case.log"
  done
}

run_pjrt() {
  local plugin
  [[ -n $gpu ]] || { skip_listed "pjrt, lowering" ./stablehlo_test --gtest_filter='*OpLowering.Gives*' &&
    skip "pjrt, mnist_fit" 1 && return; }
  plugin=$(python3 -c 'import glob, importlib.util as i
print(glob.glob(i.find_spec("jax_plugins").submodule_search_locations[0] + "/xla_cuda*/xla_cuda_plugin.so")[0])' 2>/dev/null) ||
    { skip pjrt 1 "no jax_plugins of CUDA" && return; }
  ln -sf "$plugin" xla_plugin.so
  timeout 170 ./stablehlo_test --gtest_filter='*OpLowering.Gives*' >"$results/pjrt.lowering.log" 2>&1
  note "pjrt, lowering" "$results/pjrt.lowering.log"
  [[ -n $mnist ]] || { skip "pjrt, mnist_fit" 1 "no --mnist" && return; }
  TUTTI_PJRT_PLUGIN=$plugin timeout 100 ./mnist_fit --data "$mnist" --epochs 1 --replicas 1 --tpu local \
    >"$results/pjrt.mnist_fit.log" 2>&1
  note_one "pjrt, mnist_fit" $? "$results/pjrt.mnist_fit.log"
}

run_sanitizer() {
  local tool
  [[ -n $gpu ]] || { skip sanitizer 3 && return; }
  command -v compute-sanitizer >/dev/null || { skip sanitizer 3 "no compute-sanitizer" && return; }
  for tool in memcheck initcheck synccheck; do
    timeout 200 compute-sanitizer --tool "$tool" --error-exitcode 9 ./gpu_test \
      --gtest_filter='*DTensor.Moves*:Data.IsOn*:Strategies.Gradients*' >"$results/sanitizer.$tool.log" 2>&1
    note_one "sanitizer, $tool" $? <(grep -o 'ERROR SUMMARY.*' "$results/sanitizer.$tool.log")
  done
}

run_figures() {
  local figures
  figures=$(./gpu_step --benchmark_list_tests | grep -c /)
  ((figures)) || { tell figures 0 1 0 "lists none" && return; }
  [[ -n $gpu ]] || { skip figures "$figures" && return; }
  if timeout 200 ./gpu_step --benchmark_counters_tabular=true >"$results/figures.log" 2>&1; then
    tell figures "$figures" 0 0
  else
    tell figures 0 "$figures" 0
  fi
  grep -v '^\*\*\*' "$results/figures.log"
}

for part in "${parts[@]}"; do "run_$part"; done
echo "in all: $passed passed, $failed failed, $skipped skipped"
((failed == 0))
