#!/usr/bin/env python3
"""Starts the example `multi_worker` in every way that its first lines tell, each with the same losses:
multi_worker_program_test.py TUTTI MULTI_WORKER [MPI_MODULE]."""

import os
import re
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TUTTI, PROGRAM = sys.argv[1:3]
MPI_MODULE = sys.argv[3:]
LAUNCHERS = ("TUTTI_", "TF_CONFIG", "RANK", "WORLD_SIZE", "PET_", "OMPI_", "PMI_", "PMIX_", "SLURM_", "JOB_COMPLETION",
             "DTENSOR_")
CLEAN = {name: value for name, value in os.environ.items() if not name.startswith(LAUNCHERS)} | {"OMP_NUM_THREADS": "1"}
STEPS = 30


def write_mnist(folder):
    """256 pictures of ten kinds to learn from, 64 to test with, in IDX files."""
    for name, count in (("train", 256), ("t10k", 64)):
        labels = bytes(i % 10 for i in range(count))
        images = b"".join(bytes(255 if pixel % 10 == label else (pixel * 7 + i) % 64 for pixel in range(784))
                          for i, label in enumerate(labels))
        (folder / f"{name}-images-idx3-ubyte").write_bytes(struct.pack(">iiii", 2051, count, 28, 28) + images)
        (folder / f"{name}-labels-idx1-ubyte").write_bytes(struct.pack(">ii", 2049, count) + labels)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Program(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = Path(tempfile.mkdtemp())
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        (cls.folder / "mnist").mkdir()
        write_mnist(cls.folder / "mnist")
        cls.expected = {}  # what one process says, by the number of its replicas

    def command(self, *arguments):
        checkpoints = tempfile.mkdtemp(dir=self.folder)
        return [PROGRAM, "--checkpoints", checkpoints, "--data", str(self.folder / "mnist"), "--steps", str(STEPS),
                *arguments]

    def run_all(self, processes):
        """Runs commands, each with its variables, at once; what they print together."""
        started = [subprocess.Popen(command, env=CLEAN | variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                    text=True) for command, variables in processes]
        ends = [process.communicate(timeout=120) for process in started]
        for process, (_, err) in zip(started, ends):
            self.assertEqual(process.returncode, 0, err)
        return "".join(out for out, _ in ends)

    def numbers(self, text):
        """(replicas, accuracy, steps, loss) of the one process that prints."""
        found = re.findall(r"Number of devices: (\d+)|test accuracy: ([\d.]+)|after (\d+) steps: loss ([\d.e+-]+)", text)
        self.assertEqual(len(found), 3, text)
        return int(found[0][0]), float(found[1][1]), int(found[2][2]), float(found[2][3])

    def check(self, text, replicas):
        """As one process with as many replicas."""
        if replicas not in self.expected:
            self.expected[replicas] = self.numbers(self.run_all([(self.command("--replicas", str(replicas)), {})]))
        ours, expected = self.numbers(text), self.expected[replicas]
        self.assertEqual((ours[0], ours[2]), (replicas, STEPS))
        self.assertAlmostEqual(ours[1], expected[1], delta=1e-6)
        self.assertAlmostEqual(ours[3], expected[3], delta=1e-5 * expected[3])

    def test_by_our_launcher(self):
        for count in (1, 2, 4):
            self.check(self.run_all([([TUTTI, "launch", "-n", str(count), *self.command()], {})]), count)

    def test_by_tf_config(self):
        for count in (1, 2):
            workers = ", ".join(f'"localhost:{free_port()}"' for _ in range(count))
            config = '{"cluster": {"worker": [%s]}, "task": {"type": "worker", "index": %d}}'
            command = self.command()
            self.check(self.run_all([(command, {"TF_CONFIG": config % (workers, i)}) for i in range(count)]), count)

    def test_by_torchrun(self):
        port, command = str(free_port()), self.command()
        self.check(self.run_all([(command, {"RANK": str(i), "LOCAL_RANK": str(i), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2",
                                            "MASTER_ADDR": "localhost", "MASTER_PORT": port}) for i in range(2)]), 2)

    def test_by_srun_on_one_host(self):
        command = self.command()
        step = {"SLURM_JOB_ID": str(os.getpid()), "SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_NUM_NODES": "1",
                "SLURM_STEP_NODELIST": "localhost", "SLURM_STEP_TASKS_PER_NODE": "2", "SLURM_NTASKS": "2"}
        self.check(self.run_all([(command, step | {"SLURM_PROCID": str(i)}) for i in range(2)]), 2)

    def test_by_what_mpichs_mpiexec_sets_on_one_host(self):
        """It names no job: the processes know each other by who started them, or a shell above them."""
        command, shell = self.command(), ["sh", "-c", '"$0" "$@"; exit $?']
        ranks = {"PMI_SIZE": "2", "MPI_LOCALNRANKS": "2"}
        self.check(self.run_all([(command, ranks | {"PMI_RANK": "0"}), ([*shell, *command], ranks | {"PMI_RANK": "1"})]), 2)

    @unittest.skipUnless(shutil.which("mpirun"), "mpirun is not here")
    def test_by_mpirun(self):
        self.check(self.run_all([(["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2", *self.command()],
                                  {})]), 2)

    @unittest.skipUnless(shutil.which("mpirun") and MPI_MODULE, "mpirun is not here, or the module was not built")
    def test_by_mpirun_and_mpi(self):
        for count in (2, 4):
            self.check(self.run_all([(["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", str(count),
                                       *self.command("--by", "mpi")], {})]), count)

    def test_elastic(self):
        for launcher in ([], [TUTTI, "launch", "-n", "2"], [TUTTI, "launch", "-n", "2", "--min", "2"]):
            self.assertIn(f"elastic: {STEPS} steps", self.run_all([([*launcher, *self.command("--elastic")], {})]))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
