"""Writes .pt2 files by Python's torch.export, and has a program of tutti compare the bits of what they give.

export_from_python.py TORCH FOLDER PROGRAM: fills the folder with NAME.pt2 and NAME_BATCH.safetensors (inputs "x0", …,
results "y0", … in the order of their names), and runs the program on it. TORCH is the folder of the LibTorch that it
uses. Exits with 77, which ctest counts as skipped, where that comes without its Python part, or what torch.export needs
is not installed."""

import json
import pathlib
import shutil
import struct
import subprocess
import sys

sys.path.insert(0, sys.argv[1])
try:
    import filelock, networkx, sympy  # which torch.export.load imports when it is called
    import torch
    from torch import nn
except ImportError as error:
    print(f"{error}: nothing was tested with it")
    sys.exit(77)
if pathlib.Path(sys.argv[1]) not in pathlib.Path(torch.__file__).parents:
    print(f"{sys.argv[1]} has no part for Python: nothing was tested with it")
    sys.exit(77)

ROOT = pathlib.Path(sys.argv[2])
NAMES = {torch.float32: "F32", torch.float64: "F64", torch.bfloat16: "BF16", torch.int64: "I64", torch.bool: "BOOL"}


def write_tensors(file, tensors):
    header, data = {}, b""
    for name, tensor in tensors.items():
        part = bytes(tensor.contiguous().reshape(-1).view(torch.uint8).tolist())
        header[name] = {"dtype": NAMES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [len(data), len(data) + len(part)]}
        data += part
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    file.write_bytes(struct.pack("<Q", len(text)) + text + data)


def write(name, module, sample, shapes=None):
    """`sample(batch)` gives the inputs; the first axis of each is free."""
    module.eval()
    shapes = shapes or tuple({0: torch.export.Dim("batch", max=1000)} for _ in sample(5))
    program = torch.export.export(module, sample(5), dynamic_shapes=shapes)
    torch.export.save(program, ROOT / f"{name}.pt2")
    exported = program.module()
    for batch in (2, 5, 64):
        inputs = sample(batch)
        with torch.no_grad():
            results = exported(*inputs)
        if isinstance(results, dict):
            results = [results[key] for key in sorted(results)]
        elif torch.is_tensor(results):
            results = [results]
        inputs = torch.utils._pytree.tree_leaves(inputs)
        tensors = {f"x{i}": x for i, x in enumerate(inputs)} | {f"y{i}": y for i, y in enumerate(results)}
        write_tensors(ROOT / f"{name}_{batch}.safetensors", tensors)


class Shared(nn.Module):
    """One weight by two names, a view of it, and a buffer that is no part of the state_dict; inputs in structures."""

    def __init__(self):
        super().__init__()
        self.one, self.other = nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False)
        self.other.weight = self.one.weight
        self.row = nn.Parameter(self.one.weight.detach()[1])
        self.register_buffer("table", torch.arange(40.0).reshape(10, 4)[2:8:2], persistent=False)

    def forward(self, pair, by_name):
        return self.one(pair[0]) + self.row, self.other(pair[1]) @ self.table.t(), by_name["b"] - by_name["a"]


class Calls(nn.Module):
    def __init__(self, function, **children):
        super().__init__()
        self.function = function
        for name, child in children.items():
            setattr(self, name, child)


class One(Calls):
    def forward(self, x):
        return self.function(self, x)


class Two(Calls):
    def forward(self, x, y):
        return self.function(self, x, y)


def write_layers():
    rows = lambda batch: (torch.randn(batch, 20),)
    words = lambda batch: (torch.randint(0, 50, (batch, 12)),)
    write("mlp", nn.Sequential(nn.Linear(20, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, 3)), rows)
    write("cnn", nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 4, 3),
                               nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Softmax(1)), lambda batch: (torch.randn(batch, 1, 14, 14),))
    write("lstm", One(lambda self, x: self.out(self.lstm(self.embedding(x))[0][:, -1]), embedding=nn.Embedding(50, 8),
                      lstm=nn.LSTM(8, 16, batch_first=True), out=nn.Linear(16, 4)), words)
    write("gru", One(lambda self, x: self.norm(self.gru(x)[0]).mean(1), gru=nn.GRU(8, 16, 2, batch_first=True),
                     norm=nn.LayerNorm(16)), lambda batch: (torch.randn(batch, 12, 8),))
    write("attention", One(lambda self, x: self.attention(x, x, x, need_weights=False)[0],
                           attention=nn.MultiheadAttention(16, 2, batch_first=True)), lambda batch: (torch.randn(batch, 6, 16),))
    write("double", nn.Sequential(nn.Linear(20, 5).double(), nn.GELU()), lambda batch: (torch.randn(batch, 20).double(),))
    write("bfloat16", nn.Linear(20, 5).bfloat16(), lambda batch: (torch.randn(batch, 20).bfloat16(),))


def write_functions():
    two = lambda batch: (torch.randn(batch, 4), torch.randn(batch, 4))
    write("two_inputs", Two(lambda self, x, y: (x @ y.t(), x.shape[0] * y, torch.cat([x, y], 1))), two)
    write("dictionary", Two(lambda self, x, y: {"sum": x + y, "greater": x > y, "first": x[:, 0]}), two)
    write("constants", One(lambda self, x: x * torch.tensor([1.0, 2.0, 3.0, 4.0]) + 0.5 - 2 ** x), lambda batch: (torch.randn(batch, 4),))
    write("sizes", One(lambda self, x: x.view(x.shape[0] * 2, 2).repeat(1, 2).reshape(x.shape[0], -1) + x.shape[0]),
          lambda batch: (torch.randn(batch, 4),))

    def fills(self, x):
        y = torch.zeros(x.shape[0], 4, dtype=x.dtype)
        y[:, 1:3] = x[:, :2].clamp(min=-0.5)
        y.masked_fill_(x > 1, -float("inf"))
        return y.relu_() + y

    write("in_place", One(fills), lambda batch: (torch.randn(batch, 4),))
    write("integers", One(lambda self, x: (x // 3, x.float().mean(), torch.where(x > 20, x, -1), x.sort(dim=1)[1], x.split(2, 1)[1])),
          lambda batch: (torch.randint(0, 50, (batch, 4)),))
    free = ({0: torch.export.Dim("batch"), 1: torch.export.Dim("length")},)
    write("two_sizes", One(lambda self, x: self.out(x).sum(1) + x.shape[1], out=nn.Linear(3, 2)),
          lambda batch: (torch.randn(batch, batch + 3, 3),), free)


def write_structures():
    def sample(batch):
        return (torch.randn(batch, 4), torch.randn(batch, 4)), {"b": torch.randn(batch), "a": torch.randn(batch)}

    batch = {0: torch.export.Dim("batch", max=1000)}
    write("structures", Shared(), sample, ((batch, batch), {"b": batch, "a": batch}))


def main():
    shutil.rmtree(ROOT, ignore_errors=True)
    ROOT.mkdir(parents=True)
    torch.set_num_threads(1)
    torch.manual_seed(1)
    write_layers()
    write_functions()
    write_structures()
    return subprocess.run([sys.argv[3], ROOT], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
