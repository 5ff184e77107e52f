#!/usr/bin/env python3
"""Estimators on parameter servers, a process for each task: served_estimator_test.py TUTTI SERVED_ESTIMATOR_MEMBER."""

import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from served_test import CLEAN, Tasks, launch

MEMBER = sys.argv[2]
STEPS = 60


def variables(text):
    return {name: float(number) for name, number in re.findall(r"\bvariable (\S+) (\S+)$", text, re.M)}


def newest_checkpoint(folder):
    return max((int(path.name[5:]) for path in folder.glob("ckpt-*") if path.name[5:].isdigit()), default=0)


class ServedEstimator(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp())

    def tearDown(self):
        shutil.rmtree(self.folder)

    def test_one_worker_learns_what_one_process_learns(self):
        alone = subprocess.run([MEMBER, self.folder / "alone"], env=CLEAN, capture_output=True, text=True, check=True)
        expected = variables(alone.stdout)
        self.assertGreater(len(expected), 10)
        self.assertEqual(expected["global_step"], STEPS)
        with Tasks([MEMBER, self.folder / "served"], workers=1, servers=2, evaluator=True) as tasks:
            ends = tasks.wait()
        for name, (code, _, err) in ends.items():
            self.assertEqual(code, 0, f"{name}: {err}")
        self.assertEqual(variables(ends["chief 0"][1]), expected)
        self.assertIn(f"evaluated {STEPS}", ends["evaluator 0"][1])
        for name in "worker 0", "ps 0", "ps 1":
            self.assertNotIn("Saving checkpoints", ends[name][2])

    def test_several_workers_make_as_many_steps_in_all(self):
        done = launch(MEMBER, self.folder, workers=2, servers=2)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(variables(done.stdout)["global_step"], STEPS)
        self.assertEqual(newest_checkpoint(self.folder), STEPS)

    def test_it_ends_where_the_input_does_with_a_checkpoint_of_all_steps(self):
        done = launch(MEMBER, self.folder, "0", "2", workers=1, servers=1)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(variables(done.stdout)["global_step"], 10 + 16)
        self.assertEqual(newest_checkpoint(self.folder), 10 + 16)

    def test_a_killed_worker_is_done_without(self):
        with Tasks([MEMBER, self.folder, "30"], workers=2, servers=1) as tasks:
            self.wait_for_step(tasks, 30)
            tasks.kill("worker 1")
            ends = tasks.wait()
        self.assertEqual(ends["chief 0"][0], 0, ends["chief 0"][2])
        self.assertEqual(variables(ends["chief 0"][1])["global_step"], STEPS)

    def test_it_goes_on_from_the_checkpoint_after_a_server_was_killed(self):
        with Tasks([MEMBER, self.folder, "100"], workers=1, servers=2) as tasks:
            self.wait_for_step(tasks, 30)
            tasks.kill("ps 1")
            ends = tasks.wait()
        self.assertNotEqual(ends["chief 0"][0], 0)
        self.assertLess(newest_checkpoint(self.folder), STEPS)
        with Tasks([MEMBER, self.folder], workers=2, servers=1) as tasks:
            ends = tasks.wait()
        self.assertEqual(ends["chief 0"][0], 0, ends["chief 0"][2])
        self.assertIn("Restoring parameters from", ends["chief 0"][2])
        self.assertEqual(variables(ends["chief 0"][1])["global_step"], STEPS)

    def wait_for_step(self, tasks, step):
        for line in tasks.processes["chief 0"].stderr:
            if f"Saving checkpoints for {step} " in line:
                return
        self.fail("the chief ended before")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
