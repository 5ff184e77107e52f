#!/usr/bin/env python3
"""Trains with several processes that die, stop and diverge: multi_worker_launch_test.py TUTTI TRAINING_MEMBER
JUMPING_CLOCK."""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

TUTTI, MEMBER, JUMPING_CLOCK = sys.argv[1:4]
LAUNCHERS = ("TUTTI_", "TF_CONFIG", "RANK", "WORLD_SIZE", "PET_", "OMPI_", "PMI_", "SLURM_", "JOB_COMPLETION", "DTENSOR_")
CLEAN = {name: value for name, value in os.environ.items() if not name.startswith(LAUNCHERS)}


def launch(*arguments, timeout=120):
    return subprocess.run([TUTTI, "launch", *map(str, arguments)], env=CLEAN, capture_output=True, text=True,
                          timeout=timeout)


def told(done, worker):
    """(seconds, text) of the error that a worker printed."""
    found = re.search(rf"^\[worker {worker}\] after ([\d.e-]+) s (.*)$", done.stderr, re.M)
    assert found, done.stderr
    return float(found[1]), found[2]


class Faults(unittest.TestCase):
    def test_a_death_is_named_to_every_survivor_with_task_and_operation(self):
        done = launch("-n", 3, "--grace", 5, MEMBER, "die", 1)
        self.assertEqual(done.returncode, 128 + signal.SIGKILL)
        for survivor in (0, 2):
            seconds, text = told(done, survivor)
            self.assertLess(seconds, 5)
            self.assertIn("unavailable: ", text)
            self.assertIn("rank 1 is worker 1", text)
            self.assertIn("'gather'", text)
            self.assertIn("worker 1 died with signal 9", text)

    def expect_stopped_process_is_named(self, variables):
        with subprocess.Popen([TUTTI, "launch", "-n", "2", "--grace", "1", MEMBER, "stop", "1"], env=CLEAN | variables,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            _, err = process.communicate(timeout=60)
        done = subprocess.CompletedProcess([], process.returncode, "", err)
        seconds, text = told(done, 0)
        self.assertGreater(seconds, 2)
        self.assertLess(seconds, 6)
        self.assertIn("deadline_exceeded: ", text)
        self.assertIn("rank 1 is worker 1", text)

    def test_a_stopped_process_is_named_at_the_deadline(self):
        self.expect_stopped_process_is_named({})

    def test_a_deadline_is_one_of_the_steady_clock(self):
        clock = {"LD_PRELOAD": JUMPING_CLOCK, "ASAN_OPTIONS": "verify_asan_link_order=0"}
        self.expect_stopped_process_is_named(clock)
        self.expect_stopped_process_is_named(clock | {"MULTI_WORKER_BY": "ring"})

    def test_processes_that_diverge_are_both_named(self):
        done = launch("-n", 2, "--grace", 5, MEMBER, "diverge")
        for worker in (0, 1):
            _, text = told(done, worker)
            self.assertIn("failed_precondition: ", text)
            self.assertIn("all_gather", text)
            self.assertIn("all_reduce", text)

    def test_who_throws_ends_and_the_others_are_told(self):
        done = launch("-n", 2, "--grace", 5, MEMBER, "throw")
        self.assertIn("data_loss: mine", told(done, 1)[1])
        self.assertIn("unavailable: ", told(done, 0)[1])


class Restarts(unittest.TestCase):
    def setUp(self):
        self.folders = tempfile.TemporaryDirectory()
        self.addCleanup(self.folders.cleanup)

    def train(self, name, *arguments, options=("-n", 2)):
        done = launch(*options, MEMBER, "train", os.path.join(self.folders.name, name), 23, *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        ends = re.findall(r"ended with (\d+)", done.stdout)
        self.assertEqual(len(set(ends)), 1, done.stdout)
        return ends[0]

    def test_a_killed_process_costs_no_step(self):
        undisturbed = self.train("undisturbed")
        for rank, step in ((1, 7), (0, 12), (1, 20)):
            killed = self.train(f"{rank}_{step}", "die", rank, step, options=("-n", 2, "--restarts", 1, "--grace", 5))
            self.assertEqual(killed, undisturbed)

    def test_sigterm_to_one_process_saves_one_step_in_all(self):
        undisturbed = self.train("undisturbed")
        command = [TUTTI, "launch", "-n", "2", "--grace", "20", MEMBER, "train",
                   os.path.join(self.folders.name, "preempted"), "23"]
        with subprocess.Popen(command, env=CLEAN, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            steps = {0: [], 1: []}
            for line in process.stdout:
                worker, step, pid = map(int, re.match(r"\[worker (\d)\] at step (\d+) pid (\d+)", line).groups())
                steps[worker].append(step)
                if worker == 1 and step == 8:
                    os.kill(pid, signal.SIGTERM)
            self.assertEqual(process.wait(timeout=60), 143, process.stderr.read())
        self.assertEqual(steps[0], steps[1])
        self.assertLess(max(steps[0]), 22)
        self.assertEqual(self.train("preempted"), undisturbed)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
