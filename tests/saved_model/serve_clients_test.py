#!/usr/bin/env python3
"""Asks `tutti serve` by clients that others wrote: serve_clients_test.py TUTTI WRITE_SERVED SCRATCH
DOCS/SERVING.MD.

PyPI's tritonclient over HTTP and gRPC, grpcio by itself, and Python's urllib with the requests of TensorFlow Serving's
documentation. Each block ```python of the page is run, and prints what its comments say. Exits with 77, which ctest counts as skipped, where a package is not installed."""

import contextlib
import http.client
import io
import json
import re
import signal
import ssl
import subprocess
import sys
import threading
import unittest
import urllib.error
import urllib.request
from pathlib import Path

try:
    import grpc
    import numpy as np
    import tritonclient.grpc
    import tritonclient.http
    from tritonclient.utils import InferenceServerException
except ImportError as error:
    print(f"{error.name} is not installed for Python: nothing is asked by tritonclient")
    sys.exit(77)

from served_under_load import end_under_load, write_models_and_run

TUTTI, WRITE_SERVED, SCRATCH, PAGE = sys.argv[1:5]
ROOT = Path(SCRATCH)


class Server:
    """The process, with the ports that it tells of."""

    def __init__(self, *arguments):
        self.process = subprocess.Popen([TUTTI, "serve", "--port", "0", "--grpc-port", "0", *map(str, arguments)],
                                        stdout=subprocess.PIPE, text=True)
        self.ports = {}
        for line in self.process.stdout:
            if found := re.match(r"at (http|grpc)s?://.*:(\d+)$", line):
                self.ports[found[1]] = int(found[2])
            if len(self.ports) == 2:
                break
        self.http, self.grpc = (f"127.0.0.1:{self.ports[name]}" for name in ("http", "grpc"))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.communicate(timeout=60)
        return self.process.returncode

    def peak_mib(self):
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) // 1024


def urlopen(server, path, body=None):
    request = urllib.request.Request(f"http://{server.http}{path}", body and body.encode())
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


class TensorFlowServing(unittest.TestCase):
    """The examples of tensorflow.org/tfx/serving/api_rest and /docker."""

    def test_half_plus_two(self):
        with Server(f"half_plus_two={ROOT / 'half_plus_two'}") as server:
            status = urlopen(server, "/v1/models/half_plus_two")["model_version_status"]
            self.assertEqual(status, [{"version": "1", "state": "AVAILABLE", "status": {"error_code": "OK", "error_message": ""}}])
            answer = urlopen(server, "/v1/models/half_plus_two:predict", '{"instances": [1.0, 2.0, 5.0]}')
            self.assertEqual(answer, {"predictions": [2.5, 3.0, 4.5]})
            answer = urlopen(server, "/v1/models/half_plus_two/versions/1:predict", '{"inputs": [1.0, 2.0, 5.0]}')
            self.assertEqual(answer, {"outputs": [2.5, 3.0, 4.5]})
            regress = '{"signature_name": "regress", "examples": [{"x": 1.0}, {"x": 2.0}]}'
            self.assertEqual(urlopen(server, "/v1/models/half_plus_two:regress", regress), {"result": [2.5, 3.0]})
            signatures = urlopen(server, "/v1/models/half_plus_two/metadata")["metadata"]["signature_def"]["signature_def"]
            self.assertEqual(signatures["serving_default"]["inputs"]["x"]["dtype"], "DT_FLOAT")
            pieces = (piece.encode() for piece in ('{"instances": ', "[1.0, 2.0", ", 5.0]}"))  # sent in chunks
            request = urllib.request.Request(f"http://{server.http}/v1/models/half_plus_two:predict", pieces)
            with urllib.request.urlopen(request, timeout=60) as answer:
                self.assertEqual(json.load(answer), {"predictions": [2.5, 3.0, 4.5]})
            with self.assertRaises(urllib.error.HTTPError) as caught:
                urlopen(server, "/v1/models/half_plus_two:predict", '{"instances": ["one"]}')
            self.assertEqual(caught.exception.code, 400)
            self.assertIn("the input 'x'", json.load(caught.exception)["error"])


