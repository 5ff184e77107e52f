"""What run.sh of `./dev gpu-bundle` says where there is no GPU: nothing has passed, each case is counted as skipped.

   run_test.py LIBTORCH PROGRAM…
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

SKIP = 77
LINE = re.compile(r"(.+): (\d+) passed, (\d+) failed, (\d+) skipped(: .+)?")
OF_OTHER_PARTS = {"rules", "recorded.functions", "recorded.rules", "graphs.functions", "graphs.rules", "fuzz", "nccl",
                  "workers, train", "workers, die", "pjrt, lowering", "pjrt, mnist_fit", "sanitizer", "figures"}
libtorch, programs = sys.argv[1], [pathlib.Path(argument) for argument in sys.argv[2:]]
faults = []


def expect(holds, what):
    if not holds:
        faults.append(what)


def run(folder, *arguments):
    """The exit status and the lines of run.sh, where tests would simulate GPUs if they ran."""
    ended = subprocess.run([folder / "run.sh", "--results", f"{folder.name}/results", "--torch", libtorch, *arguments],
                           cwd=folder.parent, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                           env={**os.environ, "TUTTI_TEST_DEVICE": "cpu_and_gpu"})
    print(*arguments, ended.stdout, ended.stderr, sep="\n")
    return ended.returncode, ended.stdout.splitlines()


def cases_of(program):
    """How many each suite has."""
    listed = subprocess.run([program, "--gtest_list_tests"], stdout=subprocess.PIPE, text=True, check=True)
    cases = {}
    for line in listed.stdout.splitlines():
        if line.startswith("  "):
            cases[suite] += 1
        else:
            suite = line.split(".")[0]
            cases[suite] = 0
    return {suite: count for suite, count in cases.items() if count}


def look_at_all(folder):
    status, lines = run(folder)
    expect(status == 0, f"it exits with {status}")
    expect((folder / "results" / "look.log").exists(), "the results are not where the caller named them")
    counts = {}
    for line in lines:
        found = LINE.fullmatch(line)
        expect(found, f"not a line of counts: {line}")
        if found:
            counts[found[1]] = tuple(map(int, found.group(2, 3, 4)))
    total = counts.pop("in all", None)
    for name, (passed, failed, skipped) in counts.items():
        expect((passed, failed) == (0, 0) and skipped > 0, f"{name}: {passed} passed, {failed} failed, {skipped} skipped")
    expect(total == (0, 0, sum(skipped for _, _, skipped in counts.values())), f"in all {total} of {counts}")
    suites = cases_of(folder / "gpu_test")
    expect(set(counts) == OF_OTHER_PARTS | set(suites), f"lines of {set(counts) ^ (OF_OTHER_PARTS | set(suites))}")
    suites["nccl"] = sum(cases_of(folder / "nccl_processes_test").values())
    for suite, cases in suites.items():
        expect(counts.get(suite) == (0, 0, cases), f"{suite} has {cases} cases, {counts.get(suite)} are told")


def look_at_mistakes(folder):
    for arguments in (["--nothing", "here"], ["tests", "nowhere"], ["--mnist"]):
        status, lines = run(folder, *arguments)
        expect(status == 2 and not lines, f"with {arguments} it exits with {status} and says {lines}")


with tempfile.TemporaryDirectory() as name:
    place = pathlib.Path(name)
    for file in [*programs, pathlib.Path(__file__).with_name("run.sh")]:
        (place / file.name).symlink_to(file)
    if subprocess.run([place / "gpu_workers", "look"], stdout=subprocess.DEVNULL).returncode == 0:
        print("skipped: there is a GPU")
        sys.exit(SKIP)
    look_at_all(place)
    look_at_mistakes(place)
sys.exit("\n".join(faults) or 0)
