"""A training goes on where the other side has saved it: from a .keras file of Python's Keras here, and from one of Tutti's
there, with the same losses, metrics and weights as without the file.

train_on.py KERAS_TRAINING FOLDER [TORCH]: TORCH is a folder to import torch from. Exits with 77, which ctest counts as
skipped, where keras, h5py or torch is not installed."""

import os
import pathlib
import shutil
import subprocess
import sys
import warnings

os.environ["KERAS_BACKEND"] = "torch"
sys.path += sys.argv[3:]
try:
    import h5py
    import keras
    import numpy
    import torch  # noqa: F401
except ImportError as error:
    print(f"{error}: nothing was tested with it")
    sys.exit(77)

from keras import Input, Model, Sequential
from keras import layers as L
from keras import losses as loss_classes
from keras import metrics as metric_classes
from keras import optimizers as O

TOLERANCE = 1e-6  # in parts of the largest number where that is above 1
NUM_BEFORE, NUM_HALF = 3, 2  # updates before the file; on either side of the second file
RANDOM = numpy.random.default_rng(7)
X = [RANDOM.normal(size=(8, 5)).astype("float32") for _ in range(8)]
NUMBERS = [RANDOM.normal(size=(8, 3)).astype("float32") for _ in range(8)]
CLASSES = [RANDOM.integers(0, 3, (8, 1)).astype("int32") for _ in range(8)]
ONE_HOT = [numpy.eye(3, dtype="float32")[classes[:, 0]] for classes in CLASSES]
BITS = [RANDOM.integers(0, 2, (8, 3)).astype("float32") for _ in range(8)]


def chain(activation=None):
    return Sequential([Input((5,)), L.Dense(6, "tanh"), L.Dense(3, activation)])


def branches():
    """Whose weights Keras has in another order than that in which they are made."""
    x = Input((5,))
    last, side, first = L.Dense(3), L.Dense(4), L.Dense(4, activation="tanh")
    short_way = side(x)
    return Model(x, last(L.Concatenate()([short_way, L.Dense(5)(first(x))])))


def two_ends():
    x = Input((5,))
    return Model(x, [L.Dense(3, name="p")(x), L.Dense(3, name="q")(x)])


def half_frozen():
    model = branches()
    model.layers[2].trainable = False
    return model


