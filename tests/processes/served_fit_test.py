#!/usr/bin/env python3
"""Keras's fit, evaluate and predict by a chief, workers and parameter servers in processes of their own:
served_fit_test.py TUTTI SERVED_FIT_MEMBER."""

import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from served_test import CLEAN, MEMBER, Tasks, launch

TASKS = ("chief 0", "worker 0", "worker 1", "ps 0", "ps 1")


def alone(*arguments):
    done = subprocess.run([MEMBER, *map(str, arguments)], env=CLEAN, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def numbers(text, what, task="chief 0"):
    """{name: [numbers]} of the lines of a task that begin with `what`."""
    found = {}
    for line in re.findall(rf"^(?:\[.*?\] )?{task}: {what}(.*)$", text, re.M):
        for name, number in re.findall(r"(\w+)=(\S+)", line):
            found.setdefault(name, []).append(float(number))
    return found


class ServedFit(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

    def launched(self, *arguments, workers=1, servers=2):
        done = launch(MEMBER, *arguments, workers=workers, servers=servers)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def check_same(self, text, expected):
        """Weights have the same bits; averages of BatchNormalization are sums of differences on servers."""
        for what in ("fit", "again", "evaluated", "predicted"):
            of_cluster, of_one = numbers(text, what), numbers(expected, what)
            self.assertEqual(of_cluster.keys(), of_one.keys())
            for name, values in of_one.items():
                for seen, wanted in zip(of_cluster[name], values, strict=True):
                    if name in ("loss", "mae") and what != "evaluated":
                        self.assertEqual(seen, wanted, f"{what} {name}")
                    else:
                        self.assertAlmostEqual(seen, wanted, delta=2e-5, msg=f"{what} {name}")

    def test_one_worker_gives_one_devices_numbers(self):
        expected = alone()
        self.assertEqual(len(numbers(expected, "fit")["val_mae"]), 3)
        self.check_same(self.launched().stdout, expected)

    def test_several_steps_of_an_execution_give_the_same(self):
        self.check_same(self.launched("--at-once", 3).stdout, alone("--at-once", 3))

    def test_an_unbuilt_model_is_built_by_the_first_batch_in_every_task(self):
        self.check_same(self.launched("--unbuilt").stdout, alone("--unbuilt"))

    def test_averages_of_weights_lie_on_servers(self):
        self.check_same(self.launched("--optimizer", "ema").stdout, alone("--optimizer", "ema"))

    def test_a_worker_without_copies_of_tables_gives_the_same(self):
        for more in ([], ["--unbuilt"], ["--optimizer", "ema"], ["--at-once", 3]):
            self.check_same(self.launched("--rows-alone", *more).stdout, alone(*more))

    def test_a_second_fit_goes_on_from_the_first(self):
        self.check_same(self.launched("--twice").stdout, alone("--twice"))

    def test_data_that_end_early_end_the_epoch_with_keras_warning(self):
        done = self.launched("--short")
        self.assertIn("Your input ran out of data", done.stderr)
        self.check_same(done.stdout, alone("--short"))

    def test_an_epoch_that_ends_with_the_data_is_followed_by_one_that_begins_anew(self):
        done = self.launched("--short", "--steps", 4)
        self.assertNotIn("ran out of data", done.stderr)
        self.check_same(done.stdout, alone("--short", "--steps", 4))

    def test_all_tasks_return_what_the_chief_does_and_callbacks_act_there(self):
        text = self.launched("--epochs", 2, workers=2).stdout
        for task in TASKS:
            for what in ("fit", "evaluated", "predicted"):
                self.assertTrue(numbers(text, what))
                self.assertEqual(numbers(text, what, task), numbers(text, what), f"{task}: {what}")
            self.assertIn(f"{task}: epochs {2 if task == 'chief 0' else 0} batches 0", text)
        fit = numbers(text, "fit")
        self.assertEqual(len(fit["loss"]), 2)
        for on_workers, here in zip(fit["val_loss"], fit["here"], strict=True):  # of the same weights
            self.assertAlmostEqual(on_workers, here, delta=1e-6)
        self.assertRegex(text, "chief 0: predicted 50 ")  # each sample once

    def test_a_killed_workers_steps_are_made_by_others(self):
        crashed = self.folder / "crashed"
        done = self.launched("--epochs", 2, "--steps", 20, "--slow", 5, "--crash", 6, crashed, workers=2)
        self.assertTrue(crashed.exists())
        self.assertRegex(done.stderr, r"worker [01] \(process \d+\) died with signal 9")
        self.assertEqual(len(numbers(done.stdout, "fit")["loss"]), 2)
        self.assertRegex(done.stdout, "chief 0: predicted 50 ")

    def test_a_backup_goes_on_with_other_servers_and_in_one_process(self):
        whole = numbers(alone("--epochs", 4), "fit")["loss"]
        backup = self.folder / "backup"
        first = numbers(self.launched("--epochs", 1, "--backup", backup, servers=2).stdout, "fit")["loss"]
        self.assertEqual(first, whole[:1])
        second = self.launched("--epochs", 3, "--backup", backup, servers=1).stdout
        third = alone("--epochs", 4, "--backup", backup)
        self.assertEqual(len(numbers(second, "fit")["loss"]), 2)
        self.assertEqual(len(numbers(third, "fit")["loss"]), 1)

    def check_refused(self, text, *arguments):
        with Tasks([MEMBER, *arguments], workers=1, servers=1) as tasks:
            for name, (code, _, err) in tasks.wait().items():
                self.assertEqual(code, 3, err)
                self.assertRegex(err, text, name)

    def test_what_servers_cannot_do_is_refused_by_name_in_every_task(self):
        self.check_refused("invalid_argument: fit: callback 2 does something at batches", "--batch-callback")
        self.check_refused("unimplemented: .*made of others", "--optimizer", "scaled")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
