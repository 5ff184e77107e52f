"""Weights go from PyPI's Keras to Tutti and back: each side's models predict what the other's do that wrote the file.

read_and_write.py KERAS_WEIGHTS FOLDER [TORCH]: TORCH is a folder to import torch from. Exits with 77, which ctest counts as
skipped, where keras, h5py or torch is not installed."""

import os
import pathlib
import shutil
import subprocess
import sys

os.environ["KERAS_BACKEND"] = "torch"
sys.path += sys.argv[3:]
try:
    import h5py
    import keras
    import numpy
    import torch
except ImportError as error:
    print(f"{error}: nothing was tested with it")
    sys.exit(77)

from keras import Input, Model, Sequential
from keras import layers as L
from keras.src.legacy.saving import legacy_h5_format

NUM_SAMPLES = 3
RANDOM = numpy.random.default_rng(1)
# What a prediction may differ by, in parts of the largest one where that is above 1.
# Keras with torch multiplies matrices of float64 with the digits of float32.
TOLERANCE = {"float32": 1e-6, "float64": 1e-6, "float16": 2e-3, "bfloat16": 2e-2}


def stack(shape, *layers):
    return Sequential([Input(shape), *layers])


def attention():
    x, context = Input((6, 8)), Input((5, 7))
    y = L.Add()([x, L.MultiHeadAttention(2, 3)(x, context)])
    y = L.Add()([y, L.GroupQueryAttention(4, 4, 2)(y, y, use_causal_mask=True)])
    y = L.Attention(use_scale=True)([y, y])
    y = L.AdditiveAttention()([y, y])
    return Model([x, context], L.EinsumDense("abc,cd->abd", (None, 3), bias_axes="d")(y))


def branches():
    x = Input((4,))
    last, shared, side, first = L.Dense(3), L.Dense(4), L.Dense(5), L.Dense(4)
    short_way = side(x)
    long_way = shared(first(shared(x)))
    return Model(x, [last(L.Concatenate()([short_way, long_way])), L.Dense(2)(short_way)])


def nested():
    inner_x = Input((4,))
    shared = L.Dense(4)
    inner = Model(inner_x, shared(L.Dense(4)(inner_x)))
    x = Input((4,))
    y = stack((4,), L.Dense(4), stack((4,), L.Dense(4), L.BatchNormalization()))(x)
    return Model(x, L.Add()([inner(y), shared(x), inner(x)]))


def places():
    x = Input((6, 8, 3))
    y = L.ZeroPadding2D(((1, 2), (3, 4)))(x)
    y = L.UpSampling2D((2, 3), interpolation="bilinear")(L.Cropping2D(((2, 1), (0, 3)))(y))
    y = L.AdaptiveMaxPooling2D((4, 5))(L.AdaptiveAveragePooling2D((6, 7))(y))
    y = L.Flatten()(L.Permute((2, 3, 1))(L.SpatialDropout2D(0.5)(y)))
    y = L.UpSampling1D(3)(L.Cropping1D((0, 1))(L.RepeatVector(4)(y)))
    y = L.SpatialDropout1D(0.5)(L.ZeroPadding1D((2, 0))(y))
    return Model(x, [L.Dense(2)(y), L.Dot((2, 2), normalize=True)([y, y])])


def units():
    return stack((4, 3), L.Masking(0.5), L.Identity(), L.LeakyReLU(0.125), L.ELU(0.5), L.AlphaDropout(0.25),
                 L.GaussianDropout(0.25), L.GaussianNoise(0.5), L.ActivityRegularization(0.25),
                 L.UnitNormalization(axis=(1, 2)), L.Dense(2, kernel_regularizer="l2", bias_constraint="non_neg"))  # fmt: skip


def inner_model():
    a, b = Input((4,)), Input((4,))
    y = L.Subtract()([a, stack((4,), L.Dense(4))(b)])
    return Model([a, b], [L.Dense(4)(y), L.Multiply()([y, b])])


def models_in_models():
    x, y = Input((4,)), Input((4,))
    inner = inner_model()
    once = inner([x, y])
    twice = inner([once[1], once[0]])
    return Model([x, y], [twice[1], L.Dense(2)(once[0]), twice[0]])


def states():
    x = Input((5, 4))
    y, h, c = L.LSTM(3, return_sequences=True, return_state=True)(x)
    return Model(x, [L.LSTM(3)(y, initial_state=[h, c]), c])


