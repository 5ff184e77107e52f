"""Holds a program that speaks gRPC to its promise: rpc_symbols.py PROGRAM OBJECT…

gRPC's headers, and what is compiled from them, stay inside the objects that include them: the program exports none of it,
and nothing of protobuf, of which LibTorch brings another version along.
"""

import re
import subprocess
import sys

FOREIGN = ("4grpc", "9grpc_core", "8protobuf", "4absl")


def symbols(arguments, path):
    listing = subprocess.run(["nm", *arguments, path], capture_output=True, text=True, check=True).stdout
    return [line.split()[-1] for line in listing.splitlines() if line.split()]


def visible(path):
    """Global definitions of an object that other objects of a shared library could take for theirs."""
    listing = subprocess.run(["readelf", "-sW", path], capture_output=True, text=True, check=True).stdout
    for line in listing.splitlines():
        fields = line.split()
        if len(fields) == 8 and fields[4] in ("GLOBAL", "WEAK") and fields[5] == "DEFAULT" and fields[6] != "UND":
            yield fields[7]


def is_foreign(symbol):
    of_library = re.match(r"_Z(T[ISV])?(N[KV]*)?S[taiods]", symbol)  # std's templates, over whatever types
    return any(mark in symbol for mark in FOREIGN) and not of_library


exported = [name for name in symbols(("-D", "--defined-only"), sys.argv[1]) if is_foreign(name)]
leaked = [name for path in sys.argv[2:] for name in visible(path) if is_foreign(name)]
print(*exported, *leaked, f"{len(exported)} exported, {len(leaked)} visible", sep="\n")
sys.exit(1 if exported or leaked else 0)
