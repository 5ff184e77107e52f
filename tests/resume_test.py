"""The example `resume`, killed at random and started again, ends with the weights of the run that nobody disturbed.

   resume_test.py PROGRAM SCRATCH [KILLS]
"""
import pathlib
import random
import shutil
import subprocess
import sys
import time

program, scratch = sys.argv[1], pathlib.Path(sys.argv[2])
kills = int(sys.argv[3]) if len(sys.argv) > 3 else 20
steps = "600"
seed = random.randrange(2**32)
print(f"seed {seed}", flush=True)
random.seed(seed)


def start(folder):
    return subprocess.Popen([program, "--checkpoints", folder, "--steps", steps], stdout=subprocess.DEVNULL)


def weights(folder):
    """The bytes of all tensors in the newest checkpoint."""
    newest = max(folder.glob("ckpt-*"), key=lambda path: int(path.name.removeprefix("ckpt-")))
    return [path.read_bytes() for path in sorted(newest.glob("*.safetensors"))]


shutil.rmtree(scratch, ignore_errors=True)
began = time.monotonic()
if start(scratch / "undisturbed").wait() != 0:
    sys.exit("the undisturbed run failed")
seconds = time.monotonic() - began
expected = weights(scratch / "undisturbed")

killed = 0
while True:
    process = start(scratch / "killed")
    try:
        process.wait(None if killed == kills else random.uniform(0, seconds))
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        killed += 1
        continue
    if process.returncode != 0:
        sys.exit(f"ended with {process.returncode} after {killed} kills")
    if weights(scratch / "killed") != expected:
        sys.exit(f"other weights after {killed} kills")
    if killed == kills:
        break
    shutil.rmtree(scratch / "killed")  # it came to its end: begin another one
print(f"{killed} kills: the same weights, bit for bit")
