"""Makes a program of pages of documentation: the ```cpp blocks of each section (## or ###) are the body of one function;
called with the name of a page, the program calls the page's in turn. Usage: snippets.py PROGRAM.cpp PAGE.md…"""

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


def namespace_of(page):
    """A namespace of the page's functions, with run(), which calls them."""
    parts, names = [f"namespace page_{page.stem} {{"], []
    for index, (title, blocks) in enumerate(sections(page.read_text())):
        names.append(f"section_{index}")
        parts.append(f"// {title}\nstatic void {names[-1]}() {{")
        parts += [f'#line {line} "{page}"\n{code}' for line, code in blocks]
        parts.append("}\n")
    if not names:
        raise SystemExit(f"snippets: {page} has no ```cpp block")
    calls = "".join(f"  {name}();\n" for name in names)
    return "\n".join([*parts, f"static void run() {{\n{calls}}}\n}}"])


def main():
    program, *pages = map(pathlib.Path, sys.argv[1:])
    choices = "".join(f'  if (page == "{page.stem}") return page_{page.stem}::run(), 0;\n' for page in pages)
    end = f"int main(int argc, char** argv) {{\n  const std::string page = argc > 1 ? argv[1] : \"\";\n{choices}  return 2;\n}}"
    program.write_text("\n\n".join([PRELUDE, *map(namespace_of, pages), end]) + "\n")


main()
