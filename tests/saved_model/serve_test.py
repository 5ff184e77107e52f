#!/usr/bin/env python3
"""Runs `tutti serve` as a process: serve_test.py TUTTI WRITE_SERVED SCRATCH DOCS/SERVING.MD.

The blocks ```http of the page are sent in turn, and the ```json behind each is what must come."""

import base64
import http.client
import json
import re
import signal
import struct
import subprocess
import sys
import time
import unittest
from pathlib import Path

from served_under_load import end_under_load, write_models_and_run

TUTTI, WRITE_SERVED, SCRATCH, PAGE = sys.argv[1:5]
ROOT = Path(SCRATCH)
DOUBLE = json.dumps({"instances": [[1, 2]]})


class Server:
    """The process, with the port that it tells of."""

    def __init__(self, *arguments):
        self.process = subprocess.Popen([TUTTI, "serve", "--port", "0", "--poll", "0.05", *map(str, arguments)], stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)
        self.lines, self.connections = [], []
        for line in self.process.stdout:
            self.lines.append(line.rstrip())
            if found := re.match(r"at http://.*:(\d+)$", line):
                self.port = int(found[1])
                break

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for connection in self.connections:
            connection.close()
        self.process.kill()
        self.process.communicate()

    def connect(self):
        self.connections.append(http.client.HTTPConnection("127.0.0.1", self.port, timeout=60))
        return self.connections[-1]

    def end(self, timeout=60):
        self.process.send_signal(signal.SIGTERM)
        self.lines += self.process.communicate(timeout=timeout)[0].splitlines()
        return self.process.returncode


def ask(connection, method, path, body=None, headers={}):
    connection.request(method, path, body, headers)
    answer = connection.getresponse()
    return answer.status, answer.read().decode()


class Serve(unittest.TestCase):
    def test_it_serves_until_it_is_told_to_end(self):
        with Server(ROOT / "double", f"other={ROOT / 'double'}") as server:
            connection = server.connect()
            for name in ("double", "other"):
                status, text = ask(connection, "POST", f"/v1/models/{name}:predict", DOUBLE)
                self.assertEqual((status, json.loads(text)), (200, {"predictions": [[2.0, 4.0]]}))
            connection.close()
            self.assertEqual(server.end(), 0)
            self.assertTrue(any("double: version 1 is served" in line for line in server.lines), server.lines)
            self.assertEqual(server.lines[-1], "ended")

    def test_nothing_is_lost_when_it_ends(self):
        lost, answered = [], [0] * 4

        def go_on(place):
            connection = server.connect()
            last = time.monotonic()
            while True:
                begin = time.monotonic()
                try:
                    status, text = ask(connection, "POST", "/v1/models/double:predict", DOUBLE)
                except (ConnectionError, http.client.HTTPException) as error:
                    if begin - last < 0.5:  # later, it was idle
                        lost.append(error)
                    return
                if status != 200 or json.loads(text) != {"predictions": [[2.0, 4.0]]}:
                    lost.append(text)
                answered[place] += 1
                last = time.monotonic()
                if connection.sock is None:
                    return  # it was told to go

        with Server(ROOT / "double") as server:
            end_under_load(self, server, go_on, answered, lost)
            self.assertRaises(ConnectionRefusedError, server.connect().connect)

    def test_a_second_signal_ends_it_at_once(self):
        with Server(ROOT / "toil") as server:
            busy, other = server.connect(), server.connect()
            busy.request("POST", "/v1/models/toil:predict", json.dumps({"inputs": [[0.5] * 6000]}))  # for a minute
            self.assertEqual(ask(other, "GET", "/v2")[0], 200)  # which came later
            server.process.send_signal(signal.SIGTERM)
            while "ending" not in server.lines[-1]:
                server.lines.append(server.process.stdout.readline())
            self.assertEqual(server.end(timeout=30), 1)
            self.assertIn("some requests had no answer", server.lines[-1])
            self.assertRaises((ConnectionError, http.client.HTTPException), busy.getresponse)

    def test_a_token_is_read_from_a_file(self):
        (ROOT / "token").write_text("secret\n")
        with Server("--token-file", ROOT / "token", ROOT / "double") as server:
            connection = server.connect()
            self.assertEqual(ask(connection, "GET", "/v1/models/double")[0], 401)
            self.assertEqual(ask(connection, "GET", "/v1/models/double", headers={"Authorization": "Bearer secret"})[0], 200)

    def test_it_says_what_it_cannot_serve(self):
        for arguments, text in (([ROOT / "nothing"], "is no saved model"), ([], "folders is required"),
                                (["--max-batch", "0", ROOT / "double"], "must be at least 1"),
                                (["--host", "localhost", ROOT / "double"], "in numbers"),
                                (["--token-file", ROOT / "none", ROOT / "double"], "has no first line")):
            done = subprocess.run([TUTTI, "serve", "--port", "0", *map(str, arguments)], capture_output=True, text=True, timeout=60)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(text, done.stderr)

    def test_an_estimator_of_categories_answers_examples_as_it_predicts(self):
        def instance(record):
            return {"b64": base64.b64encode(record).decode()}

        def float32(number):
            return struct.pack("f", number)

        asked = [instance(file.read_bytes()) for file in sorted((ROOT / "asked").glob("*.example"))]
        logits = [float(line) for line in (ROOT / "asked" / "logits").read_text().split()]
        level_9 = b"\n\x10\n\x0e\n\x05level\x12\x05\x1a\x03\n\x01\x09"  # an Example
        with Server(ROOT / "people") as server:
            connection = server.connect()

            def predict(instances, **others):
                body = json.dumps({"signature_name": "predict", "instances": instances, **others})
                status, text = ask(connection, "POST", "/v1/models/people:predict", body)
                return status, json.loads(text)

            status, answer = predict(asked)
            self.assertEqual(status, 200, answer)
            self.assertEqual([float32(row["logits"][0]) for row in answer["predictions"]], list(map(float32, logits)))
            status, answer = predict(asked, signature_name="serving_default")
            self.assertEqual([row["classes"] for row in answer["predictions"]], [["0", "1"]] * 3)
            for record, text in ((b"no Example", "is no Example"), (level_9, "'level': category 9 is not one of [0, 4)")):
                status, answer = predict([instance(record)])
                self.assertEqual(status, 400, answer)
                self.assertIn(text, answer["error"])

    def test_the_page_says_what_comes(self):
        blocks = re.findall(r"```http\n(.*?)```\s*```json\n(.*?)```", Path(PAGE).read_text(), re.S)
        self.assertGreater(len(blocks), 4)
        with Server(f"flowers={ROOT / 'flowers'}", f"reviews={ROOT / 'reviews'}") as server:
            connection = server.connect()
            for request, expected in blocks:
                method, path, *body = request.strip().split(maxsplit=2)
                _, text = ask(connection, method, path, body[0] if body else None)
                self.assertEqual(json.loads(text), json.loads(expected), request)


if __name__ == "__main__":
    write_models_and_run(WRITE_SERVED, ROOT)
