#!/usr/bin/env python3
"""Trains on parameter servers with a table that is larger than the memory of a worker:
served_table_test.py TUTTI MEMBER."""

import re
import sys
import unittest

from served_test import MEMBER, alone, launch, numbers

ROWS, STEPS = 1_000_000, 4  # 256 MB


class ServedTable(unittest.TestCase):
    def test_a_table_larger_than_a_workers_memory_gives_one_devices_losses(self):
        expected = numbers("loss", alone(ROWS, STEPS, 1))
        self.assertEqual(len(expected), STEPS)
        done = launch(MEMBER, ROWS, STEPS, 1, workers=1, servers=2, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(numbers("loss", done.stdout), expected)
        had, table = re.search(r"worker 0 had (\d+) bytes of a table of (\d+)$", done.stdout, re.M).groups()
        self.assertLess(int(had), int(table))

    def test_replicas_of_a_worker_add_the_gradients_of_the_rows_that_each_looks_up(self):
        arguments = (20_000, 10, 2)
        done = launch(MEMBER, *arguments, workers=1, servers=2)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(numbers("loss", done.stdout), numbers("loss", alone(*arguments)))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
