#!/usr/bin/env python3
"""Functions that travel together: served_batches_test.py TUTTI SERVED_BATCHES_MEMBER."""

import re
import sys
import unittest

from served_test import MEMBER, Tasks


class ServedBatches(unittest.TestCase):
    def test_slow_functions_behind_quick_ones_are_cancelled_by_an_error_and_not_called_with_their_batch(self):
        with Tasks([MEMBER], workers=2, servers=1) as tasks:
            ends = tasks.wait()
        for name, (code, _, err) in ends.items():
            self.assertEqual(code, 0, f"{name}: {err}")
        out = ends["chief 0"][1]
        self.assertIn("failed: a bad record", out)
        called = int(re.search(r"(\d+) slow functions were called", out)[1])
        print(f"{called} of 1000 slow functions were called", flush=True)
        self.assertGreaterEqual(called, 20)
        # 40 before the one that fails, and some that others have begun; batches of quick ones are of some hundreds.
        self.assertLess(called, 120)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
