#!/usr/bin/env python3
"""Holds the README to the tree: its program is examples/mnist_mlp.cpp, line by line."""
import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1])
program = re.search(r"```cpp\n(.*?)```", (root / "README.md").read_text(), re.S).group(1)
example = (root / "examples/mnist_mlp.cpp").read_text()
if program != example:
    sys.exit("README.md: its program is not examples/mnist_mlp.cpp; copy the file into the first cpp block")
print("README.md: its program is examples/mnist_mlp.cpp")
