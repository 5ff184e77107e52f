#!/usr/bin/env python3
"""Runs `tutti launch` and `tutti plan env`: launch_test.py TUTTI LAUNCHED_MEMBER JUMPING_CLOCK."""

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

TUTTI, MEMBER, JUMPING_CLOCK = sys.argv[1:4]
LAUNCHERS = ("TUTTI_", "TF_CONFIG", "RANK", "WORLD_SIZE", "PET_", "OMPI_", "PMI_", "SLURM_", "JOB_COMPLETION", "DTENSOR_")
CLEAN = {name: value for name, value in os.environ.items() if not name.startswith(LAUNCHERS)}


def run(*arguments, variables=None, timeout=60):
    """The finished process, with its lines as `out` and `err`."""
    done = subprocess.run([TUTTI, *map(str, arguments)], env=CLEAN | (variables or {}), capture_output=True, text=True,
                          timeout=timeout)
    done.out, done.err = done.stdout.splitlines(), done.stderr.splitlines()
    return done


def start(*arguments, variables=None):
    return subprocess.Popen([TUTTI, *map(str, arguments)], env=CLEAN | (variables or {}), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            text=True)


def launch(*arguments, **options):
    return run("launch", *arguments, **options)


def launch_line(done):
    """What the launcher itself said, but for the number of threads."""
    return [line for line in done.err if line.startswith("[launch]") and "OMP_NUM_THREADS" not in line]


