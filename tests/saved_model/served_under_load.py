"""What the tests of `tutti serve` share: the models that they serve, and an end in the midst of requests."""

import shutil
import subprocess
import sys
import threading
import time
import unittest


def end_under_load(test, server, go_on, answered, lost):
    """Ends the server while go_on(place) asks in a thread for each place of `answered`, where it counts, and notes in
    `lost` what had no answer. Returns how many were answered before."""
    threads = [threading.Thread(target=go_on, args=(place,)) for place in range(len(answered))]
    for thread in threads:
        thread.start()
    while sum(answered) < 200:
        time.sleep(0.01)
    before = sum(answered)
    test.assertEqual(server.end(), 0)
    for thread in threads:
        thread.join(60)
    test.assertEqual(lost, [])
    return before


def write_models_and_run(write_served, folder):
    """The tests of the program, of models that write_served leaves in the folder."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    subprocess.run([write_served, folder], check=True, timeout=120)
    unittest.main(argv=sys.argv[:1])
