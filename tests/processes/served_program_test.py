#!/usr/bin/env python3
"""Starts the example `parameter_server` with workers and servers: served_program_test.py TUTTI PARAMETER_SERVER."""

import os
import re
import subprocess
import sys
import tempfile
import unittest

from served_test import CLEAN, MEMBER, TUTTI, Tasks

CLUSTER = ("--chief", "--workers", "2", "--grace", "5")


def launch(servers, *arguments, tasks=()):
    return subprocess.run([TUTTI, "launch", *CLUSTER, "--ps", str(servers), *tasks, MEMBER, *map(str, arguments)],
                          env=CLEAN, capture_output=True, text=True, timeout=280)


class Program(unittest.TestCase):
    def accuracy(self, name, text):
        found = re.search(rf"{name}: accuracy ([\d.]+)|{name}: ([\d.]+)", text)
        self.assertTrue(found, text)
        return float(found[1] or found[2])

    def test_two_workers_and_servers_learn_as_one_process_does_and_go_on_with_other_servers(self):
        with tempfile.TemporaryDirectory() as folder:
            done = launch(2, "--checkpoints", folder)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertGreaterEqual(self.accuracy("accuracy of new clicks", done.stdout), 0.70)
            self.assertGreaterEqual(self.accuracy("fit", done.stdout), 0.72)
            done = launch(1, "--checkpoints", folder, "--epochs", 6, "--steps", 20)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(re.findall(r"epoch (\d+):", done.stdout), ["5", "6"])  # it saves an epoch before it counts it

    def test_an_evaluator_looks_at_the_checkpoints_of_fit_beside_it(self):
        with tempfile.TemporaryDirectory() as folder:
            done = launch(1, "--checkpoints", folder, "--epochs", 2, "--steps", 20, "--batch", 64, tasks=["--evaluator"])
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertGreater(self.accuracy("evaluator", done.stdout), 0.4)
            self.assertTrue(os.path.isdir(os.path.join(folder, "logs")))

    def test_tf_config_starts_the_same(self):
        with tempfile.TemporaryDirectory() as folder, Tasks(
                [MEMBER, "--checkpoints", folder, "--epochs", "2", "--steps", "20", "--batch", "64"], workers=2,
                servers=2) as tasks:
            for name, (code, out, err) in tasks.wait().items():
                self.assertEqual(code, 0, f"{name}: {err}")
                if name == "chief 0":
                    self.assertEqual(re.findall(r"^epoch (\d+):", out, re.M), ["1", "2"])
                    self.assertGreater(self.accuracy("fit", out), 0.4)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