def cut():
    x = Input((4,))
    middle = L.Dense(5)(x)
    return Model(middle, L.Dense(2)(middle))


@keras.saving.register_keras_serializable("tests")
class Shift(L.Layer):
    def __init__(self, by, **kwargs):
        super().__init__(**kwargs)
        self.by = by

    def call(self, x):
        return x + self.by

    def get_config(self):
        return {**super().get_config(), "by": self.by}


def numbers():
    layer = L.Normalization()
    layer.adapt(RANDOM.normal(3, 2, (50, 5)).astype("float32"))
    return stack((5,), layer, L.Dense(3))


def bins():
    layer = L.Discretization(num_bins=4)
    layer.bin_boundaries = [-0.7, 0.1, 0.8]  # as adapt() would, which asks for TensorFlow
    x = Input((3,))
    moments = L.Normalization(mean=[0.5, -1.0, 2.0], variance=[1.0, 4.0, 0.25])(x)
    sides = L.Discretization(bin_boundaries=[-0.5, 0.5], output_mode="count")(x)
    return Model(x, [L.Dense(2)(moments), L.Dense(2)(L.CategoryEncoding(4, output_mode="multi_hot")(layer(x))),
                     L.Normalization(axis=None, mean=1.0, variance=4.0, invert=True)(x), L.Dense(2)(sides)])  # fmt: skip


def lookups():
    """What needs TensorFlow in Python."""
    x = Input((3,), dtype="int64")
    counted = L.IntegerLookup(output_mode="count", num_oov_indices=2)
    weighed = L.IntegerLookup(output_mode="tf_idf")
    for layer in (counted, weighed):
        layer.adapt(numpy.array([[3, 5, 3], [7, 3, 9]]))
    ids = L.Embedding(6, 2)(L.IntegerLookup(vocabulary=[5, 7, 11], mask_token=0)(x))
    hashed = L.Hashing(5, salt=[1, 2], output_mode="one_hot", mask_value=3)(x)
    return Model(x, [L.Dense(2)(counted(x)), L.Dense(2)(weighed(x)), L.Flatten()(ids), L.Flatten()(hashed),
                     L.Embedding(4, 2)(L.Hashing(4)(x))])  # fmt: skip


class TwoLayers(Model):
    def __init__(self):
        super().__init__()
        self.hidden = L.Dense(4)
        self.out = L.Dense(2)

    def call(self, x):
        return self.out(self.hidden(x))


def own_class():
    model = TwoLayers()
    model(numpy.zeros((1, 5), "float32"))
    return model


def trained():
    """With an optimizer's state in its file."""
    model = stack((5,), L.Dense(7, "relu"), L.Dropout(0.5), L.Dense(3))
    model.compile("adam", "mse")
    model.fit(RANDOM.normal(size=(8, 5)), RANDOM.normal(size=(8, 3)), verbose=0)
    return model


def of_dtype(dtype, *layers):
    return lambda: stack((5,), *(layer(dtype=dtype) for layer in layers))


