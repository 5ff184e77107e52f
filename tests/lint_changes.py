#!/usr/bin/env python3
"""Runs clang-tidy over what changed since a commit: lint_changes.py ROOT BUILD BASE SECONDS JOBS.

A source that changed is looked at itself; a header by its own source, or else by the smallest one that includes it. Only
findings in changed lines count, so that nobody has to mend what others left. BUILD holds compile_commands.json. What
could not be looked at is counted and named: after SECONDS no more sources are begun. Exits with 1 for findings.
"""

import json
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

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


def lint(root, build, source, lines, deadline):
    """None where there was no time; else what clang-tidy finds in the changed lines, or why it found nothing out."""
    remaining = deadline - time.monotonic()
    line_filter = json.dumps([{"name": path, "lines": ranges} for path, ranges in lines.items()])
    command = ["clang-tidy-16", "-p", build, "--quiet", "--warnings-as-errors=*", f"--line-filter={line_filter}", source]
    try:
        ended = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=max(remaining, 0.001))
    except subprocess.TimeoutExpired:
        return None
    return "" if ended.returncode == 0 else (ended.stdout or ended.stderr)


def main():
    root, build, base, seconds, jobs = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve(), *sys.argv[3:]
    diff = ["git", "diff", "--unified=0", "--no-color", "--no-ext-diff", "--diff-filter=d", base, "--", "*.h", "*.cpp"]
    lines = changed_lines(subprocess.run(diff, cwd=root, capture_output=True, text=True, check=True).stdout)
    texts = read_sources(root, build)
    sources = {path: source_of(path, texts) for path in lines}
    order = sorted({source for source in sources.values() if source})
    deadline = time.monotonic() + float(seconds)
    with ThreadPoolExecutor(int(jobs)) as pool:
        outputs = dict(zip(order, pool.map(lambda source: lint(root, build, source, lines, deadline), order)))
    late = [source for source in order if outputs[source] is None]
    found = [source for source in order if outputs[source]]
    for source in found:
        print(outputs[source])
    for path in sorted(path for path, source in sources.items() if not source):
        print(f"lint: skipped: {path}: no source that is compiled includes it")
    for source in late:
        print(f"lint: skipped: {source}: {seconds} s were over")
    print(f"lint: of {len(order)} sources for {len(lines)} files that differ from {base}, {len(found)} have findings, "
          f"{len(order) - len(late) - len(found)} have none, {len(late)} were skipped")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
