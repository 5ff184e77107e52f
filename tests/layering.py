#!/usr/bin/env python3
"""Holds the tree to the house rules: layering.py [ROOT [INCLUDE]].

The ranks are read from the table in docs/architecture.md. Prints one line per finding; exits with 1 if there is any.
With INCLUDE, a folder that headers were installed to, they are to be the public ones, and nothing else is looked at.
"""

import re
import sys
from pathlib import Path

ROOMS = ("tutti", "tests", "examples", "benchmarks", "fuzz")
FRONT = "tutti/tutti.h"  # the convenience header, above every folder
HEAVY = {"torch/torch.h", "torch/nn.h", "ATen/ATen.h"}  # 8 to 20 seconds for every file that reads one
BANNED = {"util", "utils", "common", "helper", "helpers", "misc"}  # also as the last word: string_utils
BANNED_ALONE = {"types", "impl", "base"}
HEADER_LINES, SOURCE_LINES, TEST_LINES = 250, 600, 900
FIRST_RANK_WITH_TENSORS = 3
OF_ONE_OP = {"tutti/tensor/conversion.cpp"}  # `to`; whoever else in tensor/ stands in for single ops need not name them

TABLE_ROW = re.compile(r"^\| (\d+) \| `tutti/(\w+)/` \| (.*) \|$", re.M)
OP_NAME = re.compile(r'"aten::\w+"')
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)


def read_ranks(root):
    """{folder: rank} of the folders that the document does not call planned."""
    rows = TABLE_ROW.findall((root / "docs/architecture.md").read_text())
    return {folder: int(rank) for rank, folder, text in rows if not text.endswith("*(planned)*")}


def files_of(root):
    """Every header and source of the project, as a path relative to the root."""
    found = [path for room in ROOMS for path in (root / room).rglob("*") if path.suffix in (".h", ".cpp")]
    return sorted(path.relative_to(root) for path in found)


def is_test(path):
    return path.parts[0] == "tests" or path.stem.endswith("_test")


def check_name(path):
    for word in (*path.parts[1:-1], path.stem.removesuffix("_test")):
        if word in BANNED_ALONE or word.split("_")[-1] in BANNED:
            yield f"'{word}' says nothing about what is inside; name the file or folder by its thing"


def check_length(path, text):
    limit = TEST_LINES if is_test(path) else HEADER_LINES if path.suffix == ".h" else SOURCE_LINES
    lines = text.count("\n")
    if lines > limit:
        yield f"{lines} lines, {limit} are allowed; take a piece out"


def check_pragma(path, text):
    if path.suffix == ".h" and "#pragma once" not in text.splitlines():
        yield "a header needs '#pragma once'"


def check_first_include(root, path, includes):
    """A source that includes its own header first proves that the header stands alone."""
    header = path.with_name(path.stem.removesuffix("_test") + ".h")
    spellings = {header.as_posix()} if path.parts[0] == "tutti" else {header.as_posix(), header.name}
    if path.suffix == ".cpp" and (root / header).exists() and (not includes or includes[0][1] not in spellings):
        yield f"the first include must be \"{header.as_posix()}\""


def check_ranks(path, includes, ranks):
    """Rules for files of the library's folders."""
    folder = path.parts[1]
    roots = ("tutti/", "tests/support/") if is_test(path) else ("tutti/",)
    if folder not in ranks:
        yield f"docs/architecture.md gives tutti/{folder}/ no rank (or calls it planned)"
        return
    for quote, name in includes:
        if quote == '"' and not name.startswith(roots):
            yield f"\"{name}\": quoted includes are written from the root: {' or '.join(roots)}"
        elif name == FRONT:
            yield f"{FRONT} is for users; include the folder's own headers"
        elif name.startswith("tutti/"):
            other = name.split("/")[1]
            if other != folder and ranks.get(other, 99) >= ranks[folder]:
                yield f"{name}: rank {ranks[folder]} includes lower ranks only, {other} has {ranks.get(other, 'none')}"


