"""Runs the ONNX files that write_models and write_onnx have made by PyPI's onnxruntime, and compares the numbers.

read_onnx.py FOLDER PROGRAM...: runs the programs first, each of which fills the folder. Exits with 77, which ctest counts
as skipped, where onnx or onnxruntime is not installed."""

import ctypes
import json
import pathlib
import shutil
import struct
import subprocess
import sys

try:
    import numpy
    import onnx
    import onnxruntime
except ImportError as error:
    print(f"{error}: nothing was tested with it")
    sys.exit(77)

# What a result may differ by, in parts of its largest number where that is above 1; of 16-bit numbers a rounding or two.
TOLERANCE = {numpy.dtype("float32"): 1e-6, numpy.dtype("float64"): 1e-12, numpy.dtype("float16"): 2e-3}
DTYPES = {"F32": "f4", "F64": "f8", "F16": "f2", "I64": "i8", "I32": "i4", "I16": "i2", "I8": "i1", "U8": "u1", "BOOL": "?"}


def bfloat16(bits):
    return (numpy.frombuffer(bits, "<u2").astype("u4") << 16).view("f4")


def read_tensors(file):
    """{name: (array, whether it is of bfloat16)}, of a safetensors file."""
    data = file.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        is_bfloat16 = entry["dtype"] == "BF16"
        array = bfloat16(data[begin:end]) if is_bfloat16 else numpy.frombuffer(data[begin:end], DTYPES[entry["dtype"]])
        tensors[name] = array.reshape(entry["shape"]), is_bfloat16
    return tensors


def input_of(array, is_bfloat16):
    if not is_bfloat16:
        return onnxruntime.OrtValue.ortvalue_from_numpy(numpy.ascontiguousarray(array).reshape(array.shape))
    bits = (array.view("u4") >> 16).astype("u2")
    return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(bits, onnx.TensorProto.BFLOAT16)


def difference(result, expected, is_bfloat16):
    """How many times what it may be; the dtype and the shape must be the same."""
    if is_bfloat16:
        seen = bfloat16(ctypes.string_at(result.data_ptr(), 2 * expected.size)).reshape(result.shape())
    else:
        seen = result.numpy()
    if seen.dtype != expected.dtype or seen.shape != expected.shape:
        return f"{seen.dtype}{list(seen.shape)} for {expected.dtype}{list(expected.shape)}"
    if expected.dtype.kind != "f":
        return 0 if numpy.array_equal(seen, expected) else "other integers"
    if not numpy.array_equal(numpy.isfinite(seen), numpy.isfinite(expected)):
        return "other numbers that are not finite"
    finite = numpy.isfinite(expected)
    seen, exact = seen[finite].astype("f8"), expected[finite].astype("f8")
    off = numpy.abs(seen - exact).max(initial=0) / numpy.abs(exact).max(initial=1)
    return float(off) / (1e-2 if is_bfloat16 else TOLERANCE[expected.dtype])


def check_model(folder):
    """Yields what is wrong."""
    onnx.checker.check_model(folder / "f.onnx", full_check=True)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(folder / "f.onnx", options, providers=["CPUExecutionProvider"])
    files = list(folder.parent.glob(folder.name + "_[0-9]*.safetensors"))
    assert len(files) > 1, folder
    for file in files:
        tensors = read_tensors(file)
        inputs = {one.name: input_of(*tensors[f"x{i}"]) for i, one in enumerate(session.get_inputs())}
        results = session.run_with_ort_values([one.name for one in session.get_outputs()], inputs)
        assert f"y{len(results) - 1}" in tensors and f"y{len(results)}" not in tensors, file
        for i, (one, result) in enumerate(zip(session.get_outputs(), results)):
            expected, is_bfloat16 = tensors[f"y{i}"]
            off = difference(result, expected, is_bfloat16)
            if isinstance(off, str) or not off <= 1:
                yield f"{file.name}: {one.name}: {off}"


def check_files(root):
    """What the files say besides."""
    shared = onnx.load(root / "shared" / "f.onnx").graph
    assert [list(weight.dims) for weight in shared.initializer] == [[16, 16]], "a weight that is used three times is there once"
    external = onnx.load(root / "external" / "f.onnx", load_external_data=False).graph
    places = [weight for weight in external.initializer if weight.data_location == onnx.TensorProto.EXTERNAL]
    assert [{entry.key: entry.value for entry in weight.external_data}["location"] for weight in places] == [
        "variables.safetensors"], "weights that are to lie outside"
    names = onnx.load(root / "names" / "f.onnx").graph
    assert [one.name for one in names.input] == ["MatMul", "constant", "unused", "a name/with: signs"]
    assert [one.name for one in names.output] == ["Add", "Add_1", "itself", "only", "same", "weight"]
    sizes = onnx.load(root / "two_sizes" / "f.onnx").graph.input[0].type.tensor_type.shape.dim
    assert [dim.dim_param or dim.dim_value for dim in sizes] == ["batch", "size_1", 3]


def main():
    root = pathlib.Path(sys.argv[1])
    shutil.rmtree(root, ignore_errors=True)
    for program in sys.argv[2:]:
        subprocess.run([program, root], check=True, stdout=subprocess.DEVNULL)
    num_models = num_wrong = 0
    for folder in sorted(path for path in root.iterdir() if path.is_dir()):
        num_models += 1
        wrong = list(check_model(folder))
        num_wrong += len(wrong)
        print(*wrong, sep="\n", end="\n" if wrong else "")
    check_files(root)
    print(f"{num_models} models by onnxruntime {onnxruntime.__version__}, {num_wrong} wrong results")
    return 0 if num_models >= 12 and num_wrong == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
