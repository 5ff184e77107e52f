#!/usr/bin/env python3
"""Kills workers at random, and looks at the history of all that they were to count on the servers:
served_kills_test.py TUTTI SERVED_KILLS_MEMBER. TUTTI_SERVED_KILLS says how many are killed, TUTTI_SERVED_SEED which."""

import os
import signal
import sys
import unittest

from served_test import MEMBER, Tasks

WORKERS = 4
KILLS = int(os.environ.get("TUTTI_SERVED_KILLS", "12"))
SEED = int(os.environ.get("TUTTI_SERVED_SEED", "1"))


class ServedKills(unittest.TestCase):
    def killed_in(self, seed):
        """How many workers died, of which the history must not tell."""
        with Tasks([MEMBER, "--seed", str(seed)], workers=WORKERS, servers=2) as tasks:
            ends = tasks.wait()
        code, out, err = ends["chief 0"]
        self.assertEqual(code, 0, f"seed {seed}: {err}")
        self.assertIn("the history of 300 calls is right", out)
        killed = [name for name, (code, _, _) in ends.items() if code == -signal.SIGKILL]
        for name, (code, _, err) in ends.items():
            self.assertTrue(code == 0 or name in killed, f"seed {seed}: {name} ended with {code}: {err}")
        self.assertLess(len(killed), WORKERS)
        self.assertFalse([name for name in killed if not name.startswith("worker")])
        return len(killed)

    def test_each_call_counts_once_on_each_server_through_kills_at_random(self):
        runs = kills = 0
        while kills < KILLS:
            kills += self.killed_in(SEED + runs)
            runs += 1
            self.assertLess(runs, 10 + KILLS, "too few workers are killed")
        print(f"{kills} kills in {runs} runs", flush=True)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
