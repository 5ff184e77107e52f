#!/usr/bin/env python3
"""Says how many tests ran, and names those on real data, and those that were skipped: count_tests.py FOLDER [SINCE].

The folder holds the results that the test binaries left, in the JSON of GoogleTest; those written before SINCE (seconds since
1970) are of other runs.
"""
import json
import pathlib
import sys


def results(folder, since):
    for path in sorted(pathlib.Path(folder).glob("*.json")):
        if path.stat().st_mtime < since:
            continue
        for suite in json.loads(path.read_text())["testsuites"]:
            for test in suite["testsuite"]:
                yield f"{suite['name']}.{test['name']}", test


def main():
    ran, failed, skipped, on_real_data = 0, 0, [], []
    for name, test in results(sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 0):
        if test["status"] != "RUN":
            continue  # switched off by a filter
        if test["result"] == "SKIPPED":
            reasons = {skip["message"].splitlines()[-1] for skip in test.get("skipped", [])}
            skipped.append(f"{name} ({', '.join(reasons)})" if reasons else name)
        else:
            ran += 1
            failed += "failures" in test
            if "OnRealData" in name:
                on_real_data.append(name)
    if on_real_data:
        print(f"{len(on_real_data)} tests read large data sets:", *on_real_data, sep="\n  ")
    print(f"{ran} tests in C++ ran, {failed} failed, {len(skipped)} were skipped{':' if skipped else ''}", *skipped, sep="\n  ")


if __name__ == "__main__":
    main()