SCHEDULES = O.schedules
OPTIMIZERS = {
    "sgd": lambda: O.SGD(0.05),
    "momentum": lambda: O.SGD(0.05, momentum=0.9, clipnorm=0.5),
    "nesterov": lambda: O.SGD(0.05, momentum=0.9, nesterov=True, weight_decay=0.01, global_clipnorm=1.0),
    "adam": lambda: O.Adam(0.002),
    "amsgrad": lambda: O.Adam(0.002, amsgrad=True, beta_1=0.8, beta_2=0.99, epsilon=1e-4),
    "averages": lambda: O.Adam(0.002, amsgrad=True, use_ema=True, ema_momentum=0.9, ema_overwrite_frequency=4),
    "accumulates": lambda: O.RMSprop(0.01, gradient_accumulation_steps=2, use_ema=True),
    "adamw": lambda: O.AdamW(0.002, weight_decay=0.1, clipvalue=0.2),
    "rmsprop": lambda: O.RMSprop(0.01),
    "rmsprop_all": lambda: O.RMSprop(0.01, rho=0.8, momentum=0.5, centered=True, epsilon=1e-4),
    "adadelta": lambda: O.Adadelta(0.5),
    "adagrad": lambda: O.Adagrad(0.05, initial_accumulator_value=0.2),
    "adamax": lambda: O.Adamax(0.002),
    "nadam": lambda: O.Nadam(0.002),
    "ftrl": lambda: O.Ftrl(0.05, l1_regularization_strength=0.01, l2_regularization_strength=0.02, beta=0.1),
    "lion": lambda: O.Lion(0.005),
    "lamb": lambda: O.Lamb(0.002),
    "muon": lambda: O.Muon(0.01, nesterov=False, rms_rate=None),
    "adafactor": lambda: O.Adafactor(0.05),
    "schedule_free": lambda: O.ScheduleFreeAdamW(0.002),
    "loss_scale": lambda: O.LossScaleOptimizer(O.Adam(0.002), initial_scale=64.0, dynamic_growth_steps=4),
    "loss_scale_factor": lambda: O.SGD(0.05, momentum=0.5, loss_scale_factor=16.0),
    "exponential": lambda: O.Adam(SCHEDULES.ExponentialDecay(0.004, 2, 0.5, staircase=True)),
    "inverse": lambda: O.SGD(SCHEDULES.InverseTimeDecay(0.1, 2, 0.5)),
    "piecewise": lambda: O.SGD(SCHEDULES.PiecewiseConstantDecay([2, 4], [0.1, 0.05, 0.01])),
    "polynomial": lambda: O.SGD(SCHEDULES.PolynomialDecay(0.1, 5, power=2.0, cycle=True)),
    "cosine": lambda: O.SGD(SCHEDULES.CosineDecay(0.01, 6, warmup_target=0.1, warmup_steps=4), momentum=0.5),
    "restarts": lambda: O.SGD(SCHEDULES.CosineDecayRestarts(0.1, 3, t_mul=1.5, m_mul=0.5)),
}
REDUCTIONS = ["sum", "sum_over_batch_size", "mean", "mean_with_sample_weight"]
LOSSES = {
    NUMBERS[0].tobytes(): [
        "mse", "mean_absolute_error", "MAPE", "msle", keras.losses.log_cosh, loss_classes.Huber(reduction="sum"),
        *(loss_classes.MeanSquaredError(reduction=reduction, name="own") for reduction in REDUCTIONS),
        loss_classes.MeanAbsoluteError(), loss_classes.CosineSimilarity(), loss_classes.LogCosh(),
    ],
    BITS[0].tobytes(): [
        "bce", loss_classes.BinaryCrossentropy(from_logits=True, label_smoothing=0.1, axis=1),
        loss_classes.BinaryFocalCrossentropy(apply_class_balancing=True, alpha=0.3, gamma=1.5),
        loss_classes.Hinge(), loss_classes.SquaredHinge(), "poisson", "kld",
        loss_classes.Dice(axis=[1]), loss_classes.Dice(), loss_classes.Tversky(alpha=0.3, beta=0.6),
    ],
    ONE_HOT[0].tobytes(): [
        "crossentropy", loss_classes.CategoricalCrossentropy(label_smoothing=0.2),
        loss_classes.CategoricalFocalCrossentropy(alpha=0.5, gamma=1.0), loss_classes.CategoricalHinge(),
    ],
    CLASSES[0].tobytes(): [
        "sparse_categorical_crossentropy", loss_classes.SparseCategoricalCrossentropy(from_logits=True, ignore_class=1),
    ],
}  # fmt: skip
M = metric_classes
METRICS = {
    "numbers": [
        "mae", "mse", M.MeanAbsolutePercentageError(), M.MeanSquaredLogarithmicError(), M.RootMeanSquaredError(name="r"),
        M.LogCoshError(), M.CosineSimilarity(), M.PearsonCorrelation(axis=1), M.ConcordanceCorrelation(),
        M.R2Score(class_aggregation="variance_weighted_average"), M.R2Score(name="r2"),
    ],
    "bits": [
        "accuracy", M.BinaryAccuracy(threshold=0.4), M.BinaryCrossentropy(label_smoothing=0.1), M.Hinge(),
        M.SquaredHinge(), M.KLDivergence(), M.Poisson(), M.AUC(), M.AUC(50, "PR", "majoring", multi_label=True),
        M.AUC(thresholds=[0.2, 0.6], label_weights=[0.5, 1.0, 2.0], multi_label=True, num_labels=3, name="weighed"),
        M.TruePositives(), M.FalsePositives(thresholds=0.3), M.TrueNegatives(thresholds=[0.7]), M.FalseNegatives(),
        M.Precision(), M.Recall(thresholds=0.2, class_id=1), M.Precision(top_k=2, name="top"),
        M.SensitivityAtSpecificity(0.4), M.SpecificityAtSensitivity(0.4, num_thresholds=50), M.PrecisionAtRecall(0.5),
        M.RecallAtPrecision(0.5, class_id=2), M.F1Score("macro", threshold=0.5), M.FBetaScore("micro", 2.0, 0.4),
        M.BinaryIoU([0, 1], 0.6),
    ],
    "one_hot": [
        "acc", M.CategoricalAccuracy(), M.TopKCategoricalAccuracy(2), M.CategoricalCrossentropy(label_smoothing=0.1),
        M.CategoricalHinge(), M.OneHotIoU(3, [0, 2]), M.OneHotMeanIoU(3), M.Accuracy(name="equal"),
        M.F1Score("weighted"),
    ],
    "classes": [
        "accuracy", M.SparseCategoricalAccuracy(), M.SparseTopKCategoricalAccuracy(2),
        M.SparseCategoricalCrossentropy(ignore_class=2), M.MeanIoU(3, sparse_y_pred=False),
        M.IoU(3, [0, 1], sparse_y_pred=False, name="some"),
    ],
}  # fmt: skip
# With torch Keras takes the momentum behind its update for the one before it: only what goes through files is the same.
COMPUTED_OTHERWISE = {"optimizer_schedule_free"}
LABELS = {"numbers": NUMBERS, "bits": BITS, "one_hot": ONE_HOT, "classes": CLASSES}
ACTIVATION = {"numbers": None, "bits": "sigmoid", "one_hot": "softmax", "classes": "softmax"}


