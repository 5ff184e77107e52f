#!/usr/bin/env python3
"""The example mnist_fit under a TPUStrategy, on XLA's CPU devices, has the accuracy that it has under MirroredStrategy:
tpu_mnist_fit_test.py MNIST_FIT PLUGIN. Ends with 77 where there is no plugin.
"""
import os
import re
import subprocess
import sys
from pathlib import Path

MNIST_FIT, PLUGIN = sys.argv[1:]
DEVICES = 2


def accuracy(*options):
    variables = os.environ | {"TUTTI_PJRT_PLUGIN": PLUGIN,
                              "XLA_FLAGS": f"--xla_force_host_platform_device_count={DEVICES}"}
    done = subprocess.run([MNIST_FIT, "--epochs", "1", "--replicas", str(DEVICES), *options], capture_output=True, text=True,
                          env=variables)
    found = re.search(r"^test accuracy: (\S+)$", done.stdout, re.M)
    if done.returncode or not found or f"Number of devices: {DEVICES}" not in done.stdout:
        sys.exit(f"{options}: status {done.returncode}, printed\n{done.stdout}\n{done.stderr}")
    return float(found[1])


if not Path(PLUGIN).is_file():
    print("there is no plugin here: ./dev test -L pjrt fetches it")
    sys.exit(77)
mirrored, tpu = accuracy(), accuracy("--tpu", "local")
print(f"accuracy after an epoch: {mirrored} by MirroredStrategy, {tpu} by TPUStrategy")
if tpu < 0.96 or abs(tpu - mirrored) > 0.01:
    sys.exit("TPUStrategy has another accuracy")
