#!/usr/bin/env python3
"""Groups, training and faults by MPI: mpi_test.py Groups|Training|Faults|Missing TUTTI MPI_GROUPS_TEST MULTI_WORKER_TEST
TRAINING_MEMBER [MPI_MODULE MPI_MEMBER]. Exits with 77 where there is no mpirun, or no module as MPI's headers are missing."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

WHAT, TUTTI, GROUPS, TRAINING, MEMBER = sys.argv[1:6]
MODULE, MPI_MEMBER = sys.argv[6:8] or (None, None)
LAUNCHERS = ("TUTTI_", "TF_CONFIG", "RANK", "WORLD_SIZE", "PET_", "OMPI_", "PMI_", "PMIX_", "SLURM_", "JOB_COMPLETION",
             "DTENSOR_")
CLEAN = {name: value for name, value in os.environ.items() if not name.startswith(LAUNCHERS)} | {
    "OMP_NUM_THREADS": "1", "MULTI_WORKER_BY": "mpi"}

MPIRUN = ("mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--tag-output")


def mpirun(count, *command, options=(), variables={}, timeout=280):
    """What `count` processes print and how the job ends; a job that hangs fails."""
    return subprocess.run([*MPIRUN, *options, "-n", str(count), *map(str, command)], env=CLEAN | variables,
                          capture_output=True, text=True, timeout=timeout, stdin=subprocess.DEVNULL)


class Groups(unittest.TestCase):
    def test_every_promise_of_groups_holds(self):
        for count in (1, 2, 4):
            with tempfile.TemporaryDirectory() as folder:
                done = mpirun(count, GROUPS, "--gtest_brief=1", "--gtest_color=no", variables={"TUTTI_SHARED_ARRAYS": folder})
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            passed = re.findall(r"\[  PASSED  \] (\d+) tests", done.stdout)
            self.assertEqual(len(passed), count, done.stdout)
            self.assertGreater(int(passed[0]), 15)


class Training(unittest.TestCase):
    def test_all_tests_of_training_hold(self):
        done = mpirun(2, TRAINING, "--gtest_brief=1", "--gtest_color=no")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(len(re.findall(r"\[  PASSED  \]", done.stdout)), 2, done.stdout)


class Faults(unittest.TestCase):
    """As multi_worker_launch_test.py has them, but that mpirun ends a job that has lost a process."""

    def told(self, done, worker):
        found = re.search(rf"^\[1,{worker}\]<stderr>:after ([\d.e-]+) s (.*)$", done.stderr, re.M)
        self.assertIsNotNone(found, done.stderr)
        return float(found[1]), found[2]

    def test_a_death_ends_the_job(self):
        begin = time.monotonic()
        done = mpirun(3, MEMBER, "die", 1)
        self.assertNotEqual(done.returncode, 0)
        self.assertLess(time.monotonic() - begin, 20)

    def test_a_death_is_named_where_mpirun_lets_the_others_live(self):
        done = mpirun(3, MEMBER, "die", 1, options=("--enable-recovery",))
        for survivor in (0, 2):
            seconds, text = self.told(done, survivor)
            self.assertLess(seconds, 5)
            self.assertIn("unavailable: ", text)
            self.assertIn("rank 1 is worker 1", text)
            self.assertIn("'gather'", text)

    def test_a_stopped_process_is_named_at_the_deadline_and_nobody_waits_for_it_at_the_end(self):
        begin = time.monotonic()
        done = mpirun(2, MEMBER, "stop", 1)
        seconds, text = self.told(done, 0)
        self.assertLess(seconds, 6)
        self.assertIn("deadline_exceeded: ", text)
        self.assertIn("rank 1 is worker 1", text)
        self.assertNotEqual(done.returncode, 0)
        self.assertLess(time.monotonic() - begin, 30)

    def test_processes_that_diverge_are_both_named(self):
        done = mpirun(2, MEMBER, "diverge")
        for worker in (0, 1):
            _, text = self.told(done, worker)
            self.assertIn("failed_precondition: ", text)
            self.assertIn("all_gather", text)
            self.assertIn("all_reduce", text)

    def test_who_throws_ends_and_the_others_are_told(self):
        done = mpirun(2, MEMBER, "throw", options=("--enable-recovery",))
        self.assertIn("data_loss: mine", self.told(done, 1)[1])
        self.assertIn("unavailable: ", self.told(done, 0)[1])

    def test_a_training_has_the_bits_of_the_ring_though_ranks_go_the_other_way_round(self):
        port = 20000 + os.getpid() % 20000  # a name: nobody listens there
        config = '{"cluster": {"worker": ["localhost:%d", "localhost:%d"]}, "task": {"type": "worker", "index": %%d}}'
        script = 'export TF_CONFIG=$(printf "$0" $((1 - OMPI_COMM_WORLD_RANK))); exec "$@"'
        the_other_way = ("sh", "-c", script, config % (port, port + 1))
        ends = []
        for command, variables in (((*MPIRUN, "-n", "2"), {}), ((*MPIRUN, "-n", "2", *the_other_way), {}),
                                   ((TUTTI, "launch", "-n", "2"), {"MULTI_WORKER_BY": "ring"})):
            with tempfile.TemporaryDirectory() as folder:
                done = subprocess.run([*command, MEMBER, "train", folder, "23"], env=CLEAN | variables,
                                      capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            ends += re.findall(r"ended with (\d+)", done.stdout)
        self.assertEqual(len(ends), 6)
        self.assertEqual(len(set(ends)), 1, ends)

    def test_a_program_may_use_mpi_itself(self):
        done = mpirun(2, MPI_MEMBER, "own")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(done.stdout.count("100 sums"), 2)
        self.assertEqual(done.stderr.count("unavailable: "), 2, done.stderr)
        self.assertIn("MPI_Finalize() was called", done.stderr)

    def test_an_mpi_that_cannot_be_used_is_refused(self):
        for action, text in (("single", "MPI_THREAD_SERIALIZED"), ("over", "MPI_Finalize() was called")):
            done = mpirun(2, MPI_MEMBER, action)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("failed_precondition: MPI: ", done.stderr)
            self.assertIn(text, done.stderr)


class Missing(unittest.TestCase):
    """What is said without the module, and without mpirun."""

    def launch(self, member, variables={}):
        return subprocess.run([TUTTI, "launch", "-n", "2", "--grace", "5", member, "diverge"], env=CLEAN | variables,
                              capture_output=True, text=True, timeout=120)

    def test_without_the_module_the_way_out_is_told(self):
        with tempfile.TemporaryDirectory() as folder:
            alone = Path(folder) / "member"
            shutil.copy(MEMBER, alone)
            done = self.launch(alone)
        self.assertNotEqual(done.returncode, 0)
        for text in ("not_found: ", "libtutti_mpi.so", "libopenmpi-dev", "TUTTI_MPI_MODULE", "CommunicationImplementation::ring"):
            self.assertIn(text, done.stderr)

    @unittest.skipUnless(MODULE, "the module for MPI was not built")
    def test_without_mpirun_the_way_out_is_told(self):
        done = self.launch(MEMBER, {"TUTTI_MPI_MODULE": MODULE})
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("failed_precondition: MPI knows 1 process, and 2 train together", done.stderr)


if __name__ == "__main__":
    if WHAT != "Missing" and not (MODULE and shutil.which("mpirun")):
        print("skipped: mpirun is not here" if MODULE else "skipped: the module for MPI was not built")
        sys.exit(77)
    unittest.main(argv=[sys.argv[0], WHAT])