MODELS = {
    "mlp": trained,
    "images": lambda: stack((16, 12, 3), L.Conv2D(4, 3, padding="same", activation="relu"), L.BatchNormalization(),
                            L.MaxPooling2D(), L.Conv2DTranspose(6, 3, strides=2),
                            L.SeparableConv2D(8, 3, depth_multiplier=2), L.DepthwiseConv2D(3, depth_multiplier=2),
                            L.Conv2D(4, 1, groups=2, use_bias=False), L.GlobalAveragePooling2D(), L.Dense(3)),
    "signals": lambda: stack((20, 3), L.Conv1D(4, 3), L.SeparableConv1D(5, 3), L.DepthwiseConv1D(3),
                             L.Conv1DTranspose(3, 3, strides=2), L.PReLU(shared_axes=[1]), L.Flatten()),
    "volumes": lambda: stack((6, 6, 6, 2), L.Conv3D(3, 3), L.Conv3DTranspose(2, 3), L.Flatten(), L.Dense(2)),
    "norms": lambda: stack((6, 8), L.LayerNormalization(), L.BatchNormalization(center=False),
                           L.GroupNormalization(4), L.RMSNormalization(), L.BatchNormalization(scale=False),
                           L.Dense(2)),
    "text": lambda: stack((9,), L.Embedding(20, 8, mask_zero=True), L.LSTM(6, return_sequences=True), L.GRU(5),
                          L.Dense(1)),
    "recurrent": lambda: stack((7, 4), L.SimpleRNN(5, return_sequences=True),
                               L.GRU(4, reset_after=False, return_sequences=True), L.LSTM(3, use_bias=False)),
    "both_directions": lambda: stack((7, 4), L.Bidirectional(L.LSTM(5, return_sequences=True)),
                                     L.Bidirectional(L.GRU(4, return_sequences=True), merge_mode="sum"),
                                     L.Bidirectional(L.SimpleRNN(3))),
    "cells": lambda: stack((6, 4), L.RNN(L.LSTMCell(5), return_sequences=True),
                           L.RNN(L.StackedRNNCells([L.GRUCell(4), L.SimpleRNNCell(3), L.GRUCell(2)]),
                                 return_sequences=True),
                           L.TimeDistributed(L.Dense(2))),
    "films": lambda: stack((4, 6, 5, 2), L.ConvLSTM2D(3, 3, return_sequences=True), L.ConvLSTM2D(2, 3), L.Flatten(),
                           L.SpectralNormalization(L.Dense(2))),
    "attention": attention,
    "branches": branches,
    "nested": nested,
    "numbers": numbers,
    "doubles": of_dtype("float64", lambda dtype: L.Dense(3, dtype=dtype), L.BatchNormalization),
    "halves": of_dtype("float16", lambda dtype: L.Dense(3, dtype=dtype)),
    "brains": of_dtype("bfloat16", lambda dtype: L.Dense(3, dtype=dtype)),
    "own_class": own_class,
    "states": states,
    "models_in_models": models_in_models,
    "places": places,
    "units": units,
    "cut": cut,
    "own_layer": lambda: stack((5,), L.Dense(4), Shift(0.5)),
}  # fmt: skip


# Those of .keras files alone: their vocabularies and bins are in no file of weights.
ALONE = {"bins": bins}
try:
    import tensorflow  # noqa: F401

    ALONE["lookups"] = lookups
except ImportError:
    print("tensorflow is not installed for Python: lookups are not tested with it")

# Those whose .keras files are read and written too.
WHOLE = {"mlp", "images", "signals", "volumes", "norms", "text", "recurrent", "both_directions", "branches", "numbers",
         "doubles", "halves", "brains", "states", "models_in_models", "cut", "own_layer",
         "cells", "films", "attention", "places", "units"}  # fmt: skip


def randomize(model):
    """The statistics of Normalization are what they are; variances are positive."""
    for weight in model.weights:
        if weight.name not in ("mean", "count", "variance") and "seed" not in weight.name:
            low = 0.1 if "variance" in weight.name else -0.4
            weight.assign(RANDOM.uniform(low, 0.4, weight.shape).astype("float32"))


def inputs_of(name, model):
    if name == "lookups":
        return [RANDOM.integers(0, 12, (NUM_SAMPLES, 3)).astype("int64")]
    if name == "text":
        return [RANDOM.integers(0, 20, (NUM_SAMPLES, 9)).astype("int32")]
    shapes = [x.shape[1:] for x in model.inputs] if name != "own_class" else [(5,)]
    return [RANDOM.normal(size=(NUM_SAMPLES, *shape)).astype("float32") for shape in shapes]


def predictions(model, x):
    with torch.no_grad():
        y = model(x if len(x) > 1 else x[0], training=False)
    return [keras.ops.convert_to_numpy(keras.ops.cast(one, "float64")) for one in (y if isinstance(y, list) else [y])]


def save_legacy(file, model, fixed):
    """As Keras 2 had it; with texts of fixed lengths as older versions of h5py wrote them."""
    with h5py.File(file, "w") as opened:
        legacy_h5_format.save_weights_to_hdf5_group(opened, model)
        if not fixed:
            return
        for group in [opened, *opened.values()]:
            for name in ("layer_names", "weight_names"):
                if name in group.attrs and len(group.attrs[name]):
                    texts = numpy.array([text.encode() for text in group.attrs[name]], dtype="S")
                    del group.attrs[name]
                    for number, piece in enumerate(numpy.array_split(texts, 2)):
                        group.attrs[f"{name}{number}"] = piece


def load_npz(file):
    with numpy.load(file) as arrays:
        return [arrays[str(i)] for i in range(len(arrays.files))]


