#!/usr/bin/env python3
"""Trains a module of LibTorch with LibTorch's optimizers on parameter servers: served_torch_test.py TUTTI MEMBER."""

import shutil
import sys
import tempfile
import unittest
from pathlib import Path

from served_test import MEMBER, alone, launch, numbers

OPTIMIZERS = ("sgd", "sparse", "momentum", "nesterov", "adam", "amsgrad", "adamw", "adagrad", "rmsprop")


class ServedTorch(unittest.TestCase):
    def folder(self):
        made = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, made)
        return made

    def test_each_optimizer_gives_one_devices_losses_bit_for_bit(self):
        self.check_each(launch(MEMBER, self.folder(), workers=1, servers=2), nearly=["sparse"])

    def test_each_optimizer_gives_them_of_a_worker_without_copies_of_tables(self):
        self.check_each(launch(MEMBER, self.folder(), "--rows-alone", workers=1, servers=2),
                        nearly=["sparse"])

    def check_each(self, done, nearly):
        expected = alone(self.folder())
        self.assertEqual(done.returncode, 0, done.stderr)
        for name in OPTIMIZERS:
            losses = numbers(f"{name} loss", done.stdout)
            self.assertEqual(len(losses), 16, name)
            if name in nearly:  # of sparse ones a row's are added up before they travel
                for mine, one in zip(losses, numbers(f"{name} loss", expected)):
                    self.assertAlmostEqual(mine, one, delta=1e-6)
            else:
                self.assertEqual(losses, numbers(f"{name} loss", expected), name)
            self.assertEqual(losses[7:10], losses[13:], f"{name}: a checkpoint that is restored goes on as it did")
            self.assertLess(min(losses), losses[0], name)

    def test_lbfgs_is_refused_by_name(self):
        done = launch(MEMBER, self.folder(), workers=1, servers=1)
        self.assertRegex(done.stdout, r"unimplemented: .*torch::optim::LBFGS cannot be on servers: a step of it")
        self.assertNotIn("LBFGS", alone(self.folder()))

    def test_two_workers_that_meet_before_each_update_give_those_of_one_with_the_sum(self):
        expected = numbers("loss", alone(self.folder(), "--meet"))
        done = launch(MEMBER, self.folder(), "--meet", workers=2, servers=2)
        self.assertEqual(done.returncode, 0, done.stderr)
        losses = numbers("loss", done.stdout)
        self.assertEqual(len(losses), 10)
        for mine, one in zip(losses, expected):
            self.assertAlmostEqual(mine, one, delta=1e-6)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
