"""Training that is killed at random and started again, beside one that nobody disturbed."""
import random
import shutil
import subprocess
import sys
import time


def seed_randomly():
    seed = random.randrange(2**32)
    print(f"seed {seed}", flush=True)
    random.seed(seed)


def weights(folder):
    """The bytes of all tensors in the newest checkpoint."""
    # What a kill left of an old one that was being removed after the last save stays until the next: no checkpoint.
    checkpoints = [path for path in folder.glob("ckpt-*") if ".tmp-" not in path.name]
    newest = max(checkpoints, key=lambda path: int(path.name.removeprefix("ckpt-")))
    return [path.read_bytes() for path in sorted(newest.glob("*.safetensors"))]


def check_that_kills_change_nothing(start, scratch, kills, checkpoints="."):
    """start(folder) begins a training whose checkpoints go to folder / checkpoints. Exits if the weights differ."""
    began = time.monotonic()
    if start(scratch / "undisturbed").wait() != 0:
        sys.exit("the undisturbed run failed")
    seconds = time.monotonic() - began
    expected = weights(scratch / "undisturbed" / checkpoints)

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
        if weights(scratch / "killed" / checkpoints) != expected:
            sys.exit(f"other weights after {killed} kills")
        if killed == kills:
            break
        shutil.rmtree(scratch / "killed")  # it came to its end: begin another one
    print(f"{killed} kills: the same weights, bit for bit")
