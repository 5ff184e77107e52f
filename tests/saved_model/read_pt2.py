"""Runs the .pt2 files that write_models and write_onnx have made by Python's torch.export, and compares the bits.

read_pt2.py TORCH FOLDER PROGRAM...: runs the programs first, each of which fills the folder. TORCH is the folder of the
LibTorch that they use. With TUTTI_TEST_AOT=1 AOTInductor compiles some of them too, which takes minutes and a C++
compiler. Exits with 77, which ctest counts as skipped, where that comes without its Python part, or what
torch.export needs is not installed."""

import json
import logging
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import warnings

warnings.simplefilter("error", append=True)
sys.path.insert(0, sys.argv[1])
try:
    import filelock, networkx, sympy  # which torch.export.load imports when it is called
    import torch
    import torch.export
    from torch.export.pt2_archive import is_pt2_package
except ImportError as error:
    print(f"{error}: nothing was tested with it")
    sys.exit(77)
if pathlib.Path(sys.argv[1]) not in pathlib.Path(torch.__file__).parents:
    print(f"{sys.argv[1]} has no part for Python: nothing was tested with it")
    sys.exit(77)

DTYPES = {"F32": torch.float32, "F64": torch.float64, "F16": torch.float16, "BF16": torch.bfloat16, "I64": torch.int64,
          "I32": torch.int32, "I16": torch.int16, "I8": torch.int8, "U8": torch.uint8, "BOOL": torch.bool}


class Logged(logging.Handler):
    """What torch has to say besides."""

    def __init__(self):
        super().__init__(logging.WARNING)
        self.lines = []

    def emit(self, record):
        self.lines.append(record.getMessage())


def read_tensors(file):
    data = file.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        dtype = DTYPES[entry["dtype"]]
        flat = torch.frombuffer(bytearray(data[begin:end]), dtype=dtype) if end > begin else torch.empty(0, dtype=dtype)
        tensors[name] = flat.reshape(entry["shape"])
    return tensors


def bits(tensor):
    return tensor.dtype, tensor.shape, tensor.contiguous().reshape(-1).view(torch.uint8).tolist()


def check_model(folder):
    """Yields what is wrong."""
    assert is_pt2_package(str(folder / "f.pt2"))
    program = torch.export.load(folder / "f.pt2")
    module = program.module()
    samples, by_name = program.example_inputs
    assert by_name == {}
    module(*samples)
    files = list(folder.parent.glob(folder.name + "_[0-9]*.safetensors"))
    assert len(files) > 1, folder
    for file in files:
        tensors = read_tensors(file)
        inputs = [tensors[f"x{i}"] for i in range(len(samples))]
        results = module(*inputs)
        results = results if isinstance(results, tuple) else (results,)
        assert f"y{len(results) - 1}" in tensors and f"y{len(results)}" not in tensors, file
        for i, result in enumerate(results):
            if bits(result) != bits(tensors[f"y{i}"]):
                yield f"{file.name}: result {i} has other bits, {result.dtype}{list(result.shape)}"


def refuses(module, *inputs):
    try:
        module(*inputs)
    except (AssertionError, RuntimeError):
        return True
    return False


def check_files(root):
    """What the files say besides."""
    program = torch.export.load(root / "torch_cnn" / "f.pt2")
    assert "conv1.weight" in program.state_dict and "norm.running_mean" in program.state_dict, program.state_dict.keys()
    assert {name for name, _ in program.named_parameters()} >= {"conv1.weight", "out.bias"}
    assert {name for name, _ in program.named_buffers()} >= {"norm.running_mean", "norm.running_var"}
    keras = torch.export.load(root / "keras_mlp" / "f.pt2")
    assert any(name.endswith("dense.kernel") for name in keras.state_dict), keras.state_dict.keys()
    assert refuses(keras.module(), torch.zeros(3, 7)), "a row of 7 numbers where there are 20"
    two = torch.export.load(root / "two_sizes" / "f.pt2")
    first, second, third = next(node for node in two.graph.nodes if node.name in two.graph_signature.user_inputs).meta["val"].shape
    assert isinstance(first, torch.SymInt) and isinstance(second, torch.SymInt) and str(first) != str(second) and third == 3
    for name in ("keras_mlp", "keras_transformer", "torch_cnn", "two_sizes"):
        check_decomposed(torch.export.load(root / name / "f.pt2"))


def check_decomposed(program):
    """What other tools begin with: the graph is traced anew, with the sizes that it tells."""
    samples = program.example_inputs[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of PyTorch, about a class of its own
        decomposed = program.run_decompositions()
    seen, expected = decomposed.module()(*samples), program.module()(*samples)
    assert all(torch.allclose(a, b, atol=1e-5) for a, b in zip(torch.utils._pytree.tree_leaves(seen),
                                                              torch.utils._pytree.tree_leaves(expected)))


def check_compiled(root):
    """AOTInductor's machine code gives torch.export's results, of any batch."""
    import torch._inductor

    for name in ("keras_mlp", "torch_cnn"):
        program = torch.export.load(root / name / "f.pt2")
        compiled = torch._inductor.aoti_load_package(
            torch._inductor.aoti_compile_and_package(program, package_path=str(root / name / "f_compiled.pt2")))
        for file in root.glob(name + "_[0-9]*.safetensors"):
            seen, expected = compiled(read_tensors(file)["x0"]), read_tensors(file)["y0"]
            assert torch.allclose(seen, expected, rtol=1e-5, atol=1e-5), file
        print(f"{name}: compiled by AOTInductor")


def main():
    root = pathlib.Path(sys.argv[2])
    shutil.rmtree(root, ignore_errors=True)
    for program in sys.argv[3:]:
        subprocess.run([program, root], check=True, stdout=subprocess.DEVNULL)
    torch.set_num_threads(1)
    logged = Logged()
    for name in ("torch", "torch._export.serde.serialize", "torch.export", "torch.export.pt2_archive._package"):
        logging.getLogger(name).addHandler(logged)
    num_models = num_wrong = 0
    with torch.no_grad():
        for folder in sorted(path for path in root.iterdir() if path.is_dir()):
            num_models += 1
            try:
                wrong = list(check_model(folder))
            except Exception as error:  # of any kind, as torch has many
                wrong = [f"{folder.name}: {type(error).__name__}: {error}"[:2000]]
            num_wrong += len(wrong)
            print(*wrong, sep="\n", end="\n" if wrong else "")
        check_files(root)
        if os.environ.get("TUTTI_TEST_AOT") == "1":
            check_compiled(root)
        else:
            print("AOTInductor compiled nothing: TUTTI_TEST_AOT is not 1")
    assert not logged.lines, logged.lines
    print(f"{num_models} models by torch.export of {torch.__version__}, {num_wrong} wrong results")
    return 0 if num_models >= 12 and num_wrong == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
