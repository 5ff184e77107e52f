#!/usr/bin/env python3
"""Compiles, alone, each header that reads nothing of LibTorch: headers_alone.py ROOT COMPILER.

The others cost 5 s and more each; layering.py has their own sources include them first, which proves the same.
"""

import subprocess
import sys
from pathlib import Path

import layering


def reads_torch(root, name, seen):
    """Whether the header includes LibTorch, itself or through a header of the project."""
    seen.add(name)
    names = {include for _, include in layering.INCLUDE.findall((root / name).read_text())}
    if any(include.startswith(("ATen/", "c10/", "torch/")) for include in names):
        return True
    ours = {include for include in names if include.startswith("tutti/") and (root / include).exists()}
    return any(reads_torch(root, include, seen) for include in ours - seen)


def compiles(root, compiler, name):
    flags = ["-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-x", "c++", "-I", root, "-"]
    twice = f'#include "{name}"\n' * 2
    return subprocess.run([compiler, *flags], input=twice, text=True).returncode == 0


def main():
    root, compiler = Path(sys.argv[1]), sys.argv[2]
    headers = [path.as_posix() for path in layering.files_of(root) if path.suffix == ".h" and path.parts[0] == "tutti"]
    light = [name for name in headers if not reads_torch(root, name, set())]
    bad = [name for name in light if not compiles(root, compiler, name)]
    print(f"{len(light)} of {len(headers)} headers compiled alone", *(f"not self-contained: {name}" for name in bad), sep="\n")
    return 1 if bad or not light else 0


if __name__ == "__main__":
    sys.exit(main())
