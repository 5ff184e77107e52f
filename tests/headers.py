#!/usr/bin/env python3
"""Checks the library's syntax against the headers of another LibTorch: headers.py BUILD TORCH [SECONDS [BASE]].

README tells from which LibTorch to which. BUILD was configured (build/release); TORCH is the folder that holds include/. Files
whose sources differ from the commit BASE come first, then all others, in another order each day. SECONDS bounds it: what
was not looked at is counted. Exits with 1 where a source does not compile.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import looks
from compile_alone import INCLUDE

OF_LIBRARY = re.compile(r" -o tutti/CMakeFiles/tutti(_strategies|_training)?\.dir/")
ROOT = Path(__file__).resolve().parent.parent


class OtherHeaders:
    def __init__(self, build, torch):
        self.own = re.search(r"^Torch_DIR:\w+=(.*)/share/cmake/Torch$", (build / "CMakeCache.txt").read_text(), re.M)[1]
        self.torch = torch
        own_first = build / "tutti/CMakeFiles/tutti_strategies.dir/cmake_pch.hxx"
        self.first = build / "headers_check.hxx"
        self.first.write_text(own_first.read_text().replace("#pragma GCC system_header", ""))

    def command(self, entry, what):
        """The entry's command, with the other headers, and with `what` in the place of what it compiles."""
        command = entry["command"].replace(f"{self.own}/", f"{self.torch}/")
        for pattern, replacement in ((r"^\S*ccache ", ""), (r" -Winvalid-pch| -fpch-preprocess| -x c\+\+-header", ""),
                                     (r" -include \S+", ""), (r" -o \S+ -c \S+$", f" {what}")):
            command = re.sub(pattern, replacement, command)
        return command

    def precompile(self, entry):
        ended = run(self.command(entry, f"-x c++-header {self.first} -o {self.first}.gch"), entry)
        if ended.returncode:
            sys.exit(f"headers: what is precompiled does not compile against {self.torch}:\n{ended.stderr}")

    def complaint(self, entry):
        """What the compiler says of the entry's file; nothing if all is well."""
        ended = run(self.command(entry, f"-include {self.first} -fsyntax-only -fmax-errors=3 {entry['file']}"), entry)
        return ended.stderr if ended.returncode else ""


def run(command, entry):
    return subprocess.run(command, shell=True, text=True, cwd=entry["directory"], stderr=subprocess.PIPE)


def sources_of(entry):
    """Of an entry, those that it compiles, from the root on."""
    file = Path(entry["file"])
    sources = INCLUDE.findall(file.read_text()) if "/Unity/" in entry["file"] else [str(file)]
    return [source.removeprefix(f"{ROOT}/") for source in sources]


def main():
    build, torch = (Path(argument).resolve() for argument in sys.argv[1:3])
    seconds = float(sys.argv[3]) if len(sys.argv) > 3 else float("inf")
    changed = looks.changed_since(ROOT, sys.argv[4]) or set() if len(sys.argv) > 4 else set()
    entries = [entry for entry in json.loads((build / "compile_commands.json").read_text())
               if OF_LIBRARY.search(entry["command"]) and "cmake_pch" not in entry["file"]]
    headers = OtherHeaders(build, torch)
    headers.precompile(entries[0])
    by_file = {entry["file"]: entry for entry in entries}
    order = looks.in_order(by_file, lambda file: not changed.intersection(sources_of(by_file[file])))
    said = looks.look_at(order, lambda file: headers.complaint(by_file[file]), seconds, os.cpu_count())
    bad = [f"headers: {file}:\n{text}" for file, text in zip(order, said) if text]
    compiled = sum(text is not None for text in said)
    print(*bad, f"headers: of {len(order)} files of the library, {compiled} were compiled against {torch}, {len(bad)} of them in "
          f"vain; for {len(order) - compiled} the time was over", sep="\n")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
