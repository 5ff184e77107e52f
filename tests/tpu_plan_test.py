#!/usr/bin/env python3
"""What `tutti plan --tpu` tells of examples, on TPUs that are not there: tpu_plan_test.py TUTTI LIBTPU MNIST_FIT
CHAR_TRANSFORMER. Ends with 77 where there is no libtpu. The convolutions of mnist_fit take libtpu minutes, so it is planned
in vain alone.
"""
import os
import re
import subprocess
import sys
from pathlib import Path

TUTTI, LIBTPU, MNIST_FIT, CHAR_TRANSFORMER = sys.argv[1:]
GENERATIONS = {"v4:2x2x1": 8, "v5e:2x2": 4, "v5p:2x2x1": 4, "v6e:2x2": 4}


def plan(topology, *command):
    variables = {name: value for name, value in os.environ.items() if not name.startswith("TUTTI_")}
    return subprocess.run([TUTTI, "plan", "--tpu", topology, *command], capture_output=True, text=True, timeout=600,
                          env=variables | {"TPU_LIBRARY_PATH": LIBTPU})


def check(condition, what, done):
    if not condition:
        sys.exit(f"{what}; status {done.returncode}, printed\n{done.stdout}\n{done.stderr}")


def main():
    if not Path(LIBTPU).exists():
        print("there is no libtpu here: ./dev test -L pjrt fetches it")
        sys.exit(77)
    done = plan(",".join(GENERATIONS), CHAR_TRANSFORMER, "--tpu", "local")
    check(done.returncode == 0, "there is no plan", done)
    plans = re.findall(r" on each of (\d+) devices of (\S+), in bytes:.*?together +(\d+) of (\d+),.*?"
                       r"all-reduces between the devices: (\d+)", done.stdout, re.S)
    check({topology: int(devices) for devices, topology, *_ in plans} == GENERATIONS, "other TPUs", done)
    for devices, topology, together, capacity, sums in plans:
        check(0 < int(together) < int(capacity) / 10 and int(sums) == 39, f"numbers of {topology}", done)
    print(done.stdout)
    done = plan("v5e:1x1", MNIST_FIT, "--epochs", "0")
    check(done.returncode == 2 and "no plan for v5e:1x1" in done.stderr, "a program without a TPUStrategy", done)
    done = plan("v99:2x2", MNIST_FIT, "--tpu", "local")
    check(done.returncode == 2 and "v99" in done.stderr, "a TPU that is not known", done)


main()