def cases():
    """{name: (model, what compile is told, labels of each output)}"""
    found = {}
    for name, make in OPTIMIZERS.items():
        found[f"optimizer_{name}"] = branches, {"optimizer": make(), "loss": "mse", "metrics": ["mae"]}, [NUMBERS]
    for kind, (key, losses) in zip(("numbers", "bits", "one_hot", "classes"), LOSSES.items()):
        assert LABELS[kind][0].tobytes() == key
        for number, loss in enumerate(losses):
            make = (lambda kind: lambda: chain(ACTIVATION[kind]))(kind)
            found[f"loss_{kind}_{number}"] = make, {"optimizer": O.SGD(0.02), "loss": loss}, [LABELS[kind]]
    for kind, metrics in METRICS.items():
        make = (lambda kind: lambda: chain(ACTIVATION[kind]))(kind)
        loss = {"numbers": "mse", "bits": "bce", "one_hot": "ce", "classes": "crossentropy"}[kind]
        told = {"optimizer": "sgd", "loss": loss, "metrics": metrics}
        found[f"metrics_{kind}"] = make, told, [LABELS[kind]]
    ends = {
        "names": ({"p": "mse", "q": loss_classes.LogCosh()}, {"p": 1.0, "q": 0.2}, {"p": ["mae"], "q": [M.CosineSimilarity()]}),
        "list": (["mse", "mae"], [1, 0.5], [["mae"], ["mse"]]),
        "some": (["mse", None], None, None),
        "one_for_all": ("mse", None, [M.MeanAbsoluteError(), M.MeanSquaredError()]),
    }  # fmt: skip
    for name, (loss, weights, metrics) in ends.items():
        told = {"optimizer": O.Adam(0.002), "loss": loss, "loss_weights": weights, "metrics": metrics}
        found[f"ends_{name}"] = two_ends, told, [NUMBERS, NUMBERS[::-1]]
    told = {"optimizer": O.RMSprop(0.01), "loss": "mse", "weighted_metrics": ["mse", M.MeanAbsoluteError(name="w")],
            "metrics": ["mse"], "steps_per_execution": 1}  # fmt: skip
    found["weighted"] = chain, told, [NUMBERS]
    found["half_frozen"] = half_frozen, {"optimizer": O.Adam(0.002), "loss": "mse"}, [NUMBERS]
    return found


def batch(labels, step):
    y = [of_output[step] for of_output in labels]
    return X[step], y[0] if len(y) == 1 else y


def train(model, labels, steps):
    """The logs of each update."""
    logs = {}
    for step in steps:
        model.reset_metrics()
        x, y = batch(labels, step)
        for key, value in model.train_on_batch(x, y, return_dict=True).items():
            logs[f"{step}:{key}"] = numpy.asarray(value, "float64")
    return logs


def weights_of(model):
    return {str(i): keras.ops.convert_to_numpy(weight) for i, weight in enumerate(model.weights)}


