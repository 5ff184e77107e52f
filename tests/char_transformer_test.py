"""The example `char_transformer` has the losses of one device on its mesh, in one buffer and in separate ones.

   char_transformer_test.py PROGRAM
"""
import re
import subprocess
import sys

program = sys.argv[1]


def losses(*options):
    command = [program, "--steps", "6", "--every", "1", *options]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    found = [float(loss) for loss in re.findall(r"^step \d+: loss (\S+)$", output, re.M)]
    if len(found) != 6:
        sys.exit(f"{' '.join(command)} printed {output}")
    return found


expected = losses("--plain")
print("one device:", *expected)
if expected[-1] > 0.9 * expected[0]:
    sys.exit("the loss does not fall")
for options in ([], ["--separate"]):
    found = losses(*options)
    print("mesh", *options, *found)
    if max(abs(a - b) for a, b in zip(found, expected)) > 1e-4:
        sys.exit("other losses than one device's")
