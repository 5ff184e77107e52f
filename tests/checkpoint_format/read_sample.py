#!/usr/bin/env python3
"""Reads a checkpoint by what docs/checkpoint_format.md says, with nothing of the library: read_sample.py WRITE_SAMPLE FOLDER.

WRITE_SAMPLE is the program that saves it. Every shard is also read by PyPI's safetensors where that is installed; how
many were is printed.
"""

import json
import shutil
import struct
import subprocess
import sys
from pathlib import Path

CHUNK = 1 << 20
FORMATS = {"F16": "e", "F32": "f", "F64": "d", "I64": "q", "U8": "B", "BOOL": "?"}
CODES = {"float16": "F16", "bfloat16": "BF16", "float32": "F32", "float64": "F64", "int64": "I64", "uint8": "U8",
         "bool": "BOOL", "complex64": "F32"}
SHAPES = {"net/0/weight": [3, 4], "bfloat16": [7], "float16": [7], "float64": [2, 2, 2], "int64": [], "uint8": [3],
          "bool": [2], "complex64": [5], "empty": [3, 0], "several chunks": [700, 500], "sharded": [7, 5],
          "rows": [900, 500]}
SHARDS = {"sharded": 4, "rows": 2}


def crc_table():
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        yield byte


TABLE = tuple(crc_table())


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ TABLE[(crc ^ byte) & 255]
    return f"{crc ^ 0xFFFFFFFF:08x}"


def check(condition, what):
    if not condition:
        sys.exit(f"read_sample.py: {what}")


def unseal(data):
    body, tail = data[:-22], data[-22:]
    check(tail[:11] == b',"crc32c":"' and tail[19:] == b'"}\n', "no seal")
    check(tail[11:19].decode() == crc32c(body), "the seal is broken")
    return json.loads(data)


def decode(code, data):
    if code == "BF16":
        return [struct.unpack("<f", b"\0\0" + data[i:i + 2])[0] for i in range(0, len(data), 2)]
    return [value[0] for value in struct.iter_unpack("<" + FORMATS[code], data)]


def product(sizes):
    result = 1
    for size in sizes:
        result *= size
    return result


def flat_indices(shape, first, sizes):
    """The row-major numbers, in the whole tensor, of a region's elements."""
    indices = [0]
    for size, begin, count in zip(shape, first, sizes):
        indices = [index * size + begin + i for index in indices for i in range(count)]
    return indices


def check_values(tensor, shard, code, data):
    name, shape = tensor["name"], tensor["shape"]
    first, sizes = shard.get("first", [0] * len(shape)), shard.get("shape", shape)
    expected = [k % 100 for k in flat_indices(shape, first, sizes)]
    if tensor["dtype"] == "complex64":
        expected = [part for k in expected for part in (k, k)]
    if code == "BOOL":
        expected = [k != 0 for k in expected]
    check(decode(code, data) == expected, f"{name}: other values than were saved")


def check_shard(tensor, shard, contents, headers):
    name, file = tensor["name"], contents[shard["file"]]
    data = file[shard["offset"]:shard["offset"] + shard["bytes"]]
    check(len(data) == shard["bytes"], f"{name}: outside of its file")
    chunks = [data[i:i + CHUNK] for i in range(0, len(data), CHUNK)]
    check([crc32c(chunk) for chunk in chunks] == shard["crc32c"], f"{name}: wrong CRC32C")
    entry, data_begin = headers[shard["file"]][0].pop(name), headers[shard["file"]][1]
    sizes = shard.get("shape", tensor["shape"]) + ([2] if tensor["dtype"] == "complex64" else [])
    begin = shard["offset"] - data_begin
    check(entry == {"dtype": CODES[tensor["dtype"]], "shape": sizes, "data_offsets": [begin, begin + shard["bytes"]]},
          f"{name}: the header of the file says something else than the index")
    check_values(tensor, shard, entry["dtype"], data)


def check_header(file, data):
    check(len(data) == file["bytes"], f"{file['name']} has another length")
    length = struct.unpack("<Q", data[:8])[0]
    check(8 + length == file["header_bytes"] and (8 + length) % 64 == 0, f"{file['name']}: header of another length")
    check(crc32c(data[:8 + length]) == file["header_crc32c"], f"{file['name']}: wrong CRC32C of the header")
    return json.loads(data[8:8 + length]), 8 + length


def check_by_library(folder, index):
    try:
        from safetensors import deserialize
    except ImportError:
        return 0
    shards = 0
    for number, file in enumerate(index["files"]):
        found = dict(deserialize((folder / file["name"]).read_bytes()))
        for tensor in index["tensors"]:
            for shard in tensor["shards"]:
                if shard["file"] == number:
                    entry = found.pop(tensor["name"])
                    check_values(tensor, shard, entry["dtype"], bytes(entry["data"]))
                    shards += 1
        check(not found, f"safetensors finds more in {file['name']}: {list(found)}")
    return shards


def main():
    program, folder = sys.argv[1], Path(sys.argv[2])
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([program, folder], check=True)
    index = unseal((folder / "index.json").read_bytes())
    check((index["format"], index["version"], index["step"]) == ("tutti checkpoint", 1, 12), "the head of the index")
    check(index["chunk_bytes"] == CHUNK, "chunk_bytes")
    check(index["values"] == {"count": {"int64": -7}, "rate": {"float64": 0.1}, "name": {"text": 'a "b"'}}, "the values")
    check({tensor["name"]: tensor["shape"] for tensor in index["tensors"]} == SHAPES, "the tensors' shapes")
    contents = [(folder / file["name"]).read_bytes() for file in index["files"]]
    headers = [check_header(file, data) for file, data in zip(index["files"], contents)]
    for tensor in index["tensors"]:
        check(len(tensor["shards"]) == SHARDS.get(tensor["name"], 1), f"{tensor['name']}: number of shards")
        check(sum(product(shard.get("shape", tensor["shape"])) for shard in tensor["shards"]) == product(tensor["shape"]),
              f"{tensor['name']}: not all elements")
        for shard in tensor["shards"]:
            check_shard(tensor, shard, contents, headers)
    check(not any(header for header, _ in headers), "files have tensors that the index does not name")
    check({path.name for path in folder.iterdir()} == {"index.json"} | {file["name"] for file in index["files"]},
          "other files in the folder")
    print(f"{sum(len(tensor['shards']) for tensor in index['tensors'])} shards read by the format's description, "
          f"{check_by_library(folder, index)} by PyPI's safetensors")


if __name__ == "__main__":
    main()