class Launch(unittest.TestCase):
    def test_processes_meet_in_shared_memory(self):
        for count in (1, 2, 4):
            done = launch("-n", count, MEMBER, "sum")
            self.assertEqual(done.returncode, 0, done.stderr)
            total = count * (count + 1) // 2
            expected = [f"[worker {rank}] rank {rank} of {count}: {total}" for rank in range(count)]
            self.assertEqual(sorted(done.out), expected)

    def test_a_chief_is_rank_0_and_servers_are_no_members(self):
        done = launch("-n", 2, "--chief", "--ps", 1, "--evaluator", "sh", "-c",
                      f'case $TUTTI_CLUSTER in *\'"ps", "index"\'*|*\'"evaluator", "index"\'*) sleep 1;; esac; {MEMBER} sum')
        self.assertIn("[chief 0] rank 0 of 3: 6", done.out)
        self.assertIn("[worker 1] rank 2 of 3: 6", done.out)
        self.assertRegex(done.stderr, "(ps|evaluator) 0 does not train together with the workers")  # whichever is first

    def test_servers_are_stopped_when_those_who_work_have_ended(self):
        done = launch("-n", 1, "--ps", 2, "sh", "-c", 'case $TUTTI_CLUSTER in *\'"type": "ps"\'*) sleep 60;; esac')
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_death_is_named_and_its_status_returned(self):
        begin = time.monotonic()
        done = launch("-n", 3, MEMBER, "die", 1)
        self.assertLess(time.monotonic() - begin, 20)
        self.assertEqual(done.returncode, 128 + signal.SIGKILL)
        self.assertEqual(len(launch_line(done)), 1)
        self.assertRegex(launch_line(done)[0], r"^\[launch\] worker 1 \(process \d+\) died with signal 9 \(Killed\) after ")
        for survivor in (0, 2):
            said = [line for line in done.err if line.startswith(f"[worker {survivor}] unavailable: rank 1 (process ")]
            self.assertLessEqual(len(said), 1)  # the launcher's SIGTERM may come first

    def test_members_meet_at_barriers_and_one_is_first(self):
        done = launch("-n", 3, "--evaluator", MEMBER, "meet")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(done.out), 1)
        self.assertRegex(done.out[0], r"^\[(.*)\] \1 was first$")

    def test_survivors_hear_how_a_process_died(self):
        done = launch("-n", 3, MEMBER, "lose", 1)
        self.assertEqual(done.returncode, 128 + signal.SIGKILL)
        for survivor in (0, 2):
            self.assertIn(f"[worker {survivor}] unavailable: worker 1 died with signal 9 (Killed)", done.err)

    def test_restarts_begin_anew_with_all_processes(self):
        done = launch("-n", 2, "--restarts", 2, MEMBER, "die", 0)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted(done.out), ["[worker 0] rank 0 of 2: 3", "[worker 1] rank 1 of 2: 3"])
        self.assertIn("all are started again, restart 1 of 2", launch_line(done)[0])

    def test_restarts_end(self):
        done = launch("-n", 1, "--restarts", 2, "sh", "-c", "exit 7")
        self.assertEqual(done.returncode, 7)
        self.assertEqual(len(launch_line(done)), 3)
        self.assertRegex(launch_line(done)[-1], r"worker 0 \(process \d+\) exited with status 7 after \d")

    def test_lines_stay_whole_and_streams_apart(self):
        done = launch("-n", 2, "sh", "-c", "for i in 1 2 3; do printf 'a%s' $i; sleep 0.05; echo b; echo c >&2; done; printf end")
        for worker in (0, 1):
            self.assertEqual([line for line in done.out if line.startswith(f"[worker {worker}]")],
                             [f"[worker {worker}] {text}" for text in ("a1b", "a2b", "a3b", "end")])
            self.assertEqual(done.err.count(f"[worker {worker}] c"), 3)

    def test_a_line_without_end_is_broken_and_nothing_is_lost(self):
        done = launch("-n", 1, "sh", "-c", "head -c 1000000 /dev/zero | tr '\\0' x")
        self.assertEqual(sum(line.count("x") for line in done.out), 1_000_000)
        self.assertLessEqual(max(map(len, done.out)), 65536 + len("[worker 0] "))

    def test_signals_are_passed_on(self):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            process = start("launch", "-n", 2, "--restarts", 5, "sh", "-c",
                            f"trap 'echo saved; exit 143' {number.name[3:]}; echo ready; while :; do sleep 0.05; done")
            for _ in range(2):
                self.assertIn("ready", process.stdout.readline())
            process.send_signal(number)
            out, err = process.communicate(timeout=20)
            self.assertEqual(out.count("saved"), 2, out + err)
            self.assertEqual(process.returncode, 143)
            self.assertNotIn("started again", err)

    def test_a_second_signal_kills(self):
        process = start("launch", "-n", 2, "sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.05; done")
        for _ in range(2):
            self.assertIn("ready", process.stdout.readline())
        process.terminate()
        time.sleep(0.2)
        self.assertIsNone(process.poll())
        process.terminate()
        process.communicate(timeout=20)
        self.assertEqual(process.returncode, 128 + signal.SIGKILL)

    def test_grace_ends(self):
        done = launch("-n", 2, "--grace", 0.3, "sh", "-c",
                      "trap '' TERM; case $TUTTI_CLUSTER in *'\"index\": 1'*) exit 3;; esac; while :; do sleep 0.05; done",
                      timeout=20)
        self.assertEqual(done.returncode, 3)

    def test_processes_end_with_their_launcher(self):
        process = start("launch", "-n", 2, "sh", "-c", "echo $$; exec sleep 60")
        pids = [int(process.stdout.readline().split()[-1]) for _ in range(2)]
        process.kill()
        process.wait()
        deadline = time.monotonic() + 10
        while any(is_running(pid) for pid in pids) and time.monotonic() < deadline:
            time.sleep(0.02)
        self.assertFalse(any(is_running(pid) for pid in pids))
        process.communicate()

    def test_logs_go_to_files_too(self):
        with tempfile.TemporaryDirectory() as folder:
            launch("-n", 2, "--log-dir", Path(folder) / "logs", "sh", "-c", "echo out; echo err >&2")
            for worker in (0, 1):
                lines = (Path(folder) / f"logs/worker-{worker}.log").read_text().splitlines()
                self.assertEqual(sorted(lines), ["err", "out"])

    def test_mistakes_are_told(self):
        for arguments, text in (((), "which program?"), (("-n", 2), "which program?"),
                                (("true",), "nobody would train"), (("-n", 65, "true"), "1 to 64 members"),
                                (("-n", 1, "no-such-program"), "cannot start no-such-program: No such file or directory"),
                                (("-n", 1, "--restart", 3, "true"), "there is no option --restart"),
                                (("-n", 2, "--restarts", -1, "true"), "not negative")):
            done = launch(*arguments)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(text, done.stderr)

    def test_folders_that_cannot_be_made_are_told(self):
        for folder, why in (("/etc/passwd", "Not a directory"), ("/proc/nothere", "No such file or directory")):
            for arguments in (("launch", "-n", 2, "--log-dir", folder, "true"), ("certificates", folder, "h0")):
                done = run(*arguments)
                self.assertEqual((done.returncode, done.err), (2, [f"tutti: the folder '{folder}' cannot be made: {why}"]))
        done = run("plan", "--tpu", "v5e:1x1", "true", variables={"TMPDIR": "/nothere"})
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("tutti: the folder of temporary files, '/nothere' by TMPDIR, cannot be used: ", done.stderr)

    def test_the_programs_own_options_are_its_own(self):
        for before in (("-n", 1, "--"), ("-n", 1)):
            done = launch(*before, "echo", "-n", "x", "--restarts", "--", "-n", "--")
            self.assertEqual(done.out, ["[worker 0] x --restarts -- -n --"])

    def test_plan_env_shows_the_launcher(self):
        done = launch("-n", 2, TUTTI, "plan", "env", variables={"RANK": "0"})
        self.assertIn("[worker 1] This process is worker 1, rank 1 of 2.", done.out)
        self.assertIn("[worker 0] torchrun          shadowed    RANK", done.out)