def datasets(file):
    """{path: (dtype, shape, bytes)} of the weights."""
    found = {}

    def note(path, entry):
        if isinstance(entry, h5py.Dataset) and not path.startswith("optimizer/"):
            found[path] = entry.dtype, entry.shape, entry[()].tobytes(), dict(entry.attrs)

    with h5py.File(file) as opened:
        opened.visititems(note)
    return found


def difference(seen, expected, dtype):
    """What is wrong, or nothing."""
    if [one.shape for one in seen] != [one.shape for one in expected]:
        return f"shapes {[one.shape for one in seen]} for {[one.shape for one in expected]}"
    largest = max(numpy.abs(a - b).max() / max(1, numpy.abs(b).max()) for a, b in zip(seen, expected))
    return "" if largest <= TOLERANCE[dtype] else f"differs by {largest}"


def check_alone(program, folder):
    """What is wrong with models that the program reads and writes as .keras files."""
    folder.mkdir()
    expected, inputs, wrong = {}, {}, []
    for name, make in ALONE.items():
        model = make()
        randomize(model)
        inputs[name] = inputs_of(name, model)
        expected[name] = predictions(model, inputs[name])
        numpy.savez(folder / f"{name}.x.npz", **{str(i): x for i, x in enumerate(inputs[name])})
        model.save(folder / f"{name}.keras")
    subprocess.run([program, folder, "alone"], check=True)
    for name in ALONE:
        own, again = (keras.saving.load_model(folder / f"{name}.{which}.keras") for which in ("own", "again"))
        results = {
            "read": difference(load_npz(folder / f"{name}.file.npz"), expected[name], "float32"),
            "written": difference(predictions(own, inputs[name]), load_npz(folder / f"{name}.own.npz"), "float32"),
            "written again": difference(predictions(again, inputs[name]), expected[name], "float32"),
        }
        wrong += [f"{name}: {way}: {what}" for way, what in results.items() if what]
    return wrong


def main():
    program, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    expected, inputs, dtypes = {}, {}, {}
    for name, make in MODELS.items():
        model = make()
        randomize(model)
        inputs[name] = inputs_of(name, model)
        expected[name] = predictions(model, inputs[name])
        dtypes[name] = model.weights[0].dtype
        numpy.savez(folder / f"{name}.x.npz", **{str(i): x for i, x in enumerate(inputs[name])})
        model.save_weights(folder / f"{name}.weights.h5")
        for ending in ("legacy", "fixed"):
            save_legacy(folder / f"{name}.{ending}.h5", model, ending == "fixed")
        if name in WHOLE:
            model.save(folder / f"{name}.keras")
            model.save(folder / f"{name}.saved.h5")
    subprocess.run([program, folder], check=True)
    wrong = check_alone(program, folder / "alone")
    for name, make in MODELS.items():
        read = difference(load_npz(folder / f"{name}.y.npz"), expected[name], dtypes[name])
        model = make()
        model.load_weights(folder / f"{name}.own.weights.h5")
        written = difference(predictions(model, inputs[name]), load_npz(folder / f"{name}.own.npz"), dtypes[name])
        same = datasets(folder / f"{name}.weights.h5") == datasets(folder / f"{name}.again.weights.h5")
        legacy = {
            ending: difference(load_npz(folder / f"{name}.{ending}.npz"), expected[name], dtypes[name])
            for ending in ("legacy", "fixed", *(["saved"] if name in WHOLE else []))
        }
        results = {**legacy, "read": read, "written": written, "written again": "" if same else "other weights"}
        if name in WHOLE:
            own, again = (keras.saving.load_model(folder / f"{name}.{which}.keras") for which in ("own", "again"))
            results |= {
                "whole": difference(load_npz(folder / f"{name}.file.npz"), expected[name], dtypes[name]),
                "whole written": difference(
                    predictions(own, inputs[name]), load_npz(folder / f"{name}.own.npz"), dtypes[name]
                ),
                "whole written again": difference(predictions(again, inputs[name]), expected[name], dtypes[name]),
            }
        wrong += [f"{name}: {way}: {what}" for way, what in results.items() if what]
    print(*wrong, sep="\n")
    print(f"{len(MODELS) + len(ALONE)} models of Keras {keras.__version__}, {len(WHOLE)} whole ones, HDF5 {h5py.version.hdf5_version}, {len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
