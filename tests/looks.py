"""Looks at as much as a time allows: what changed first, the rest in another order each day."""

import datetime
import random
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor


def changed_since(root, base):
    """The headers and sources that differ from the commit; None where git does not know it, as in a shallow clone."""
    diff = ["git", "diff", "--name-only", "--no-ext-diff", base, "--", "*.h", "*.cpp"]
    ended = subprocess.run(diff, cwd=root, capture_output=True, text=True)
    return None if ended.returncode else set(ended.stdout.split())


def in_order(items, distance, day=None):
    """The items, nearest to the change first; those of one distance in another order each day."""
    shuffled = sorted(items)
    random.Random(datetime.date.today().toordinal() if day is None else day).shuffle(shuffled)
    return sorted(shuffled, key=distance)


def look_at(items, look, seconds, jobs):
    """What `look` says of each item, in their order; None of those whose turn did not come within the seconds."""
    deadline = time.monotonic() + seconds
    with ThreadPoolExecutor(jobs) as pool:
        return list(pool.map(lambda item: look(item) if time.monotonic() < deadline else None, items))