def differences(seen, expected):
    if set(seen) != set(expected):
        return f"has {sorted(set(seen) ^ set(expected))} on one side alone"
    for key, value in expected.items():
        a, b = numpy.asarray(seen[key], "float64"), numpy.asarray(value, "float64")
        if a.shape != b.shape:
            return f"{key}: shapes {a.shape} and {b.shape}"
        both_nan = numpy.isnan(a) & numpy.isnan(b)
        largest = numpy.where(both_nan, 0, numpy.abs(a - b)).max(initial=0) / max(1, numpy.nanmax(numpy.abs(b), initial=0))
        if not largest <= TOLERANCE:
            return f"{key} differs by {largest}: {a.ravel()[:4]} and {b.ravel()[:4]}"
    return ""


def load_npz(file):
    with numpy.load(file) as arrays:
        return {key: arrays[key] for key in arrays.files}


def optimizer_datasets(folder, file):
    """{path: (dtype, shape)} of the optimizer's state in a .keras file."""
    import io
    import zipfile

    found = {}

    def note(path, entry):
        if isinstance(entry, h5py.Dataset) and path.startswith("optimizer/"):
            found[path] = str(entry.dtype), entry.shape

    with zipfile.ZipFile(folder / file) as archive, h5py.File(io.BytesIO(archive.read("model.weights.h5"))) as opened:
        opened.visititems(note)
    return found


def logs_of_tutti(folder, name, like):
    """Keras does not tell the loss of one output where others have none."""
    with_names = any(key.endswith("p_loss") for key in like)
    return {key: value for key, value in load_npz(folder / f"{name}.logs.npz").items()
            if with_names or not key.endswith("p_loss")}  # fmt: skip


def check(folder, name, model, labels):
    """Python's own training is the one to meet; `own` was saved by Tutti in its middle, `again` is the file read and
    written."""
    middle, end = NUM_BEFORE + NUM_HALF, NUM_BEFORE + 2 * NUM_HALF
    expected = train(model, labels, range(NUM_BEFORE, middle))
    second = train(model, labels, range(middle, end))
    results = {
        "read": differences(logs_of_tutti(folder, name, expected), expected | second),
        "state": "" if optimizer_datasets(folder, f"{name}.again.keras") == optimizer_datasets(folder, f"{name}.keras")
                 else f"{optimizer_datasets(folder, f'{name}.again.keras')} is not "
                      f"{optimizer_datasets(folder, f'{name}.keras')}",
    }  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)  # Keras only warns where it leaves state out
        again = keras.saving.load_model(folder / f"{name}.again.keras")
        own = keras.saving.load_model(folder / f"{name}.own.keras")
    results["written again"] = differences(train(again, labels, range(NUM_BEFORE, end)), expected | second)
    results["written"] = differences(train(own, labels, range(middle, end)), second)
    results["weights written again"] = differences(weights_of(again), weights_of(model))
    results["weights written"] = differences(weights_of(own), weights_of(model))
    if name in COMPUTED_OTHERWISE:
        results = {way: what for way, what in results.items() if way in ("state", "written again", "weights written again")}
    return [f"{name}: {way}: {what}" for way, what in results.items() if what]


def main():
    program, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    wanted = sys.argv[4:]
    models = {}
    for name, (make, told, labels) in cases().items():
        if wanted and name not in wanted:
            continue
        keras.utils.set_random_seed(1)
        model = make()
        model.compile(**told)
        train(model, labels, range(NUM_BEFORE))
        model.save(folder / f"{name}.keras")
        models[name] = model, labels
        batches = {f"{step}:x": X[step] for step in range(len(X))}
        for output, of_output in enumerate(labels):
            batches |= {f"{step}:y{output}": of_output[step] for step in range(len(X))}
        numpy.savez(folder / f"{name}.batches.npz", **batches)
    subprocess.run([program, folder, str(NUM_BEFORE), str(NUM_HALF)], check=True)
    wrong = [line for name, (model, labels) in models.items() for line in check(folder, name, model, labels)]
    print(*wrong, sep="\n")
    print(f"{len(models)} trainings of Keras {keras.__version__}, {len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