class Tritonclient(unittest.TestCase):
    def clients(self, server):
        for module, place in ((tritonclient.http, server.http), (tritonclient.grpc, server.grpc)):
            with self.subTest(module.__name__), module.InferenceServerClient(place) as client:
                yield module, client

    def test_it_finds_what_there_is(self):
        with Server(ROOT / "double") as server:
            for module, client in self.clients(server):
                self.assertTrue(client.is_server_live() and client.is_server_ready() and client.is_model_ready("double"))
                self.assertTrue(client.is_model_ready("double", "1"))
                self.assertFalse(client.is_model_ready("double", "2") or client.is_model_ready("other"))
                as_json = {"as_json": True} if module is tritonclient.grpc else {}
                self.assertEqual(client.get_server_metadata(**as_json)["name"], "tutti")
                metadata = client.get_model_metadata("double", **as_json)
                self.assertEqual((metadata["name"], metadata["versions"], metadata["platform"]),
                                 ("double", ["1"], "tutti_saved_model"))
                self.assertEqual([(spec["name"], spec["datatype"], [int(size) for size in spec["shape"]])
                                  for spec in metadata["inputs"] + metadata["outputs"]],
                                 [("x", "FP32", [-1, 2]), ("y", "FP32", [-1, 2])])

    def test_it_infers(self):
        x = np.array([[1, -2.5], [3e8, np.inf]], np.float32)
        with Server(ROOT / "double") as server:
            for module, client in self.clients(server):
                given = module.InferInput("x", x.shape, "FP32")
                given.set_data_from_numpy(x)
                for outputs in (None, [module.InferRequestedOutput("y")]):
                    result = client.infer("double", [given], outputs=outputs, request_id="7", model_version="1")
                    np.testing.assert_array_equal(result.as_numpy("y"), 2 * x)
                    response = result.get_response()
                    self.assertEqual(response["id"] if module is tritonclient.http else response.id, "7")

    def test_it_infers_without_binary_tensors(self):
        x = np.array([[1, -2.5]], np.float32)
        with Server(ROOT / "double") as server, tritonclient.http.InferenceServerClient(server.http) as client:
            given = tritonclient.http.InferInput("x", x.shape, "FP32")
            given.set_data_from_numpy(x, binary_data=False)
            wanted = tritonclient.http.InferRequestedOutput("y", binary_data=False)
            np.testing.assert_array_equal(client.infer("double", [given], outputs=[wanted]).as_numpy("y"), 2 * x)

    def test_it_infers_with_compression(self):
        x = np.arange(2000, dtype=np.float32).reshape(1000, 2)
        with Server(ROOT / "double") as server, tritonclient.http.InferenceServerClient(server.http) as client:
            for is_binary in (True, False):
                given = tritonclient.http.InferInput("x", x.shape, "FP32")
                given.set_data_from_numpy(x, binary_data=is_binary)
                wanted = [tritonclient.http.InferRequestedOutput("y", binary_data=is_binary)]
                for request, response in (("gzip", None), ("deflate", None), (None, "gzip"), ("gzip", "gzip"), ("gzip", "deflate")):
                    result = client.infer("double", [given], outputs=wanted, request_compression_algorithm=request,
                                          response_compression_algorithm=response)
                    np.testing.assert_array_equal(result.as_numpy("y"), 2 * x)

    def test_it_infers_with_compression_over_grpc(self):
        x = np.arange(2000, dtype=np.float32).reshape(1000, 2)
        given = tritonclient.grpc.InferInput("x", x.shape, "FP32")
        given.set_data_from_numpy(x)
        with Server(ROOT / "double") as server, tritonclient.grpc.InferenceServerClient(server.grpc) as client:
            for algorithm in ("gzip", "deflate", None):
                result = client.infer("double", [given], compression_algorithm=algorithm)
                np.testing.assert_array_equal(result.as_numpy("y"), 2 * x)

    def test_it_infers_of_every_datatype(self):
        numbers = {"BOOL": np.bool_, "UINT8": np.uint8, "INT8": np.int8, "INT16": np.int16, "INT32": np.int32,
                   "INT64": np.int64, "FP16": np.float16, "FP32": np.float32, "FP64": np.float64}
        with Server(ROOT / "same") as server:
            for module, client in self.clients(server):
                given, values = [], {}
                for name, dtype in numbers.items():
                    values[name] = np.array([0, 1, 100], dtype)
                    given.append(module.InferInput(name, [3], name))
                    given[-1].set_data_from_numpy(values[name])
                result = client.infer("same", given)
                for name, value in values.items():
                    np.testing.assert_array_equal(result.as_numpy("same_" + name), value)
                    self.assertEqual(result.as_numpy("same_" + name).dtype, value.dtype)

    def test_it_infers_of_text(self):
        words = np.array([b"good", b"bad", "gut \u00e9".encode(), b"\xff", b""], np.object_)
        with Server(ROOT / "reviews") as server:
            for module, client in self.clients(server):
                given = module.InferInput("text", words.shape, "BYTES")
                given.set_data_from_numpy(words)
                np.testing.assert_array_equal(client.infer("reviews", [given]).as_numpy("word"), [1, 2, 0, 0, 0])

    def test_many_ask_at_once(self):
        with Server(ROOT / "double") as server, tritonclient.grpc.InferenceServerClient(server.grpc) as client:
            results, is_over = [], threading.Event()

            def take(index, result, error):
                results.append((index, error, None if error else result.as_numpy("y")))
                if len(results) == 200:
                    is_over.set()

            for index in range(200):
                given = tritonclient.grpc.InferInput("x", [1, 2], "FP32")
                given.set_data_from_numpy(np.array([[index, 1]], np.float32))
                client.async_infer("double", [given], lambda result, error, index=index: take(index, result, error))
            self.assertTrue(is_over.wait(60))
            for index, error, y in results:
                self.assertIsNone(error)
                np.testing.assert_array_equal(y, [[2 * index, 2]])

    def test_mistakes_are_told(self):
        with Server(ROOT / "double") as server:
            for module, client in self.clients(server):
                given = module.InferInput("x", [1, 3], "FP32")
                given.set_data_from_numpy(np.zeros((1, 3), np.float32))
                with self.assertRaisesRegex(InferenceServerException, "the input 'x' has the shape") as caught:
                    client.infer("double", [given])
                self.assertEqual(caught.exception.status(), "400" if module is tritonclient.http else "StatusCode.INVALID_ARGUMENT")
                with self.assertRaisesRegex(InferenceServerException, "there is no model 'other'") as caught:
                    client.infer("other", [given])
                self.assertEqual(caught.exception.status(), "404" if module is tritonclient.http else "StatusCode.NOT_FOUND")

    def test_a_token_is_asked_for(self):
        (ROOT / "token").write_text("secret\n")
        with Server("--token-file", ROOT / "token", ROOT / "double") as server:
            for module, client in self.clients(server):
                self.assertTrue(client.is_server_live())
                given = module.InferInput("x", [1, 2], "FP32")
                given.set_data_from_numpy(np.zeros((1, 2), np.float32))
                for headers in (None, {"authorization": "Bearer secres"}):
                    with self.assertRaisesRegex(InferenceServerException, "token"):
                        client.infer("double", [given], headers=headers)
                client.infer("double", [given], headers={"authorization": "Bearer secret"})


