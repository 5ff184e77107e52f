#!/usr/bin/env python3
"""Reads what the callback TensorBoard, an Estimator and EventFileWriter wrote:
read_events.py WRITE_EVENTS FOLDER [tensorboard].

WRITE_EVENTS is the program that writes it. The files are read by their format, with nothing of the library; with
`tensorboard` also by PyPI's, its loader of files and its accumulator of folders, and where that is not installed the
test is skipped. How many values each found is printed.
"""

import importlib.util
import math
import shutil
import struct
import subprocess
import sys
from pathlib import Path

FLOAT, DOUBLE, STRING = 1, 2, 7  # TensorFlow's numbers of dtypes
CLASSES = {"scalars": 1, "text": 2, "histograms": 2, "images": 3}  # TensorBoard's DataClass


def check(condition, what):
    if not condition:
        sys.exit(f"read_events.py: {what}")


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 128:
            return value, at


def fields(data):
    """{field number: [value]} of a protocol buffer: whole numbers, and bytes."""
    found, at = {}, 0
    while at < len(data):
        key, at = varint(data, at)
        if key & 7 == 0:
            value, at = varint(data, at)
        else:
            length, at = {1: (8, at), 5: (4, at)}.get(key & 7) or varint(data, at)
            value, at = data[at:at + length], at + length
        found.setdefault(key >> 3, []).append(value)
    return found


def tensor_value(message):
    """A float, the bytes of one string, the bytes of several, or triples of doubles."""
    dtype = message[1][0]
    shape = [fields(dim).get(1, [0])[0] for dim in fields(message[2][0]).get(2, [])] if 2 in message else []
    if dtype == FLOAT:
        return struct.unpack("<f", message[4][0])[0]
    if dtype == DOUBLE:
        triples = list(struct.iter_unpack("<ddd", message[4][0]))
        check(shape == [len(triples), 3], "the shape of a histogram")
        return triples
    check(dtype == STRING and shape in ([], [len(message[8])]), "the shape of strings")
    return message[8] if shape else message[8][0]


def read_by_format(file):
    """{(tag, step): (plugin, value)}"""
    data, values, at = file.read_bytes(), {}, 0
    while at < len(data):
        length = struct.unpack_from("<Q", data, at)[0]
        event = fields(data[at + 12:at + 12 + length])
        at += 16 + length
        for summary in event.get(5, []):
            for value in map(fields, fields(summary).get(1, [])):
                plugin = fields(fields(value[9][0])[1][0])[1][0].decode()
                key = value[1][0].decode(), event.get(2, [0])[0]
                check(key not in values, f"{key} is there twice")
                values[key] = plugin, tensor_value(fields(value[8][0]))
    return values


def read_by_tensorboard(file):
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
    from tensorboard.util import tensor_util
    values = {}
    for event in EventFileLoader(str(file)).Load():
        for value in event.summary.value:
            plugin = value.metadata.plugin_data.plugin_name
            check(value.metadata.data_class == CLASSES[plugin], f"TensorBoard takes {value.tag} for something else")
            array = tensor_util.make_ndarray(value.tensor)
            if plugin == "scalars":
                found = float(array)
            elif plugin == "histograms":
                found = [tuple(row) for row in array.tolist()]
            else:
                found = list(array) if array.ndim else array.item()
            values[value.tag, event.step] = plugin, found
    return values


def scalars_by_accumulator(folder):
    """{(tag, step): number} as TensorBoard shows them."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.util import tensor_util
    accumulator = EventAccumulator(str(folder))
    accumulator.Reload()
    return {(tag, event.step): float(tensor_util.make_ndarray(event.tensor_proto))
            for tag in accumulator.Tags()["tensors"]
            if accumulator.SummaryMetadata(tag).plugin_data.plugin_name == "scalars"
            for event in accumulator.Tensors(tag)}


def check_training(values, expected):
    """The numbers of fit, and the histograms of the last epoch's weights."""
    least, largest = expected.pop(("least_of_kernel", 2)), expected.pop(("largest_of_kernel", 2))
    for key, number in expected.items():
        check(key in values and values[key][0] == "scalars", f"no number {key}")
        check(math.isclose(values[key][1], number, rel_tol=1e-6), f"{key} is {values[key][1]}, not {number}")
    for step in range(3):
        check(values["epoch_learning_rate", step] == ("scalars", 0.125), "the learning rate")
        for name, numel in ("dense/kernel", 12), ("dense/bias", 4):
            plugin, buckets = values[f"{name}/histogram", step]
            check(plugin == "histograms" and len(buckets) == 30, f"the histogram of {name}")
            check(sum(count for _, _, count in buckets) == numel, f"the histogram of {name} counts others")
            check(values[f"{name}/image", step][0] == "images", f"no image of {name}")
    check([values["dense/kernel/histogram", 2][1][i][j] for i, j in ((0, 0), (29, 1))] == [least, largest],
          "the edges of the kernel's histogram")
    check(values["dense/kernel/image", 2][1][:2] == [b"4", b"3"], "the size of the kernel's image")
    check({step for tag, step in values if tag == "batch_loss"} == set(range(1, 10)), "the steps of batches")


def check_extra(values):
    check(values["notes", 7] == ("text", b"# A title\nand *text*"), "the text")
    plugin, (width, height, file) = values["picture", 7]
    check((plugin, width, height) == ("images", b"3", b"2"), "the image")
    check(file[:8] == b"\x89PNG\r\n\x1a\n" and struct.unpack(">II", file[16:24]) == (3, 2), "the image is no PNG")


def main():
    program, folder = sys.argv[1], Path(sys.argv[2])
    if sys.argv[3:] == ["tensorboard"] and importlib.util.find_spec("tensorboard") is None:
        print("skipped: PyPI's tensorboard is not installed")
        sys.exit(77)
    shutil.rmtree(folder, ignore_errors=True)
    printed = subprocess.run([program, folder], check=True, capture_output=True, text=True).stdout
    expected = {"train": {}, "validation": {}, "estimator": {}, "evaluated": {}}
    for line in printed.splitlines():
        part, tag, step, number = line.split()
        expected[part][tag, int(step)] = float(number)
    found = {}
    places = {"evaluated": "estimator/eval"}
    for part in "train", "validation", "extra", "estimator", "evaluated":
        files = list((folder / places.get(part, part)).glob("*tfevents*"))
        check(len(files) == 1, f"{len(files)} files in {part}")
        found[part] = read_by_format(files[0]), files[0]
    check_training(found["train"][0], expected["train"])
    for part in "validation", "estimator", "evaluated":
        check(expected[part], f"{part}: nothing was printed")
        for key, number in expected[part].items():
            check(math.isclose(found[part][0][key][1], number, rel_tol=1e-6), f"{part}: {key}")
    check_extra(found["extra"][0])

    by_loader = by_accumulator = 0
    for values, file in found.values() if sys.argv[3:] == ["tensorboard"] else ():
        theirs = read_by_tensorboard(file)
        check(theirs == values, f"TensorBoard reads other values from {file}")
        by_loader += len(theirs)
        shown = scalars_by_accumulator(file.parent)
        scalars = {key: value for key, (plugin, value) in values.items() if plugin == "scalars"}
        check(shown == scalars, f"TensorBoard shows other numbers of {file.parent}")
        by_accumulator += len(shown)
    print(f"{sum(len(values) for values, _ in found.values())} values read by their format, {by_loader} by TensorBoard's "
          f"EventFileLoader, {by_accumulator} by its EventAccumulator")


if __name__ == "__main__":
    main()
