#!/usr/bin/env bash
# bundle.sh BUILD ARCHIVE: packs the tests and figures that need a GPU, with run.sh and the shared libraries that they
# need and a machine may lack: all but the C library's, the compiler's and LibTorch's.
set -euo pipefail
build=$1 archive=$2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
readonly most_bytes=$((60 << 20))

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/lib"
programs=(tests/gpu_test tests/nccl_processes_test tests/rules_test tests/equivalence_test tests/gpu_workers
  tests/stablehlo_test tests/idiom_fuzz examples/mnist_fit benchmarks/gpu_step)
for program in "${programs[@]}"; do strip -o "$folder/${program##*/}" "$build/$program"; done
cp "$here/run.sh" "$folder"
[[ ! -e $build/lib/libtutti_cuda.so ]] || strip --strip-unneeded -o "$folder/libtutti_cuda.so" "$build/lib/libtutti_cuda.so"
# ldd prints NAME => FILE (ADDRESS).
ldd "${programs[@]/#/$build/}" | awk '$2 == "=>" && $3 ~ /^\// {print $3}' | sort -u |
  grep -vE '/(lib(c|m|dl|rt|pthread|resolv|util|gcc_s|stdc\+\+|gomp)\.so|ld-linux)|torch|libc10|libcu|libnv|nccl' |
  while read -r library; do strip --strip-unneeded -o "$folder/lib/${library##*/}" "$library"; done
# The programs are linked with the same library: a dictionary that reaches from one to the next holds it once.
tar -C "$folder" -cf - . | xz --threads=2 --lzma2=preset=4,dict=64MiB >"$archive"
bytes=$(stat -c %s "$archive")
echo "$archive: $((bytes >> 10)) KiB"
((bytes <= most_bytes)) || { echo "more than 60 MiB" >&2 && exit 1; }