class Tls(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = ROOT / "certificates"
        subprocess.run([TUTTI, "certificates", cls.folder, "localhost", "client"], check=True, timeout=60, stdout=subprocess.DEVNULL)
        cls.authority, cls.certificate, cls.key = (str(cls.folder / name) for name in ("ca.pem", "localhost.pem", "localhost.key"))

    def infer(self, module, client):
        given = module.InferInput("x", [1, 2], "FP32")
        given.set_data_from_numpy(np.array([[1, 2]], np.float32))
        np.testing.assert_array_equal(client.infer("double", [given]).as_numpy("y"), [[2, 4]])

    def test_clients_that_know_the_authority_are_served(self):
        with Server("--tls-cert", self.certificate, "--tls-key", self.key, ROOT / "double") as server:
            with urllib.request.urlopen(f"https://localhost:{server.ports['http']}/v1/models/double", timeout=60,
                                        context=ssl.create_default_context(cafile=self.authority)) as answer:
                self.assertEqual(answer.status, 200)
            with tritonclient.http.InferenceServerClient(f"localhost:{server.ports['http']}", ssl=True,
                                                         ssl_options={"ca_certs": self.authority}) as client:
                self.infer(tritonclient.http, client)
            with tritonclient.grpc.InferenceServerClient(f"localhost:{server.ports['grpc']}", ssl=True,
                                                         root_certificates=self.authority) as client:
                self.infer(tritonclient.grpc, client)
            self.assertRaises(urllib.error.URLError, urllib.request.urlopen,  # no authority of this host's
                              f"https://localhost:{server.ports['http']}/v1/models/double", timeout=60)
            self.assertRaises((urllib.error.URLError, ConnectionError, http.client.HTTPException), urlopen, server, "/v2")

    def test_clients_need_a_certificate_where_that_is_asked_for(self):
        with Server("--tls-cert", self.certificate, "--tls-key", self.key, "--tls-client-ca", self.authority,
                    ROOT / "double") as server:
            own = {"private_key": str(self.folder / "client.key"), "certificate_chain": str(self.folder / "client.pem")}
            for more in ({}, own):
                with tritonclient.grpc.InferenceServerClient(f"localhost:{server.ports['grpc']}", ssl=True,
                                                             root_certificates=self.authority, **more) as client:
                    if more:
                        self.infer(tritonclient.grpc, client)
                    else:
                        self.assertRaises(InferenceServerException, client.is_server_live)

    def test_files_that_cannot_be_used_are_named(self):
        for arguments, text in ((["--tls-cert", self.certificate], "one of them is not given"),
                                (["--tls-cert", self.certificate, "--tls-key", self.folder / "client.key"], "client.key' is not that of"),
                                (["--tls-cert", self.key, "--tls-key", self.key], "localhost.key")):
            done = subprocess.run([TUTTI, "serve", "--port", "0", *map(str, arguments), ROOT / "double"], capture_output=True,
                                  text=True, timeout=60)
            self.assertEqual(done.returncode, 2)
            self.assertIn(text, done.stderr)


class Page(unittest.TestCase):
    def test_it_says_what_is_printed(self):
        blocks = re.findall(r"```python\n(.*?)```", Path(PAGE).read_text(), re.S)
        self.assertGreater(len(blocks), 0)
        with Server(f"flowers={ROOT / 'flowers'}") as server:
            for block in blocks:
                self.assertIn('"127.0.0.1:8500"', block)
                printed = io.StringIO()
                with contextlib.redirect_stdout(printed):
                    exec(block.replace("127.0.0.1:8500", server.grpc), {})
                self.assertEqual(printed.getvalue().splitlines(), re.findall(r"print\(.*\)  # (.*)", block))


class Grpcio(unittest.TestCase):
    def test_nothing_is_lost_when_it_ends(self):
        """Calls go on until the server says that it ends; none is cut, and none is computed that is refused."""
        given = tritonclient.grpc.InferInput("x", [1, 2], "FP32")
        given.set_data_from_numpy(np.array([[1, 2]], np.float32))
        lost, answered = [], [0] * 4

        def go_on(place):
            with tritonclient.grpc.InferenceServerClient(server.grpc) as client:
                while True:
                    try:
                        np.testing.assert_array_equal(client.infer("double", [given]).as_numpy("y"), [[2, 4]])
                        answered[place] += 1
                    except InferenceServerException as error:
                        if error.status() != "StatusCode.UNAVAILABLE":
                            lost.append(error)
                        return

        with Server(ROOT / "double") as server:
            before = end_under_load(self, server, go_on, answered, lost)
            self.assertGreater(sum(answered), before)

    def test_a_message_over_the_bound_takes_no_memory(self):
        options = [("grpc.max_send_message_length", -1)]
        with Server("--max-request-bytes", 1 << 20, "--max-bytes", 10 << 20, ROOT / "double") as server:
            before = server.peak_mib()
            with grpc.insecure_channel(server.grpc, options) as channel:
                with self.assertRaises(grpc.RpcError) as caught:
                    channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")(bytes(300 << 20), timeout=60)
            self.assertEqual(caught.exception.code(), grpc.StatusCode.RESOURCE_EXHAUSTED)
            self.assertLess(server.peak_mib() - before, 150)
            with tritonclient.grpc.InferenceServerClient(server.grpc) as client:
                self.assertTrue(client.is_server_live())

    def test_what_a_message_is_compressed_from_takes_no_memory_over_the_bound(self):
        with Server("--max-request-bytes", 1 << 20, ROOT / "double") as server:
            before = server.peak_mib()
            with grpc.insecure_channel(server.grpc, [("grpc.max_send_message_length", -1)]) as channel:
                for algorithm in (grpc.Compression.Gzip, grpc.Compression.Deflate):
                    with self.assertRaises(grpc.RpcError) as caught:
                        channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")(
                            bytes(400 << 20), timeout=60, compression=algorithm)
                    self.assertEqual(caught.exception.code(), grpc.StatusCode.RESOURCE_EXHAUSTED)
                    self.assertIn("compressed from more than", caught.exception.details())
            self.assertLess(server.peak_mib() - before, 50)
            with tritonclient.grpc.InferenceServerClient(server.grpc) as client:
                self.assertTrue(client.is_server_live())


if __name__ == "__main__":
    write_models_and_run(WRITE_SERVED, ROOT)
