#!/usr/bin/env python3
"""Which sources compile_alone.py looks at, in which order, and what it says of one that only compiles behind another."""

import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import compile_alone


class ABuild(unittest.TestCase):
    """Of the sources first, good and bad, compiled together, and of one that is compiled by itself."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name).resolve()
        self.build = self.root / "build"
        (self.build / "Unity").mkdir(parents=True)
        self.write("first.cpp", "#include <string>\n")
        self.write("good.cpp", '#include "own.h"\nown good();\n')
        self.write("own.h", "struct own {};\n")
        self.write("bad.cpp", "std::string bad();\n")
        self.write("by_itself.cpp", "")
        united = self.build / "Unity" / "all.cxx"
        united.write_text("".join(f'#include "{self.root / name}.cpp"\n' for name in ("first", "good", "bad")))
        entries = [{"file": str(file), "directory": str(self.build), "command": f"ccache c++ -I{self.root} -o x.o -c {file}"}
                   for file in (united, self.root / "by_itself.cpp")]
        (self.build / "compile_commands.json").write_text(json.dumps(entries))

    def write(self, name, text):
        (self.root / name).write_text(text)

    def names(self, changed, day=1):
        sources = compile_alone.sources_behind_others(self.build)
        return [source.name for source in compile_alone.in_order(self.root, sources, changed, day)]

    def run_it(self, seconds):
        command = [sys.executable, compile_alone.__file__, self.root, self.build, "HEAD^", str(seconds), "2"]
        return subprocess.run(command, capture_output=True, text=True)

    def test_what_stands_first_or_by_itself_is_proven_already(self):
        self.assertEqual(sorted(self.names(set())), ["bad.cpp", "good.cpp"])

    def test_what_changed_comes_first_and_then_what_includes_it(self):
        for day in range(8):
            self.assertEqual(self.names({"bad.cpp"}, day), ["bad.cpp", "good.cpp"])
            self.assertEqual(self.names({"own.h"}, day), ["good.cpp", "bad.cpp"])

    def test_the_rest_comes_in_another_order_on_other_days(self):
        self.assertEqual(len({tuple(self.names(set(), day)) for day in range(16)}), 2)

    def test_a_source_that_lacks_an_include_is_named(self):
        ended = self.run_it(60)
        self.assertEqual(ended.returncode, 1, ended.stderr)
        self.assertIn("bad.cpp does not compile but behind other sources", ended.stdout)
        self.assertIn("does not name a type", ended.stdout)
        self.assertNotIn("good.cpp does not", ended.stdout)
        self.assertIn("of 2 sources that are compiled behind others, 2 were compiled alone, 1 of them in vain", ended.stdout)
        self.assertIn("git knows no HEAD^ here", ended.stdout)

    def test_what_the_time_was_over_for_is_counted(self):
        ended = self.run_it(-1)
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertIn("0 were compiled alone, 0 of them in vain; for 2 the time was over", ended.stdout)


if __name__ == "__main__":
    unittest.main()
