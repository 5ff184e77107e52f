#!/usr/bin/env python3
"""What `tutti plan --tpu` tells of examples, on TPUs that are not there: tpu_plan_test.py TUTTI LIBTPU MNIST_FIT
CHAR_TRANSFORMER. Ends with 77 where there is no libtpu.
"""
import os
import re
import subprocess
import sys
import time
from pathlib import Path

TUTTI, LIBTPU, MNIST_FIT, CHAR_TRANSFORMER = sys.argv[1:]
DEVICES = {"v4:2x2x1": 8, "v5e:2x2": 4, "v5p:2x2x1": 4, "v6e:2x2": 4, "v5e:4x8": 32}


def plan(topology, *command):
    variables = {name: value for name, value in os.environ.items() if not name.startswith("TUTTI_")}
    return subprocess.run([TUTTI, "plan", "--tpu", topology, *command], capture_output=True, text=True, timeout=1100,
                          env=variables | {"TPU_LIBRARY_PATH": LIBTPU})


def check(condition, what, done):
    if not condition:
        sys.exit(f"{what}; status {done.returncode}, printed\n{done.stdout}\n{done.stderr}")


def main():
    if not Path(LIBTPU).exists():
        print("there is no libtpu here: ./dev test -L pjrt fetches it")
        sys.exit(77)
    for program, all_reduces in (CHAR_TRANSFORMER, 39), (MNIST_FIT, 6):
        start = time.monotonic()
        done = plan(",".join(DEVICES), program, "--tpu", "local")
        check(done.returncode == 0, f"there is no plan of {program}", done)
        plans = re.findall(r" on each of (\d+) devices of (\S+), in bytes:.*?together +(\d+) of (\d+),.*?"
                           r"all-reduces between the devices: (\d+)", done.stdout, re.S)
        check({topology: int(devices) for devices, topology, *_ in plans} == DEVICES, "other TPUs", done)
        for devices, topology, together, capacity, sums in plans:
            check(0 < int(together) < int(capacity) / 10 and int(sums) == all_reduces, f"numbers of {topology}", done)
        print(f"{done.stdout}in {time.monotonic() - start:.0f} s")
    done = plan("v5e:1x1", MNIST_FIT, "--epochs", "0")
    check(done.returncode == 2 and "no plan for v5e:1x1" in done.stderr, "a program without a TPUStrategy", done)
    done = plan("v99:2x2", MNIST_FIT, "--tpu", "local")
    check(done.returncode == 2 and "v99" in done.stderr, "a TPU that is not known", done)


main()
