#!/usr/bin/env python3
"""Kills workers and cuts their connections at random, and looks at the history of all that they were to count on the
servers: served_kills_test.py TUTTI SERVED_KILLS_MEMBER. TUTTI_SERVED_KILLS says how many are killed, TUTTI_SERVED_SEED
which."""

import os
import re
import signal
import sys
import time
import unittest

from served_test import MEMBER, Tasks

WORKERS = 4
KILLS = int(os.environ.get("TUTTI_SERVED_KILLS", "12"))
SEED = int(os.environ.get("TUTTI_SERVED_SEED", "1"))


class ServedKills(unittest.TestCase):
    def check(self, seed, ends, calls, may_fail):
        """That the history is right, and that all have ended well but those that may not."""
        code, out, err = ends["chief 0"]
        self.assertEqual(code, 0, f"seed {seed}: {err}")
        self.assertIn(f"the history of {calls} calls is right", out)
        for name, (code, _, err) in ends.items():
            self.assertTrue(code == 0 or name in may_fail, f"seed {seed}: {name} ended with {code}: {err}")

    def killed_in(self, seed):
        """How many workers died, of which the history must not tell."""
        sockets = ["--sockets", "1"] if seed % 2 else []  # else in memory
        with Tasks([MEMBER, "--seed", str(seed), *sockets], workers=WORKERS, servers=2) as tasks:
            ends = tasks.wait()
        killed = [name for name, (code, _, _) in ends.items() if code == -signal.SIGKILL]
        self.check(seed, ends, 300, killed)
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

    def restarted_in(self, seed):
        """How many workers died, and were started again, while connections to servers were cut."""
        options = ["--seed", str(seed), "--calls", "400", "--slow-ms", "10", "--cut-ms", "500"]
        with Tasks([MEMBER, *options], workers=WORKERS, servers=2) as tasks:
            kills = 0
            while tasks.processes["chief 0"].poll() is None:
                for index in range(1, WORKERS):
                    if tasks.processes[f"worker {index}"].poll() == -signal.SIGKILL:
                        kills += 1
                        tasks.start(f"worker {index}")
                time.sleep(0.05)
            limit = time.monotonic() + 5
            while time.monotonic() < limit and any(each.poll() is None for each in tasks.processes.values()):
                time.sleep(0.05)
            for index in range(1, WORKERS):  # some have come too late
                tasks.kill(f"worker {index}")
            ends = tasks.wait()
        self.check(seed, ends, 400, [f"worker {index}" for index in range(1, WORKERS)])
        return kills, ends["chief 0"][2].count("has come again; there are")

    def test_each_call_counts_once_through_cut_connections_and_workers_that_come_again(self):
        runs = kills = taken_in = 0
        while kills < KILLS:
            more_kills, more_taken_in = self.restarted_in(SEED + 1000 + runs)
            kills, taken_in, runs = kills + more_kills, taken_in + more_taken_in, runs + 1
            self.assertLess(runs, 10 + KILLS, "too few workers are killed")
        print(f"{kills} kills in {runs} runs, {taken_in} workers were taken in again", flush=True)

    def cut_in(self, every_ms, *more):
        """How many connections to servers were cut while 300 calls of 10 ms were made, in how many seconds."""
        options = ["--seed", str(SEED), "--calls", "300", "--slow-ms", "10", "--cut-ms", str(every_ms), *more]
        with Tasks([MEMBER, *options], workers=1, servers=2) as tasks:
            ends = tasks.wait()
        self.check(SEED, ends, 300, [])
        return (ends["worker 0"][2].count("it is connected to again"),
                float(re.search(r"which took ([\d.e+-]+) s", ends["chief 0"][1])[1]))

    def test_a_worker_goes_on_at_once_where_its_connections_to_servers_are_cut(self):
        for every_ms, fewest, more in ((500, 3, ["--sockets", "1"]), (50, 30, ["--sockets", "1"]), (50, 30, [])):
            cuts, seconds = self.cut_in(every_ms, *more)
            print(f"cut every {every_ms} ms {more}: {cuts} connections to servers were made again in {seconds} s", flush=True)
            self.assertGreaterEqual(cuts, fewest)
            self.assertLess(seconds, 15)  # 3 of which are the calls' own; 1 s went by at each cut before

    def test_a_worker_whose_connections_to_the_chief_are_cut_goes_on(self):
        options = ["--seed", str(SEED), "--calls", "300", "--slow-ms", "10", "--cut-ms", "500", "--cut-chief", "1"]
        with Tasks([MEMBER, *options], workers=1, servers=2) as tasks:
            ends = tasks.wait()
        self.check(SEED, ends, 300, [])
        cuts = ends["worker 0"][2].count("chief 0 is lost")
        self.assertGreater(cuts, 0)
        self.assertIn("worker 0 has come again; there are 1", ends["chief 0"][2])
        print(f"{cuts} connections to the chief were made again", flush=True)

    def test_a_chief_whose_connections_to_servers_are_cut_goes_on(self):
        for every_ms, more in ((200, ["--sockets", "1"]), (50, [])):
            options = ["--seed", str(SEED), "--calls", "300", "--slow-ms", "10", "--cut-ms", str(every_ms),
                       "--cut-servers", "1", *more]
            with Tasks([MEMBER, *options], workers=1, servers=2) as tasks:
                ends = tasks.wait()
            self.check(SEED, ends, 300, [])
            cuts = sum(ends[f"ps {index}"][2].count("chief 0 is lost") for index in (0, 1))
            renewed = ends["chief 0"][2].count("it is connected to again")
            print(f"cut every {every_ms} ms {more}: {cuts} connections, of which the chief missed {renewed}", flush=True)
            self.assertGreater(cuts, 5)
            self.assertGreater(renewed, 5)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
