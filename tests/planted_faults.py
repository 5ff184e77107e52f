#!/usr/bin/env python3
"""Plants faults of streams and devices in the library, one by one, and shows which tests fail of each.

    tests/planted_faults.py build/release          all of them
    tests/planted_faults.py build/release 3 7      the fourth and the eighth

The library's sources stay as they are: a faulty copy of one is linked in front of the library into another test
program, which takes what it defines from there. Needs a build of accelerator_test.
"""
import argparse
import json
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile
from dataclasses import dataclass

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAM = "tests/accelerator_test"


@dataclass
class Fault:
    name: str
    source: str
    right: str  # once in the source
    wrong: str


FAULTS = [
    Fault("the stream that computes does not wait for a batch's copy", "tutti/tensor/upload.cpp",
          "copied.block(computes);", ""),
    Fault("a batch's memory is not kept for the stream that reads it", "tutti/tensor/upload.cpp",
          "copy.record_stream(computes);", ""),
    Fault("a batch is awaited by the first GPU's stream", "tutti/tensor/upload.cpp",
          "VirtualGuardImpl(device_.type()).getStream(device_);",
          "VirtualGuardImpl(device_.type()).getStream(c10::Device(device_.type(), 0));"),
    Fault("a replica has the caller's stream of its own GPU alone", "tutti/distribute/replica_runner.cpp",
          "callers_streams(streams);",
          "callers_streams(devices_[r].is_cpu() ? c10::ArrayRef<c10::Stream>()"
          " : streams.slice(static_cast<size_t>(devices_[r].index()), 1));"),
    Fault("a replica has no stream of the caller's", "tutti/distribute/replica_runner.cpp",
          "callers_streams(streams);", "callers_streams(c10::ArrayRef<c10::Stream>{});"),
    Fault("a replica begins with another GPU current", "tutti/distribute/replica_runner.cpp",
          "device.reset_device(devices_[r]);", "device.reset_device(devices_[0]);"),
    Fault("LibTorch's thread of the first GPU computes the gradients of all", "tutti/tensor/kernel.cpp",
          "set_multithreading_enabled(false);", "set_multithreading_enabled(true);"),
    Fault("a queue of collectives has its thread's streams", "tutti/collectives/collective_queue.cpp",
          "callers_streams(streams);", "callers_streams(c10::ArrayRef<c10::Stream>{});"),
    Fault("NCCL adds on default streams", "tutti/collectives/nccl/clique.cpp",
          ".getStream(devices_[i]));", ".getDefaultStream(devices_[i]));"),
    Fault("NCCL adds on the first GPU's stream", "tutti/collectives/nccl/clique.cpp",
          "streams_[device].native_handle()", "streams_[0].native_handle()"),
    Fault("the host does not wait for NCCL's sum", "tutti/collectives/nccl/clique.cpp",
          "is_settled(i) && done_[i].query();", "is_settled(i);"),
    Fault("the host waits for what NCCL had given the streams before", "tutti/collectives/nccl/clique.cpp",
          "wait_for_all([&](size_t i) { return is_settled(i); }, describe);\n    for", "for"),
    Fault("NCCL joins with another GPU current", "tutti/collectives/nccl/clique.cpp",
          "const c10::DeviceGuard guard(devices_[device]);\n      naming",
          "const c10::DeviceGuard guard(devices_[0]);\n      naming"),
    Fault("a process adds by NCCL on the default stream", "tutti/collectives/nccl/nccl_group.cpp",
          "VirtualGuardImpl(device_.type()).getStream(device_);",
          "VirtualGuardImpl(device_.type()).getDefaultStream(device_);"),
    Fault("a process does not wait for the sum by NCCL", "tutti/collectives/nccl/nccl_group.cpp",
          "has_settled() && done_->query();", "has_settled();"),
]


def compile_command(build, source):
    """What compiles the source alone: as the unit that it is in, or itself."""
    for entry in json.loads((build / "compile_commands.json").read_text()):
        unit = pathlib.Path(entry["file"])
        is_unit = unit.suffix == ".cxx" and unit.exists() and f'/{source}"' in unit.read_text()
        if is_unit or unit == ROOT / source:
            words = shlex.split(entry["command"])
            for option in ("-o", "-c", "-MF", "-MT"):
                if option in words:
                    at = words.index(option)
                    del words[at:at + 2]
            return [word for word in words if word != "-MD"]
    sys.exit(f"{source} is not in {build / 'compile_commands.json'}")


def link_command(build):
    lines = subprocess.run(["ninja", "-C", build, "-t", "commands", PROGRAM], capture_output=True, text=True,
                           check=True).stdout.splitlines()
    words = shlex.split(lines[-1].removeprefix(": && ").split(" && ")[0])
    words[words.index("-o") + 1] = "{program}"
    return words


def build_faulty(build, fault, folder):
    text = (ROOT / fault.source).read_text()
    if text.count(fault.right) != 1:
        sys.exit(f"{fault.source} has {text.count(fault.right)} times: {fault.right}")
    copy = folder / pathlib.Path(fault.source).name
    copy.write_text(text.replace(fault.right, fault.wrong))
    made = folder / "faulty.o"
    # Also what the fault leaves unused.
    subprocess.run([*compile_command(build, fault.source), "-Wno-error", "-w", "-c", copy, "-o", made], cwd=build,
                   check=True)
    program = folder / "faulty"
    words = [str(program) if word == "{program}" else word for word in link_command(build)]
    words[1:1] = ["-Wl,-z,muldefs", str(made)]
    subprocess.run(words, cwd=build, check=True)
    return program


def failures(program):
    """The tests that fail, of those that run before one crashes or hangs, and that one."""
    environment = {**os.environ, "TUTTI_TEST_DEVICE": "gpus", "OMP_NUM_THREADS": "1"}
    result = subprocess.run([program, "--gtest_color=no"], env=environment, capture_output=True, text=True)
    begun, failed = "", []
    for line in result.stdout.splitlines():
        if line.startswith("[ RUN      ]"):
            begun = line.split()[-1]
        elif line.startswith("[       OK ]") or line.startswith("[  SKIPPED ]"):
            begun = ""
        elif line.startswith("[  FAILED  ]") and begun:
            failed.append(begun)
            begun = ""
    return failed + ([f"{begun} (ends the program)"] if begun else [])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("numbers", type=int, nargs="*")
    arguments = parser.parse_args()
    build = arguments.build.resolve()
    if failed := failures(build / PROGRAM):
        sys.exit(f"without a fault these fail: {failed}")
    num_missed = 0
    for number in arguments.numbers or range(len(FAULTS)):
        fault = FAULTS[number]
        with tempfile.TemporaryDirectory() as folder:
            found = failures(build_faulty(build, fault, pathlib.Path(folder)))
        num_missed += not found
        print(f"{number}: {fault.name}:", ", ".join(found) if found else "NOT FOUND", flush=True)
    sys.exit(1 if num_missed else 0)


if __name__ == "__main__":
    main()
