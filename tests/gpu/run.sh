#!/usr/bin/env bash
# Runs what `./dev gpu-bundle` packed, where there is a GPU and a CUDA build of LibTorch; nothing else is needed.
#
#   ./run.sh [--results DIR] [--torch DIR] [--mnist DIR] [PART…]
#
# Parts: tests (each suite in a process of its own), rules (on logical parts of the GPU), recorded and graphs (the rules
# and functions with replicas, recorded), fuzz (random training programs), nccl, workers, pjrt (XLA's plugin for CUDA,
# which JAX brings; with --mnist a training too), sanitizer (NVIDIA's compute-sanitizer over a few tests), figures; all
# unless given. DIR of --torch holds lib/libtorch_cuda.so; unless given it is that of python3's torch.
# Each log goes to the results' folder, and a line for each part to the output.
# A case that needs a GPU where there is none is counted as skipped. Exits with 1 where a case has failed.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")" || exit 1

results=$PWD/results torch="" mnist=""
while [[ ${1:-} == --* ]]; do
  case $1 in
    --results) results=$2 ;;
    --torch) torch=$2 ;;
    --mnist) mnist=$2 ;;
    *) echo "unknown option $1" >&2 && exit 2 ;;
  esac
  shift 2
done
parts=("$@")
((${#parts[@]})) || parts=(tests rules recorded graphs fuzz nccl workers pjrt sanitizer figures)
[[ -n $torch ]] ||
  torch=$(python3 -c 'import importlib.util as i; print(i.find_spec("torch").submodule_search_locations[0])') || exit 2
export LD_LIBRARY_PATH="$torch/lib:$PWD/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
export OMP_NUM_THREADS=1
export NCCL_SOCKET_IFNAME=lo  # all members are here
mkdir -p "$results"
failed=0

# note NAME LOG: what gtest has counted in the log.
note() {
  local passed skipped lost
  passed=$(grep -oP '\[  PASSED  \] \K\d+' "$2" | tail -1)
  skipped=$(grep -oP '\[  SKIPPED \] \K\d+(?= test)' "$2" | tail -1)
  lost=$(grep -oP '\[  FAILED  \] \K\d+(?= test)' "$2" | tail -1)
  [[ -n $passed ]] || lost="${lost:-0} and has not ended"
  [[ -z $lost ]] || failed=1
  echo "$1: ${passed:-0} passed, ${lost:-0} failed, ${skipped:-0} skipped"
}

run_tests() {
  local suite suites=()
  while read -r suite; do suites+=("$suite"); done < <(./gpu_test --gtest_list_tests | grep -oP '^\S+(?=\.)')
  for suite in "${suites[@]}"; do
    timeout 150 ./gpu_test --gtest_filter="$suite.*" >"$results/tests.${suite//\//_}.log" 2>&1 &
  done
  wait
  for suite in "${suites[@]}"; do note "$suite" "$results/tests.${suite//\//_}.log"; done
}

# sharded NAME PROGRAM [OPTION]: the program's tests in as many processes as one GPU has memory for.
sharded() {
  local i shards=14
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
FunctionCommunications*-*TrainsALibTorchModuleInGlobalView:*StepsWhereReplicasMeet"
  TUTTI_TEST_DEVICE=gpu sharded "$1.rules" ./rules_test --gtest_filter=All/RecordedRules.*
}

run_recorded() { recorded recorded; }
run_graphs() { TUTTI_TEST_GRAPHS=1 recorded graphs; }

run_fuzz() {
  local seed
  compgen -G '/dev/nvidia[0-9]*' >/dev/null || { echo "fuzz: not run: no GPU" && return; }
  for seed in {1..14}; do
    ./idiom_fuzz --gpus --seed "$seed" --seconds 60 >"$results/fuzz.$seed.log" 2>&1 &
  done
  wait
  for seed in {1..14}; do
    grep -q ' 0 findings' "$results/fuzz.$seed.log" || failed=1
    echo "fuzz: $(tail -1 "$results/fuzz.$seed.log")"
  done
}

run_workers() {
  local case status
  for case in train die; do
    timeout 150 ./gpu_workers $case >"$results/workers.$case.log" 2>&1
    status=$?
    ((status == 0 || status == 77)) || failed=1
    echo "workers, $case: $(tail -1 "$results/workers.$case.log")"
  done
}

run_pjrt() {
  local plugin
  plugin=$(python3 -c 'import glob, importlib.util as i
print(glob.glob(i.find_spec("jax_plugins").submodule_search_locations[0] + "/xla_cuda*/xla_cuda_plugin.so")[0])' 2>/dev/null) ||
    { echo "pjrt: not run: no jax_plugins of CUDA" && return; }
  ln -sf "$plugin" xla_plugin.so
  timeout 170 ./stablehlo_test --gtest_filter='*OpLowering.Gives*' >"$results/pjrt.lowering.log" 2>&1
  note "pjrt, lowering" "$results/pjrt.lowering.log"
  [[ -n $mnist ]] || { echo "pjrt, mnist_fit: not run: no --mnist" && return; }
  TUTTI_PJRT_PLUGIN=$plugin timeout 100 ./mnist_fit --data "$mnist" --epochs 1 --replicas 1 --tpu local \
    >"$results/pjrt.mnist_fit.log" 2>&1 || failed=1
  echo "pjrt, mnist_fit: $(tail -1 "$results/pjrt.mnist_fit.log")"
}

run_sanitizer() {
  local tool status
  command -v compute-sanitizer >/dev/null || { echo "sanitizer: not run: no compute-sanitizer" && return; }
  for tool in memcheck initcheck synccheck; do
    timeout 200 compute-sanitizer --tool "$tool" --error-exitcode 9 ./gpu_test \
      --gtest_filter='*DTensor.Moves*:Data.IsOn*:Strategies.Gradients*' >"$results/sanitizer.$tool.log" 2>&1
    status=$?
    ((status == 0)) || failed=1
    echo "sanitizer $tool: exit $status, $(grep -o 'ERROR SUMMARY.*' "$results/sanitizer.$tool.log" | tail -1)"
  done
}

run_figures() {
  timeout 200 ./gpu_step --benchmark_counters_tabular=true >"$results/figures.log" 2>&1 || failed=1
  grep -v '^\*\*\*' "$results/figures.log"
}

for part in "${parts[@]}"; do
  case $part in
    tests | rules | recorded | graphs | fuzz | nccl | workers | pjrt | sanitizer | figures) "run_$part" ;;
    *) echo "unknown part $part" >&2 && exit 2 ;;
  esac
done
exit $failed
