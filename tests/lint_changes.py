#!/usr/bin/env python3
"""Runs clang-tidy over what changed since a commit: lint_changes.py ROOT BUILD BASE SECONDS JOBS.

A source that changed is looked at itself; a header by its own source, or else by the smallest one that includes it. Only
findings in changed lines count, so that nobody has to mend what others left. BUILD holds compile_commands.json. What
could not be looked at within SECONDS, or by clang at all, is counted and named. Exits with 1 for findings.
"""

import json
import re
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ERROR = re.compile(r"^(.+?):(\d+):\d+: (?:fatal )?error: .*\[([\w.,-]+)\]$", re.M)
NOT_COMPILED = "clang-diagnostic-error"  # what g++ takes and clang does not
HUNK = re.compile(r"^@@ -\d+(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")


def changed_lines(diff):
    """{path: [[first, last], …]} of the lines that a diff without context adds or changes."""
    changed, path = {}, None
    lines = iter(diff.splitlines())
    for line in lines:
        if line.startswith("+++ "):
            path = line.removeprefix("+++ b/")
        elif hunk := HUNK.match(line):
            removed, first, added = int(hunk[1] or 1), int(hunk[2]), int(hunk[3] or 1)
            if added > 0:
                changed.setdefault(path, []).append([first, first + added - 1])
            for _ in range(removed + added):  # whatever these look like
                next(lines, None)
    return changed


def source_of(path, texts):
    """The source by which a changed file is looked at; None where there is none. `texts`: {source: its text}."""
    if path in texts:
        return path
    stem = path.removesuffix(".h")
    own = [source for source in (f"{stem}.cpp", f"{stem}_test.cpp") if source in texts]
    include = f'#include "{path}"'
    readers = own or sorted((source for source, text in texts.items() if include in text), key=lambda s: len(texts[s]))
    return readers[0] if readers else None


def read_sources(root, build):
    """{path: text} of the project's sources that are compiled."""
    files = {Path(entry["file"]) for entry in json.loads((build / "compile_commands.json").read_text())}
    own = [file.relative_to(root) for file in files if file.is_relative_to(root) and not file.is_relative_to(build)]
    return {path.as_posix(): (root / path).read_text() for path in own if (root / path).exists()}


def is_changed(root, file, line, lines):
    path = Path(file)
    path = path.relative_to(root).as_posix() if path.is_relative_to(root) else path.as_posix()
    return any(first <= line <= last for first, last in lines.get(path, []))


def lint(root, build, source, lines, deadline):
    """What became of the source, "clean", "found" or "skipped", and what is to be said of that."""
    remaining = max(deadline - time.monotonic(), 0.001)
    line_filter = json.dumps([{"name": path, "lines": ranges} for path, ranges in lines.items()])
    command = ["clang-tidy-16", "-p", build, "--quiet", "--warnings-as-errors=*", f"--line-filter={line_filter}", source]
    try:
        ended = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=remaining)
    except subprocess.TimeoutExpired:
        return "skipped", "the time was over"
    if ended.returncode == 0:
        return "clean", ""
    errors = ERROR.findall(ended.stdout)
    if errors and all(kind.startswith(NOT_COMPILED) and not is_changed(root, file, int(line), lines)
                      for file, line, kind in errors):
        return "skipped", f"clang cannot compile it for what did not change: {errors[0][0]}:{errors[0][1]}"
    return "found", ended.stdout or ended.stderr


def main():
    root, build, base, seconds, jobs = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve(), *sys.argv[3:]
    diff = ["git", "diff", "--unified=0", "--no-color", "--no-ext-diff", "--diff-filter=d", base, "--", "*.h", "*.cpp"]
    lines = changed_lines(subprocess.run(diff, cwd=root, capture_output=True, text=True, check=True).stdout)
    texts = read_sources(root, build)
    sources = {path: source_of(path, texts) for path in lines}
    for path in sorted(path for path, source in sources.items() if not source):
        print(f"lint: skipped: {path}: no source that is compiled includes it")
    order = sorted({source for source in sources.values() if source})
    deadline = time.monotonic() + float(seconds)
    with ThreadPoolExecutor(int(jobs)) as pool:
        outcomes = list(pool.map(lambda source: lint(root, build, source, lines, deadline), order))
    for source, (outcome, text) in zip(order, outcomes):
        if outcome != "clean":
            print(text if outcome == "found" else f"lint: skipped: {source}: {text}")
    count = Counter(outcome for outcome, _ in outcomes)
    print(f"lint: of {len(order)} sources for {len(lines)} files that differ from {base}, {count['found']} have findings, "
          f"{count['clean']} have none, {count['skipped']} were skipped")
    return 1 if count["found"] else 0


if __name__ == "__main__":
    sys.exit(main())
