#!/usr/bin/env python3
"""Loses and regains processes of one run: elastic_test.py TUTTI ELASTIC_MEMBER."""

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

TUTTI, MEMBER = sys.argv[1:3]
LAUNCHERS = ("TUTTI_", "TF_CONFIG", "RANK", "WORLD_SIZE", "PET_", "OMPI_", "PMI_", "SLURM_", "JOB_COMPLETION", "DTENSOR_")
CLEAN = {name: value for name, value in os.environ.items() if not name.startswith(LAUNCHERS)}
STEPS = 40


def launch(*arguments, timeout=100):
    return subprocess.run([TUTTI, "launch", *map(str, arguments)], env=CLEAN, capture_output=True, text=True,
                          timeout=timeout)


def ends(done):
    """What each process that ended well says of its steps: {(steps, count)}, and the sums of losses and weights."""
    found = re.findall(r"ended: (\d+) steps, count (\d+), sum of losses ([\d.e+-]+), weights ([\d.e+-]+)", done.stdout)
    return {(int(steps), int(count)) for steps, count, _, _ in found}, [(float(l), float(w)) for _, _, l, w in found]


class Elastic(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        done = launch("-n", 3, MEMBER, STEPS, "auto")
        assert done.returncode == 0, done.stderr
        _, cls.undisturbed = ends(done)

    def train(self, *faults, by="auto", options=("-n", 3, "--min", 2, "--restarts", 3), num_ends=3, steps=STEPS):
        done = launch(*options, MEMBER, steps, by, *faults)
        self.assertEqual(done.returncode, 0, done.stderr)
        counts, sums = ends(done)
        self.assertEqual(counts, {(steps, steps)}, done.stderr)  # in each process, each step was counted once
        self.assertEqual(len(sums), num_ends, done.stderr)
        for losses, weights in sums:
            self.assertAlmostEqual(losses, self.undisturbed[0][0], delta=1e-5 * self.undisturbed[0][0])
            self.assertAlmostEqual(weights, self.undisturbed[0][1], delta=1e-5)
        taken = [(int(step), int(replicas)) for step, replicas in
                 re.findall(r"^\[worker \d\] step (\d+) of (\d+) replicas", done.stdout, re.M)]
        return done, taken

    def test_one_of_three_is_lost_and_regained_and_no_step_is_lost_or_repeated(self):
        for rank, place in ((1, "begin"), (0, "gradients"), (2, "loss")):
            done, taken = self.train("die", rank, 8, place, steps=STEPS)
            self.assertEqual([step for step, _ in taken], list(range(STEPS)), (rank, place))
            replicas = [count for _, count in taken]
            self.assertEqual(replicas[:8], [3] * 8)
            self.assertEqual(replicas[8], 2, "those that are left go on at once")
            self.assertEqual(replicas[-1], 3, done.stderr)
            self.assertRegex(done.stderr, rf"\[launch\] worker {rank} .*signal 9.*it is started again, restart 1 of 3")

    def test_the_same_by_the_ring(self):
        self.train("die", 1, 8, "gradients", by="ring")

    def test_two_are_lost_one_after_the_other(self):
        self.train("die", 1, 5, "begin", "die", 2, 12, "begin")

    def test_two_are_lost_at_once_and_one_has_the_state(self):
        self.train("die", 1, 8, "begin", "die", 2, 8, "begin")

    def test_all_are_lost_and_begin_anew(self):
        self.train("die", 0, 8, "begin", "die", 1, 8, "begin", "die", 2, 8, "begin")

    def test_a_stopped_process_is_given_up(self):
        done, taken = self.train("stop", 1, 8, "begin", options=("-n", 3, "--min", 2), num_ends=2)
        self.assertEqual(taken[-1], (STEPS - 1, 2))
        self.assertRegex(done.stderr, "worker 1 .* died with signal 9")  # which the launcher sent

    def test_those_that_are_left_go_on_without_restarts(self):
        done, taken = self.train("die", 2, 8, "begin", options=("-n", 3, "--min", 2), num_ends=2)
        self.assertEqual(taken[-1], (STEPS - 1, 2))
        self.assertIn("the other 2 go on", done.stderr)

    def test_too_few_end(self):
        done = launch("-n", 2, "--min", 2, "--grace", 3, MEMBER, STEPS, "auto", "die", 1, 8, "begin")
        self.assertEqual(done.returncode, 128 + signal.SIGKILL, done.stderr)

    def test_who_throws_is_replaced(self):
        done, _ = self.train("throw", 1, 8, "begin")
        self.assertIn("[worker 1] data_loss: mine", done.stderr)

    def test_elsewhere_a_loss_is_the_end(self):
        done = launch("-n", 2, "--grace", 5, MEMBER, STEPS, "auto", "die", 1, 8, "begin")
        self.assertEqual(done.returncode, 128 + signal.SIGKILL)
        self.assertNotIn("goes on", done.stderr)

    def test_one_process_needs_no_cluster(self):
        done = subprocess.run([MEMBER, str(STEPS), "auto"], env=CLEAN, capture_output=True, text=True, timeout=60)
        self.assertEqual(ends(done)[0], {(STEPS, STEPS)}, done.stderr)

    def test_options_that_make_no_sense_are_refused(self):
        for options in (("-n", 2, "--min", 3), ("-n", 2, "--min", 1, "--ps", 1), ("-n", 2, "--min", -1)):
            done = launch(*options, "true")
            self.assertEqual(done.returncode, 2)
            self.assertIn("--min", done.stderr)


class SeveralHosts(unittest.TestCase):
    """Two commands that stand for two hosts, of two processes each."""

    def setUp(self):
        token = tempfile.NamedTemporaryFile()
        self.addCleanup(token.close)
        token.write(b"0123456789abcdef")
        token.flush()
        self.variables = CLEAN | {"TUTTI_TOKEN_FILE": token.name}
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.leader = f"127.0.0.1:{probe.getsockname()[1]}"
        self.hosts = []
        self.addCleanup(lambda: [host.kill() for host in self.hosts])

    def start(self, rank, *faults, options=("--min", 2, "--restarts", 3), steps=STEPS):
        arguments = ("--nodes", 2, "--node-rank", rank, "--leader", self.leader, "-n", 2, "--grace", 3, *options, MEMBER,
                     steps, "ring", *faults)
        self.hosts.append(subprocess.Popen([TUTTI, "launch", *map(str, arguments)], env=self.variables,
                                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        return self.hosts[-1]

    def end(self, *hosts):
        outputs = [host.communicate(timeout=100) for host in hosts]
        out, err = ("".join(texts) for texts in zip(*outputs))
        return subprocess.CompletedProcess([], [host.returncode for host in hosts], out, err)

    def expect_all_steps(self, done, num_ends, steps=STEPS):
        counts, sums = ends(done)
        self.assertEqual(counts, {(steps, steps)}, done.stderr)
        self.assertEqual(len(sums), num_ends, done.stderr)
        self.assertEqual(len(set(sums)), 1)

    def test_processes_of_either_host_are_lost_and_regained(self):
        faults = ("die", 3, 5, "begin", "die", 0, 15, "gradients")
        done = self.end(self.start(0, *faults), self.start(1, *faults))
        self.assertEqual(done.returncode, [0, 0], done.stderr)
        self.expect_all_steps(done, 4)
        for worker, attempt in ((3, 1), (0, 2)):  # restarts are counted over all hosts
            self.assertRegex(done.stderr, rf"\[launch\] worker {worker} .*signal 9.*started again, restart {attempt} of 3")
        steps = [int(step) for step in re.findall(r"step (\d+) of", done.stdout)]
        self.assertEqual(sorted(steps), list(range(STEPS)), "none is lost, none is repeated")

    def test_a_host_is_lost_and_comes_again(self):
        first, second = self.start(0, steps=300), self.start(1, steps=300)
        while "step 20 " not in (line := first.stdout.readline()):
            self.assertTrue(line, first.stderr.read() if first.poll() is not None else "")
        second.kill()
        second.communicate()
        while " of 2 replicas" not in first.stdout.readline():
            pass
        done = self.end(first, self.start(1, steps=300))
        self.assertEqual(done.returncode, [0, 0], done.stderr)
        self.expect_all_steps(done, 4, steps=300)
        self.assertIn(" of 4 replicas", done.stdout)

    def test_a_stopped_process_of_another_host_is_killed(self):
        faults = ("stop", 2, 8, "begin")
        options = ("--min", 2)
        done = self.end(self.start(0, *faults, options=options), self.start(1, *faults, options=options))
        self.assertEqual(done.returncode, [0, 0], done.stderr)
        self.expect_all_steps(done, 3)
        self.assertRegex(done.stderr, "worker 2 .* died with signal 9.*; the other 3 go on")

    def test_too_few_end_on_all_hosts(self):
        faults = ("die", 3, 8, "begin")
        options = ("--min", 4)
        done = self.end(self.start(0, *faults, options=options), self.start(1, *faults, options=options))
        self.assertEqual(done.returncode[1], 128 + signal.SIGKILL, done.stderr)
        self.assertNotEqual(done.returncode[0], 0, done.stderr)

    def test_a_command_that_is_not_of_the_run_is_told(self):
        first = self.start(0, options=("--min", 1), steps=300)
        other = subprocess.run([TUTTI, "launch", "--nodes", "3", "--node-rank", "2", "--leader", self.leader, "-n", "2", "--min",
                                "1", MEMBER, "3", "ring"], env=self.variables, capture_output=True, text=True, timeout=60)
        self.assertNotEqual(other.returncode, 0)
        self.assertIn("give all tasks the same one", other.stderr)
        first.kill()
        first.communicate()


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
