#!/usr/bin/env python3
"""Trains where the system gives a task no memory to share with the others of its host:
served_memory_test.py TUTTI SERVED_MEMBER REFUSED_MEMORY."""

import sys
import unittest

from served_test import MEMBER, Tasks, alone, numbers

REFUSED_MEMORY = sys.argv[3]


class ServedMemory(unittest.TestCase):
    def train(self, refused):
        """The warnings of each task about memory, where ps 0 is refused that; its losses are one device's."""
        environment = {"LD_PRELOAD": REFUSED_MEMORY, "REFUSED_MEMORY": refused}
        with Tasks([MEMBER], workers=1, servers=2, environments={"ps 0": environment}) as tasks:
            ends = tasks.wait()
        for name, (code, _, err) in ends.items():
            self.assertEqual(code, 0, f"{name}: {err}")
        self.assertEqual(numbers("loss", ends["chief 0"][1]), numbers("loss", alone()))
        return {name: [line for line in err.splitlines() if "no memory" in line] for name, (_, _, err) in ends.items()}

    def check(self, warnings, whose, *texts):
        """Of all tasks that one alone warns, once, of all that."""
        self.assertEqual([name for name, lines in warnings.items() if lines], [whose], warnings)
        self.assertEqual(len(warnings[whose]), 1, warnings)
        for text in texts:
            self.assertIn(text, warnings[whose][0])

    def test_a_task_that_can_make_no_memory_goes_on_through_sockets_and_says_why(self):
        self.check(self.train("make"), "ps 0", "ps 0 and chief 0 share no memory", "sockets carry what they send",
                   "memfd_create: Operation not permitted")

    def test_a_task_whose_memory_cannot_be_opened_goes_on_through_sockets_and_says_why(self):
        self.check(self.train("open"), "worker 0", "worker 0 and ps 0 share no memory", "sockets carry what they send",
                   "is not the memory of a connection: Permission denied")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
