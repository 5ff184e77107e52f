"""The example `census`: each model learns, from CSV and from TFRecords, and a training that is killed at random and
started again ends with the weights of the one that nobody disturbed.

   census_test.py PROGRAM SCRATCH [KILLS]
"""
import pathlib
import random
import re
import shutil
import subprocess
import sys
import time

program, scratch = sys.argv[1], pathlib.Path(sys.argv[2])
kills = int(sys.argv[3]) if len(sys.argv) > 3 else 20
seed = random.randrange(2**32)
print(f"seed {seed}", flush=True)
random.seed(seed)


def start(folder, *options):
    command = [program, "--folder", folder, *options]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def weights(folder):
    """The bytes of all tensors in the newest checkpoint."""
    newest = max(folder.glob("ckpt-*"), key=lambda path: int(path.name.removeprefix("ckpt-")))
    return [path.read_bytes() for path in sorted(newest.glob("*.safetensors"))]


shutil.rmtree(scratch, ignore_errors=True)
for model in ("linear", "deep", "combined"):
    for source in ("csv", "records"):
        process = start(scratch / source, "--model", model, "--from", source)
        output, _ = process.communicate()
        numbers = [float(number) for number in re.findall(r"\d\.\d+", output)]
        if process.returncode != 0 or len(numbers) != 2 or numbers[0] < numbers[1] + 0.15:
            sys.exit(f"{model} from {source}: {output}")
        print(model, source, output.strip(), flush=True)

options = ("--model", "combined", "--steps", "300")
began = time.monotonic()
if start(scratch / "undisturbed", *options).wait() != 0:
    sys.exit("the undisturbed run failed")
seconds = time.monotonic() - began
expected = weights(scratch / "undisturbed" / "combined")

killed = 0
while True:
    process = start(scratch / "killed", *options)
    try:
        process.wait(None if killed == kills else random.uniform(0, seconds))
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        killed += 1
        continue
    if process.returncode != 0:
        sys.exit(f"ended with {process.returncode} after {killed} kills")
    if weights(scratch / "killed" / "combined") != expected:
        sys.exit(f"other weights after {killed} kills")
    if killed == kills:
        break
    shutil.rmtree(scratch / "killed")  # it came to its end: begin another one
print(f"{killed} kills: the same weights, bit for bit")
