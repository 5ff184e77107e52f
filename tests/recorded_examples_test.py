"""A program prints the same, but for times, whether its steps are recorded or not.

   recorded_examples_test.py RECORDED EAGER [ARGUMENT…]
"""
import os
import re
import subprocess
import sys
import tempfile


def lines_of(program):
    command = [os.path.abspath(program), *sys.argv[3:]]
    with tempfile.TemporaryDirectory() as folder:
        text = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=folder).stdout
    return [re.sub(r"\d+s - \S+/step", "", line) for line in text.splitlines()]


recorded, eager = lines_of(sys.argv[1]), lines_of(sys.argv[2])
for a, b in zip(recorded, eager):
    if a != b:
        sys.exit(f"recorded: {a}\neagerly:  {b}")
if len(recorded) != len(eager) or not any(re.search(r"\d\.\d", line) for line in recorded):
    sys.exit(f"{len(recorded)} lines recorded, {len(eager)} eagerly, or no numbers")
print(*recorded, sep="\n")
