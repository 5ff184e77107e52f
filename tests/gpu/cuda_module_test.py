"""libtutti_cuda.so asks for no more of LibTorch's CUDA library than its graphs, and has all else from LibTorch's others.

   cuda_module_test.py MODULE LIBTORCH
"""
import pathlib
import subprocess
import sys


def symbols(library, which):
    listed = subprocess.run(["nm", "--dynamic", "--format=posix", which, library], capture_output=True, text=True, check=True)
    return {line.split()[0].split("@")[0] for line in listed.stdout.splitlines()}


module, libtorch = sys.argv[1], pathlib.Path(sys.argv[2])
wanted = symbols(module, "--undefined-only")
graphs = {symbol for symbol in wanted if symbol.startswith(("_ZN2at4cuda9CUDAGraph", "_ZNK2at4cuda9CUDAGraph"))}
if not graphs:
    sys.exit("it makes no graphs")
there = set().union(*(symbols(libtorch / name, "--defined-only") for name in ("libtorch_cpu.so", "libc10.so")))
strange = {symbol for symbol in wanted - graphs - there if "cuda" in symbol.lower() or symbol.startswith(("_ZN2at", "_ZN3c10"))}
if strange:
    sys.exit(f"it wants {', '.join(sorted(strange))}")
