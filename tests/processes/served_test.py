#!/usr/bin/env python3
"""Trains with a chief, workers and parameter servers in processes of their own, which are lost and disagree:
served_test.py TUTTI SERVED_MEMBER."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

TUTTI, MEMBER = sys.argv[1:3]
LAUNCHERS = ("TUTTI_", "TF_CONFIG", "RANK", "WORLD_SIZE", "PET_", "OMPI_", "PMI_", "PMIX_", "SLURM_", "JOB_COMPLETION",
             "DTENSOR_")
CLEAN = {name: value for name, value in os.environ.items() if not name.startswith(LAUNCHERS)} | {"OMP_NUM_THREADS": "1"}


def free_ports(count):
    """That nobody had a moment ago."""
    probes = [socket.socket() for _ in range(count)]
    for probe in probes:
        probe.bind(("127.0.0.1", 0))
    ports = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    return ports


class Tasks:
    """The processes of a cluster that TF_CONFIG tells each of them, by name: "ps 1"."""

    def __init__(self, command, workers, servers, evaluator=False, environments=None):
        ports = iter(free_ports(1 + workers + servers))
        counts = {"chief": 1, "worker": workers, "ps": servers}
        spec = {job: [f"127.0.0.1:{next(ports)}" for _ in range(count)] for job, count in counts.items()}
        self.command, self.environments = command, environments or {}
        self.configs, self.processes = {}, {}
        for job, count in (counts | {"evaluator": int(evaluator)}).items():
            for index in range(count):
                name = f"{job} {index}"
                self.configs[name] = json.dumps({"cluster": spec, "task": {"type": job, "index": index}})
                self.start(name)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for name in self.processes:
            self.end(name)

    def start(self, name):
        """A process of the task; one that it had has ended."""
        if name in self.processes:
            self.end(name)
        environment = CLEAN | {"TF_CONFIG": self.configs[name]} | self.environments.get(name, {})
        self.processes[name] = subprocess.Popen(self.command, env=environment, stdout=subprocess.PIPE,
                                                stderr=subprocess.PIPE, text=True)

    def end(self, name):
        process = self.processes[name]
        process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()

    def kill(self, name):
        self.processes[name].send_signal(signal.SIGKILL)

    def wait(self):
        """{name: (exit code, stdout, stderr)}."""
        ends = {}
        for name, process in self.processes.items():
            out, err = process.communicate(timeout=120)
            ends[name] = (process.returncode, out, err)
        return ends

    def wait_for(self, text):
        """Until the chief has printed it."""
        for line in self.processes["chief 0"].stdout:
            if text in line:
                return
        raise AssertionError("the chief ended before: " + self.processes["chief 0"].stderr.read())


def launch(*command, workers=2, servers=2, restarts=0, timeout=120):
    return subprocess.run([TUTTI, "launch", "--chief", "-n", str(workers), "--ps", str(servers), "--grace", "5",
                           "--restarts", str(restarts),
                           *map(str, command)], env=CLEAN, capture_output=True, text=True, timeout=timeout)


def alone(*arguments):
    return subprocess.run([MEMBER, *map(str, arguments)], env=CLEAN, capture_output=True, text=True, timeout=120,
                          check=True).stdout


def numbers(name, text):
    return [float(number) for number in re.findall(rf"\b{name} (-?[\d.e+-]+)$", text, re.M)]


class Served(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

    def check_same(self, text, expected):
        for name in ("loss", "batches"):
            self.assertEqual(numbers(name, text), numbers(name, expected), name)
        for name in ("sum", "mean"):  # with averages that are sums of differences
            self.assertAlmostEqual(numbers(name, text)[0], numbers(name, expected)[0], delta=1e-5)

    def test_one_worker_gives_one_devices_losses_step_by_step(self):
        expected = alone()
        self.assertEqual(len(numbers("loss", expected)), 20)
        done = launch(MEMBER, workers=1, servers=2)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.check_same(done.stdout, expected)

    def test_tf_config_gives_the_same(self):
        with Tasks([MEMBER], workers=1, servers=2) as tasks:
            ends = tasks.wait()
        for name, (code, _, err) in ends.items():
            self.assertEqual(code, 0, f"{name}: {err}")
        self.check_same(ends["chief 0"][1], alone())

    def test_gradients_that_are_sparse_give_the_same(self):
        done = launch(MEMBER, "--sparse", workers=1, servers=2)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.check_same(done.stdout, alone("--sparse"))

    def test_a_worker_without_copies_of_tables_gives_the_same(self):
        done = launch(MEMBER, "--rows-alone", workers=1, servers=2)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.check_same(done.stdout, alone())
        done = launch(MEMBER, "--rows-alone", "--sparse", workers=1, servers=2)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.check_same(done.stdout, alone("--sparse"))

    def test_a_worker_without_copies_of_tables_refuses_to_read_one(self):
        done = launch(MEMBER, "--rows-alone", "--reads-table", workers=1, servers=2)
        self.assertRegex(done.stderr, r"chief 0: failed_precondition: a worker's function reads variable 0 of shape "
                                      r"\[50, 4\], 800 bytes, of which it has no copy: largest_copy_bytes of the "
                                      r"strategy is 256")

    def test_a_stopped_worker_is_given_up_and_counts_no_more_when_it_wakes(self):
        with Tasks([MEMBER, "--steps", "400", "--slow", "25"], workers=2, servers=2) as tasks:
            tasks.wait_for("has begun")
            time.sleep(1)
            tasks.processes["worker 1"].send_signal(signal.SIGSTOP)
            time.sleep(7)
            tasks.processes["worker 1"].send_signal(signal.SIGCONT)
            ends = tasks.wait()
        for name, (code, out, err) in ends.items():
            self.assertEqual(code, 0, f"{name}: {err}")
            self.assertIn("made 400 updates", out)
        self.assertRegex(ends["chief 0"][2], "worker 1 is lost: nothing has come .* are called again")

    def test_all_tasks_go_on_with_the_coordinators_result(self):
        done = launch(MEMBER, "--steps", 60)
        self.assertEqual(done.returncode, 0, done.stderr)
        for task in ("chief 0", "worker 0", "worker 1", "ps 0", "ps 1"):
            self.assertIn(f"{task} made 60 updates", done.stdout)
        self.assertEqual(numbers("batches", done.stdout), [60])

    def check_killed_worker(self, option):
        crashed = self.folder / "crashed"
        done = launch(MEMBER, "--steps", 40, option, 11, crashed)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(crashed.exists())
        self.assertIn("chief 0 made 40 updates", done.stdout)
        self.assertEqual(len(numbers("loss", done.stdout)), 40)
        self.assertRegex(done.stderr, r"worker [01] \(process \d+\) died with signal 9.*1 workers are left, and go on")

    def test_the_functions_of_a_killed_worker_are_called_again(self):
        self.check_killed_worker("--crash-before")

    def test_what_a_killed_worker_had_pushed_counts_once(self):
        self.check_killed_worker("--crash-after")

    def test_without_a_worker_the_chief_says_so(self):
        done = launch(MEMBER, "--crash-before", 3, self.folder / "crashed", workers=1)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("worker 0", done.stderr)
        with Tasks([MEMBER, "--crash-before", "3", str(self.folder / "again")], workers=1, servers=1) as tasks:
            ends = tasks.wait()
        self.assertEqual(ends["chief 0"][0], 3)
        self.assertRegex(ends["chief 0"][2], "unavailable: .*no worker is left.*worker 0 is lost")

    def test_the_launcher_starts_a_killed_worker_again_which_is_taken_in(self):
        crashed = self.folder / "crashed"
        done = launch(MEMBER, "--crash-before", 11, crashed, "--lost-after", 60, workers=1, restarts=1)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(crashed.exists())
        self.check_same(done.stdout, alone())
        self.assertRegex(done.stderr, r"worker 0 \(process \d+\) died with signal 9.*it is started again, restart 1 of 1")
        self.assertIn("worker 0 has come again; there are 1", done.stderr)
        self.assertIn("worker 0 made 20 updates", done.stdout)

    def test_a_worker_that_is_started_again_by_hand_is_taken_in(self):
        with Tasks([MEMBER, "--crash-before", "11", str(self.folder / "crashed"), "--lost-after", "60"], workers=1,
                   servers=2) as tasks:
            self.assertEqual(tasks.processes["worker 0"].wait(timeout=60), -signal.SIGKILL)
            tasks.start("worker 0")
            ends = tasks.wait()
        for name, (code, out, err) in ends.items():
            self.assertEqual(code, 0, f"{name}: {err}")
            self.assertIn("made 20 updates", out)
        self.check_same(ends["chief 0"][1], alone())
        self.assertIn("worker 0 has come again; there are 1", ends["chief 0"][2])

    def test_a_killed_server_is_named_and_ends_all(self):
        with Tasks([MEMBER, "--steps", "100000", "--slow", "1"], workers=2, servers=2) as tasks:
            tasks.wait_for("has begun")
            tasks.kill("ps 1")
            begin = time.monotonic()
            ends = tasks.wait()
        self.assertLess(time.monotonic() - begin, 60)
        self.assertEqual(ends["chief 0"][0], 3)
        self.assertRegex(ends["chief 0"][2], "chief 0: unavailable: ps 1 is lost")
        self.assertTrue(all(code != 0 for code, _, _ in ends.values()))

    def test_a_restart_after_a_lost_server_goes_on_from_the_checkpoint(self):
        done = launch(MEMBER, "--steps", 60, "--slow", 20, "--checkpoints", self.folder / "saved", "--crash-server",
                      self.folder / "crashed", workers=1, servers=2, restarts=1)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("all are started again, restart 1 of 1", done.stderr)
        self.assertEqual(numbers("loss", done.stdout), numbers("loss", alone("--steps", 60)))

    def test_a_killed_chief_ends_all(self):
        with Tasks([MEMBER, "--steps", "100000", "--slow", "1"], workers=2, servers=2) as tasks:
            tasks.wait_for("has begun")
            tasks.kill("chief 0")
            begin = time.monotonic()
            ends = tasks.wait()
        self.assertLess(time.monotonic() - begin, 60)
        for name in ("worker 0", "worker 1", "ps 0", "ps 1"):
            self.assertEqual(ends[name][0], 3, ends[name])
            self.assertIn("chief 0 is lost", ends[name][2])

    def test_a_stopped_server_is_lost_after_a_while(self):
        with Tasks([MEMBER, "--steps", "100000", "--slow", "1"], workers=1, servers=2) as tasks:
            tasks.wait_for("has begun")
            tasks.processes["ps 0"].send_signal(signal.SIGSTOP)
            process = tasks.processes["chief 0"]
            _, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 3)
        self.assertIn("unavailable: ps 0 is lost: nothing has come from it for 5000 ms", err)

    def test_tasks_that_make_different_things_are_refused_with_the_first_that_differs(self):
        for task in ("worker 1", "ps 0", "chief 0"):
            with Tasks([MEMBER, "--different", task], workers=2, servers=2) as tasks:
                ends = tasks.wait()
            self.assertTrue(all(code == 3 for code, _, _ in ends.values()), ends)
            self.assertIn("failed_precondition: the tasks have not made the same", ends["chief 0"][2])
            self.assertRegex(ends["chief 0"][2], r"float32 \[3\]|Float \[3\]")

    def test_a_definition_that_differs_is_named_with_its_line_in_both_tasks(self):
        with Tasks([MEMBER, "--renamed", "worker 0"], workers=1, servers=1) as tasks:
            ends = tasks.wait()
        for name in ("chief 0", "worker 0"):
            self.assertRegex(ends[name][2], r"worker 0 has function 'jump', .* made at served_member.cpp:\d+ where "
                                            r"chief 0 has function 'step', .* made at served_member.cpp:\d+;")

    def test_an_error_of_a_function_is_the_coordinators_and_ends_the_run_of_all(self):
        with Tasks([MEMBER, "--fail", "7"], workers=2, servers=1) as tasks:
            ends = tasks.wait()
        self.assertIn("chief 0: data_loss: a bad record", ends["chief 0"][2])
        for name in ("worker 0", "worker 1", "ps 0"):
            self.assertIn("cancelled: ", ends[name][2])
            self.assertIn("a bad record", ends[name][2])

    def test_a_write_in_place_to_a_workers_copy_is_refused(self):
        with Tasks([MEMBER, "--writes"], workers=1, servers=1) as tasks:
            ends = tasks.wait()
        self.assertRegex(ends["chief 0"][2], "failed_precondition: a worker's function wrote in place to variable")

    def test_a_checkpoint_goes_on_with_any_number_of_servers_and_without_a_cluster(self):
        whole = numbers("loss", alone("--steps", 30, "--checkpoints", self.folder / "whole"))
        parts = []
        for servers in (2, 3):
            done = launch(MEMBER, "--steps", 10, "--checkpoints", self.folder / "parts", workers=1, servers=servers)
            self.assertEqual(done.returncode, 0, done.stderr)
            parts += numbers("loss", done.stdout)
        parts += numbers("loss", alone("--steps", 10, "--checkpoints", self.folder / "parts"))
        self.assertEqual(parts, whole)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
