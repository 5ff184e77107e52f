#!/usr/bin/env python3
"""Functions that step several times, read views, write buffers, throw: on parameter servers as in one process:
served_functions_test.py TUTTI MEMBER."""

import shutil
import sys
import tempfile
import unittest
from pathlib import Path

from served_test import MEMBER, alone, launch


class ServedFunctions(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

    def test_give_and_leave_what_they_do_in_one_process(self):
        expected = alone(self.folder / "alone").splitlines()
        done = launch(MEMBER, self.folder / "served", workers=1, servers=2)
        self.assertEqual(done.returncode, 0, done.stderr)
        prefix = "[chief 0] "
        served = [line.removeprefix(prefix) for line in done.stdout.splitlines() if line.startswith(prefix)]
        self.assertEqual(len(expected), 41)
        self.assertEqual(served, expected)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
