"""Makes a program of a page of documentation: the ```cpp blocks of each section (## or ###) are the body of one
function, and main calls them in turn. Usage: snippets.py PAGE.md PROGRAM.cpp"""

import pathlib
import re
import sys

PRELUDE = """#undef NDEBUG
#include <tutti/tutti.h>

#include <cassert>
#include <fstream>
#include <iostream>

using namespace tutti;
"""


def sections(text):
    """Yields (title, [(line number, code)]) for each section that has code."""
    title, blocks, code, start = "", [], None, 0
    for number, line in enumerate(text.splitlines(), 1):
        if code is not None:
            if line.startswith("```"):
                blocks.append((start, "\n".join(code)))
                code = None
            else:
                code.append(line)
        elif line.startswith("```cpp"):
            code, start = [], number + 1
        elif re.match(r"##+ ", line):
            if blocks:
                yield title, blocks
            title, blocks = line.lstrip("# "), []
    if code is not None:
        raise SystemExit(f"snippets: the block that begins at line {start} has no end")
    if blocks:
        yield title, blocks


def main():
    page, program = map(pathlib.Path, sys.argv[1:])
    parts = [PRELUDE]
    names = []
    for index, (title, blocks) in enumerate(sections(page.read_text())):
        names.append(f"section_{index}")
        parts.append(f"// {title}\nstatic void {names[-1]}() {{")
        parts += [f'#line {line} "{page}"\n{code}' for line, code in blocks]
        parts.append("}\n")
    if not names:
        raise SystemExit(f"snippets: {page} has no ```cpp block")
    parts.append("int main() {\n" + "".join(f"  {name}();\n" for name in names) + "}")
    program.write_text("\n".join(parts) + "\n")


main()
