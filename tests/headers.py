"""Checks the library's syntax against the headers of another LibTorch: the oldest or the newest that README promises.
Usage: headers.py BUILD TORCH, where BUILD was configured (build/release) and TORCH is the folder that holds include/."""

import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys

build, torch = (pathlib.Path(argument).resolve() for argument in sys.argv[1:])
own_torch = re.search(r"^Torch_DIR:\w+=(.*)/share/cmake/Torch$", (build / "CMakeCache.txt").read_text(), re.M)[1]
# Of another name, since the precompiled form beside it is of the build's own LibTorch.
first_header = build / "headers_check.hxx"
first_header.write_text((build / "tutti/CMakeFiles/tutti_training.dir/cmake_pch.hxx").read_text().replace("#pragma GCC system_header", ""))


def check(entry):
    """Returns (source, what the compiler says of it: nothing if all is well)."""
    command = entry["command"].replace(f"{own_torch}/", f"{torch}/")
    for pattern, replacement in ((r"^\S*ccache ", ""), (r" -Winvalid-pch| -fpch-preprocess", ""),
                                 (r" -include \S+", f" -include {first_header}"), (r" -o \S+ -c ", " -fsyntax-only ")):
        command = re.sub(pattern, replacement, command)
    done = subprocess.run(command, shell=True, text=True, cwd=entry["directory"], stderr=subprocess.PIPE)
    return entry["file"], done.stderr if done.returncode else ""


entries = [entry for entry in json.loads((build / "compile_commands.json").read_text())
           if re.search(r" -o tutti/CMakeFiles/tutti(_training)?\.dir/", entry["command"]) and "cmake_pch" not in entry["file"]]
with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as threads:
    failed = [(source, said) for source, said in threads.map(check, entries) if said]
for source, said in failed:
    print(f"{source}:\n{said}")
print(f"{len(entries)} sources, {len(failed)} do not compile against {torch}")
sys.exit(bool(failed))
