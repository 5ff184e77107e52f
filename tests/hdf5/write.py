"""Writes the files of this folder by h5py: what HDF5 can say and tutti/files/hdf5_reader.h refuses, but for big_endian.h5, legacy.h5,
legacy_fixed.h5 and legacy_frozen.h5."""

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


# Weights as Keras 2 has them, for Dense(2) of three numbers and BatchNormalization.
LEGACY = {
    "first": {"net/first/kernel": NUMBERS.reshape(3, 2), "net/first/bias": NUMBERS[0, :2]},
    "drop": {},
    "norm": {f"net/norm/{name}": NUMBERS[1, :2] + i
             for i, name in enumerate(("gamma", "beta", "moving_mean", "moving_variance"))},
}  # fmt: skip


def write_legacy(group, layers=None, texts=lambda names: names, legacy=LEGACY):
    """`layers`: what the names say, where that is not what there is."""
    layers = layers or legacy

    def note(place, attribute, names):
        for key, some in texts({attribute: names}).items() if names else [(attribute, numpy.array([]))]:
            place.attrs[key] = some

    note(group, "layer_names", list(layers))
    for layer, weights in legacy.items():
        place = group.create_group(layer)
        note(place, "weight_names", list(layers.get(layer, weights)))
        for name, value in weights.items():
            place[name] = value.astype("f4")
    note(group.create_group("top_level_model_weights"), "weight_names", [])


def fixed(names):
    """Texts of fixed lengths in pieces, as long lists are."""
    (attribute, texts), = names.items()
    pieces = numpy.array_split(numpy.array([text.encode() for text in texts], dtype="S"), 2)
    return {f"{attribute}{i}": piece for i, piece in enumerate(pieces)}


with new("legacy") as file:
    write_legacy(file)
with new("legacy_fixed") as file:
    write_legacy(file.create_group("model_weights"), texts=fixed)
with new("legacy_no_layer") as file:
    write_legacy(file, {**LEGACY, "../first": {}})
with new("legacy_no_weight") as file:
    write_legacy(file, {**LEGACY, "norm": {"net/first/kernel": None}})
with new("legacy_numbers") as file:
    write_legacy(file)
    file.attrs["layer_names"] = NUMBERS
with new("legacy_frozen") as file:  # a model in a model, whose first layer is frozen
    write_legacy(file, legacy={"inner": {name: LEGACY[name.split("/")[1]][name] for name in (
        "net/norm/gamma", "net/norm/beta", "net/first/kernel", "net/first/bias", "net/norm/moving_mean",
        "net/norm/moving_variance")}})  # fmt: skip
