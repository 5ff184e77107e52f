"""Writes the files of this folder by h5py: what HDF5 can say and tutti/files/hdf5_reader.h refuses, but for big_endian.h5."""

import pathlib

import h5py
import numpy

FOLDER = pathlib.Path(__file__).parent
NUMBERS = numpy.arange(6).reshape(2, 3)


def new(name):
    return h5py.File(FOLDER / f"{name}.h5", "w")


with new("big_endian") as file:
    for dtype in ("f4", "i2"):
        file[dtype] = NUMBERS.astype(f">{dtype}")
with new("soft_link") as file:
    file["w"] = NUMBERS
    file["here"] = h5py.SoftLink("/w")
with new("external_link") as file:
    file["w"] = NUMBERS
    file["there"] = h5py.ExternalLink("big_endian.h5", "/f4")
with new("external_values") as file:
    file.create_dataset("w", (2,), "f4", external=[("/etc/hostname", 0, 8)])
with new("virtual") as file:
    layout = h5py.VirtualLayout((2, 3), "f4")
    layout[:] = h5py.VirtualSource(str("big_endian.h5"), "f4", (2, 3))
    file.create_virtual_dataset("w", layout)
with new("compressed") as file:
    file.create_dataset("w", data=NUMBERS, compression="gzip")
with new("text") as file:
    file["w"] = "words"
with new("circle") as file:
    file["w"] = NUMBERS
    file["group/again"] = file["/"]
with new("never_written") as file:
    file.create_dataset("w", (10**12,), "f4")