def check_torch(path, includes, ranks):
    """Keeps LibTorch's big headers out of the library."""
    is_header = path.suffix == ".h"
    for _, name in includes:
        if name in HEAVY and (is_header or name == "torch/torch.h"):
            yield f"<{name}>: include the narrow header (<ATen/ops/NAME.h>, <torch/nn/modules/NAME.h>)"
        elif is_header and name.startswith(("ATen/", "torch/")) and ranks.get(path.parts[1], 0) < FIRST_RANK_WITH_TENSORS:
            yield f"<{name}>: headers below rank {FIRST_RANK_WITH_TENSORS} name tensors by tutti/core/tensor_fwd.h"


def check_calls(path, text):
    """at::parallel_for is one loop unless its caller is compiled with OpenMP, which nothing here is. Keras works on
    values: updates in the memory of their buffers are in tensor/updates/."""
    if "at::parallel_for(" in text:
        yield "at::parallel_for( uses one thread here: call parallel_ranges (tutti/tensor/parallel_ranges.h)"
    if path.parts[:2] == ("tutti", "keras") and "mesh_impl(" in text:
        yield "mesh_impl(: what a mesh tensor is made of is tensor's business: let a function there do it"
    of_every_op = path.parent.as_posix() == "tutti/tensor" and path.suffix == ".cpp" and not is_test(path)
    if of_every_op and path.as_posix() not in OF_ONE_OP and (found := OP_NAME.search(text)):
        yield f"{found[0]}: tensor/ is for every op; what is known of single ones stands in tutti/tensor/rules/op_traits.cpp"
    if path.parts[0] == "tutti" and path.name != "copy_on_write.cpp" and not is_test(path) and "impl::cow" in text:
        yield "c10::impl::cow: LibTorch's copy-on-write is for tutti/tensor/copy_on_write.h alone, which says what is safe"


def public_headers(root):
    """{header: the header that reads it} of tutti.h and all that it reaches: what is installed."""
    readers, waiting = {FRONT: ""}, [FRONT] if (root / FRONT).exists() else []
    while waiting:
        header = waiting.pop()
        for _, name in INCLUDE.findall((root / header).read_text()):
            if name.startswith("tutti/") and name not in readers and (root / name).exists():
                readers[name] = header
                waiting.append(name)
    return readers


def check_public(path, includes, public):
    """What says that it is internal is not installed; examples, as all programs of users, have nothing but what is."""
    name = path.as_posix()
    if name in public and path.stem.endswith("_internal"):
        yield f"{public[name]}, which is installed, includes it; only headers that {FRONT} does not reach are internal"
    if path.parts[0] == "examples":
        for _, included in includes:
            if included.startswith("tutti/") and included not in public:
                yield f"{included}: {FRONT} does not reach it, so users do not have it"


def check_file(root, path, ranks, public):
    text = (root / path).read_text()
    includes = INCLUDE.findall(text)
    yield from check_name(path)
    yield from check_length(path, text)
    yield from check_pragma(path, text)
    yield from check_first_include(root, path, includes)
    yield from check_calls(path, text)
    yield from check_public(path, includes, public)
    if path.parts[0] == "tutti" and path.as_posix() != FRONT:
        yield from check_ranks(path, includes, ranks)
        yield from check_torch(path, includes, ranks)


def findings(root):
    ranks = read_ranks(root)
    if not ranks:
        return ["docs/architecture.md: no table of ranks found"]
    public = public_headers(root)
    return [f"{path}: {finding}" for path in files_of(root) for finding in check_file(root, path, ranks, public)]


def installation_findings(root, include):
    """How the headers below `include` differ from the public ones, either way."""
    public, installed = set(public_headers(root)), {path.relative_to(include).as_posix() for path in include.rglob("*.h")}
    return [f"{name}: public, and not installed" for name in sorted(public - installed)] + [
        f"{name}: installed, and not public: {FRONT} does not reach it" for name in sorted(installed - public)
    ]


def main():
    root = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    found = installation_findings(root, Path(sys.argv[2])) if len(sys.argv) > 2 else findings(root)
    print(*found, f"{len(found)} findings in {len(files_of(root))} files", sep="\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
