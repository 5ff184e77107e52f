#!/usr/bin/env python3
"""Compiles, each alone, sources that BUILD compiles behind others: compile_alone.py ROOT BUILD BASE SECONDS JOBS.

A source that lacks an include is helped out by what stands before it in the same file of a unity build. The first source
of such a file has proven itself; the others are looked at here, for syntax alone, with the build's own options and its
precompiled header. Those that differ from the commit BASE come first, then those that include a header that does, then all
others, in another order each day. SECONDS bounds it: what was not looked at is counted. Exits with 1 where a source does
not compile.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

import looks

INCLUDE = re.compile(r'^\s*#include "([^"]+)"', re.M)
NOT_SYNTAX = re.compile(r"^\S*ccache | -o \S+ -c \S+$")


def sources_behind_others(build):
    """{source: the entry of the file that it is compiled in}, less the first source of each file."""
    entries = json.loads((build / "compile_commands.json").read_text())
    united = [entry for entry in entries if "/Unity/" in entry["file"]]
    return {Path(source): entry for entry in united for source in INCLUDE.findall(Path(entry["file"]).read_text())[1:]}


def in_order(root, sources, changed, day=None):
    """The sources, those first that a change is the likeliest to have broken."""
    def distance(source):
        if source.relative_to(root).as_posix() in changed:
            return 0
        return 2 - bool(changed.intersection(INCLUDE.findall(source.read_text())))

    return looks.in_order(sources, distance, day)


def compile_alone(source, entry):
    """What the compiler says of the source; nothing if all is well."""
    command = f"{NOT_SYNTAX.sub('', entry['command'])} -fsyntax-only -fmax-errors=3 {source}"
    ended = subprocess.run(command, shell=True, cwd=entry["directory"], capture_output=True, text=True)
    return ended.stderr if ended.returncode else ""


def main():
    root, build, base, seconds, jobs = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve(), *sys.argv[3:]
    sources, changed = sources_behind_others(build), looks.changed_since(root, base)
    if changed is None:
        print(f"alone: git knows no {base} here, so what changed does not come first")
    order = in_order(root, sources, changed or set())
    said = looks.look_at(order, lambda source: compile_alone(source, sources[source]), float(seconds), int(jobs))
    bad = [f"alone: {source.relative_to(root)} does not compile but behind other sources:\n{text}"
           for source, text in zip(order, said) if text]
    compiled = sum(text is not None for text in said)
    print(*bad, f"alone: of {len(order)} sources that are compiled behind others, {compiled} were compiled alone, {len(bad)} "
          f"of them in vain; for {len(order) - compiled} the time was over", sep="\n")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