class Ring(unittest.TestCase):
    def test_processes_of_one_host_need_no_port(self):
        done = launch("-n", 3, MEMBER, "ring")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted(done.out), [f"[worker {rank}] rank {rank} of 3: 6" for rank in range(3)])

    def test_a_death_is_named_within_a_second(self):
        done = launch("-n", 3, MEMBER, "ring", 1)
        self.assertEqual(done.returncode, 128 + signal.SIGKILL)
        for survivor in (0, 2):
            said = [line for line in done.err if line.startswith(f"[worker {survivor}] after ")]
            self.assertEqual(len(said), 1, done.stderr)
            self.assertRegex(said[0], r"after \d{1,3} ms unavailable: rank 1 is lost .* all_reduce of 1 float64 'ranks'")


class Clock(unittest.TestCase):
    def test_a_clock_that_jumps_disturbs_nobody(self):
        variables = {"LD_PRELOAD": JUMPING_CLOCK, "ASAN_OPTIONS": "verify_asan_link_order=0"}
        for action in ("sum", "meet", "ring"):
            for _ in range(3):
                done = launch("-n", 3, MEMBER, action, variables=variables)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertNotIn("unavailable", done.stderr)


class Nodes(unittest.TestCase):
    """Two commands as two hosts would give them."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.token = Path(self.folder.name) / "token"
        self.token.write_text("0123456789abcdef")

    def run_nodes(self, *arguments, variables=({}, {}), count=2):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            leader = f"127.0.0.1:{probe.getsockname()[1]}"
        nodes = [start("launch", "--nodes", 2, "--node-rank", rank, "--leader", leader, "-n", count, *arguments,
                       variables=variables[rank]) for rank in (0, 1)]
        ends = [node.communicate(timeout=60) for node in nodes]
        return [(node.returncode, out.splitlines(), err) for node, (out, err) in zip(nodes, ends)]

    def test_workers_of_all_nodes_sum_together(self):
        secret = {"TUTTI_TOKEN_FILE": str(self.token)}
        nodes = self.run_nodes(MEMBER, "ring", variables=(secret, secret))
        for rank, (status, out, err) in enumerate(nodes):
            self.assertEqual(status, 0, err)
            self.assertEqual(sorted(out), [f"[worker {i}] rank {i} of 4: 10" for i in (2 * rank, 2 * rank + 1)])

    def test_certificates_do_without_a_token(self):
        made = run("certificates", self.folder.name + "/tls", "127.0.0.1")
        self.assertEqual(made.returncode, 0, made.stderr)
        self.assertEqual(os.stat(self.folder.name + "/tls/127.0.0.1.key").st_mode & 0o777, 0o600)
        self.assertIn("is there already", run("certificates", self.folder.name + "/tls", "127.0.0.1").stderr)
        names = {"CA": "ca.pem", "CERTIFICATE": "127.0.0.1.pem", "KEY": "127.0.0.1.key"}
        tls = {f"TUTTI_TLS_{name}": f"{self.folder.name}/tls/{file}" for name, file in names.items()}
        for status, out, err in self.run_nodes(MEMBER, "ring", variables=(tls, tls), count=1):
            self.assertEqual(status, 0, err)

    def test_a_death_on_one_node_ends_all(self):
        secret = {"TUTTI_TOKEN_FILE": str(self.token)}
        nodes = self.run_nodes(MEMBER, "ring", 3, variables=(secret, secret))
        self.assertEqual(nodes[1][0], 128 + signal.SIGKILL, nodes[1][2])
        self.assertEqual(nodes[0][0], 1, nodes[0][2])
        self.assertIn("unavailable: rank 3 is lost", nodes[0][2])

    def test_strangers_and_mistakes_are_told(self):
        status, _, err = self.run_nodes(MEMBER, "ring")[0]
        self.assertEqual(status, 2)
        self.assertIn("TUTTI_TOKEN_FILE", err)
        for arguments, text in ((("--nodes", 2, "-n", 1, "true"), "need --leader HOST:PORT"),
                                (("--nodes", 2, "--node-rank", 2, "--leader", "a:1", "-n", 1, "true"), "no node 2 of 2"),
                                (("--nodes", 2, "--leader", "a:1", "-n", 1, "--chief", "true"), "workers and no other")):
            self.assertIn(text, launch(*arguments).stderr)


class Kubernetes(unittest.TestCase):
    def test_jobs_are_printed_whose_pods_find_each_other(self):
        for kind in ("job", "jobset"):
            done = launch("-n", 3, "--print-kubernetes", kind, "--name", "mnist", "train", "--epochs", 3)
            self.assertEqual(done.returncode, 0, done.stderr)
            hosts = re.search(r'TUTTI_JOB_HOSTS, value: "(.*)"', done.stdout)[1]
            self.assertTrue(hosts.endswith("{0..2}.mnist:2222"), hosts)
            plan = run("plan", "env", variables={"TUTTI_JOB_HOSTS": hosts, "JOB_COMPLETION_INDEX": "2"})
            self.assertIn("This process is worker 2, rank 2 of 3.", plan.stdout)
        self.assertIn("is no name", launch("-n", 1, "--print-kubernetes", "job", "--name", "A b", "true").stderr)
        self.assertIn("none of job", launch("-n", 1, "--print-kubernetes", "x", "true").stderr)

    def test_what_is_printed_has_the_shape_that_kubernetes_takes(self):
        try:
            import yaml
        except ImportError:
            self.skipTest("python has no yaml here")
        kinds = {"job": ["Service", "Job", "NetworkPolicy"], "jobset": ["JobSet", "NetworkPolicy"],
                 "tfjob": ["TFJob", "NetworkPolicy"]}
        for kind, expected in kinds.items():
            done = launch("-n", 3, "--print-kubernetes", kind, "--restarts", 2, "--", "train", "a \"b\"")
            documents = list(yaml.safe_load_all(done.stdout))
            self.assertEqual([each["kind"] for each in documents], expected)
            job = documents[-2]["spec"]
            if kind == "jobset":
                self.assertEqual(job["failurePolicy"]["maxRestarts"], 2)
                job = job["replicatedJobs"][0]["template"]["spec"]
            if kind == "tfjob":
                job = job["tfReplicaSpecs"]["Worker"]
                self.assertEqual(job["replicas"], 3)
            else:
                self.assertEqual((job["completionMode"], job["completions"], job["parallelism"]), ("Indexed", 3, 3))
            pod = job["template"]["spec"]
            self.assertEqual(job["template"]["metadata"]["labels"], {"app": "train"})
            self.assertEqual(pod["containers"][0]["command"], ["train", 'a "b"'])
            self.assertEqual(pod["containers"][0]["name"], "tensorflow" if kind == "tfjob" else "train")
            self.assertEqual(pod["volumes"], [{"name": "token", "secret": {"secretName": "train-token"}}])
            self.assertEqual(pod["terminationGracePeriodSeconds"], 30)


class PlanEnv(unittest.TestCase):
    def test_status_and_text(self):
        alone = run("plan", "env")
        self.assertEqual((alone.returncode, alone.out[-1]), (0, "This process is alone: no launcher has said otherwise."))
        half = run("plan", "env", variables={"JOB_COMPLETION_INDEX": "1"})
        self.assertEqual(half.returncode, 1)
        self.assertIn("TUTTI_JOB_HOSTS is not set: list the pods", half.out[-1])


def is_running(pid):
    """Whether a process is there and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
