#!/usr/bin/env python3
"""Compiles, alone, headers that read nothing of LibTorch: headers_alone.py ROOT COMPILER SECONDS.

The others cost 5 s and more each; layering.py has their own sources include them first, which proves the same. Those that
differ from HEAD's first parent come first, then all others, in another order each day, as far as SECONDS last: what was not
looked at is counted.
"""

import subprocess
import sys
from pathlib import Path

import layering
import looks


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
    root, compiler, seconds = Path(sys.argv[1]), sys.argv[2], float(sys.argv[3])
    headers = [path.as_posix() for path in layering.files_of(root) if path.suffix == ".h" and path.parts[0] == "tutti"]
    light = [name for name in headers if not reads_torch(root, name, set())]
    changed = looks.changed_since(root, "HEAD^") or set()
    order = looks.in_order(light, lambda name: name not in changed)
    compiled = looks.look_at(order, lambda name: compiles(root, compiler, name), seconds, jobs=1)
    bad = [name for name, alone in zip(order, compiled) if alone is False]
    looked_at = len(order) - compiled.count(None)
    print(f"of {len(headers)} headers, {len(light)} read nothing of LibTorch; {looked_at} of these were compiled alone, for "
          f"{compiled.count(None)} the time was over", *(f"not self-contained: {name}" for name in bad), sep="\n")
    return 1 if bad or not looked_at else 0


if __name__ == "__main__":
    sys.exit(main())
