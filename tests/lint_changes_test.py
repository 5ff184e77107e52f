#!/usr/bin/env python3
"""What lint_changes.py takes for changed, by which source it looks at that, and what it says of what it cannot look at."""

import json
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import lint_changes

DIFF = """diff --git a/tutti/a.h b/tutti/a.h
--- a/tutti/a.h
+++ b/tutti/a.h
@@ -3 +3,2 @@ struct A
-int x;
+int y;
+int z;
@@ -9,2 +10,0 @@
-gone
-gone
@@ -20,0 +20 @@
+++ b/no_file
diff --git a/tutti/b.cpp b/tutti/b.cpp
--- a/tutti/b.cpp
+++ b/tutti/b.cpp
@@ -5 +5,0 @@
-gone
"""


class LintChanges(unittest.TestCase):
    def test_changed_are_the_lines_that_are_there_now(self):
        self.assertEqual(lint_changes.changed_lines(DIFF), {"tutti/a.h": [[3, 4], [20, 20]]})

    def test_a_header_is_looked_at_by_its_own_source(self):
        texts = {"tutti/a.cpp": "", "tutti/a_test.cpp": '#include "tutti/a.h"'}
        self.assertEqual(lint_changes.source_of("tutti/a.cpp", texts), "tutti/a.cpp")
        self.assertEqual(lint_changes.source_of("tutti/a.h", texts), "tutti/a.cpp")

    def test_a_header_without_a_source_is_looked_at_by_the_smallest_that_includes_it(self):
        include = '#include "tutti/h.h"\n'
        texts = {"tutti/long.cpp": include + "// " * 50, "tutti/short.cpp": include, "tutti/other.cpp": ""}
        self.assertEqual(lint_changes.source_of("tutti/h.h", texts), "tutti/short.cpp")
        self.assertIsNone(lint_changes.source_of("tutti/unread.h", texts))


@unittest.skipUnless(shutil.which("git"), "there is no git")
class ARepository(unittest.TestCase):
    """Of two sources and a header that nothing includes, the second commit of which has `clang_tidy` look at it."""

    def lint(self, clang_tidy, seconds):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder).resolve()
            build = root / "build"
            git = ["git", "-C", folder, "-c", "user.name=n", "-c", "user.email=e", "-c", "init.defaultBranch=main"]
            subprocess.run([*git, "init", "--quiet"], check=True)
            for text in ("int a;\n", "int a;\nint b;\n"):
                for name in ("x.cpp", "y.cpp", "alone.h"):
                    (root / name).write_text(text)
                subprocess.run([*git, "add", "x.cpp", "y.cpp", "alone.h"], check=True)
                subprocess.run([*git, "commit", "--quiet", "--message", "c"], check=True)
            build.mkdir()
            entries = [{"file": str(root / name)} for name in ("x.cpp", "y.cpp", "build/made.cpp")]
            (build / "compile_commands.json").write_text(json.dumps(entries))
            (build / "clang-tidy-16").write_text("#!/bin/sh\n" + clang_tidy)
            (build / "clang-tidy-16").chmod(0o755)
            command = [sys.executable, lint_changes.__file__, folder, str(build), "HEAD^", str(seconds), "2"]
            path = {"PATH": f"{build}:/usr/bin:/bin"}
            ended = subprocess.run(command, env=path, capture_output=True, text=True)
            self.assertEqual(ended.stderr, "")
            return ended.returncode, ended.stdout

    def test_without_findings_is_clean(self):
        code, said = self.lint("exit 0", 60)
        self.assertEqual(code, 0)
        self.assertIn("0 have findings, 2 have none, 0 were skipped", said)
        self.assertIn("skipped: alone.h: no source", said)

    def test_with_a_finding_is_not(self):
        code, said = self.lint('case "$*" in *x.cpp) echo "x.cpp:2: error"; exit 1;; esac', 60)
        self.assertEqual(code, 1)
        self.assertIn("x.cpp:2: error", said)
        self.assertIn("1 have findings, 1 have none, 0 were skipped", said)

    def test_that_clang_cannot_compile_for_lines_of_others_is_skipped_aloud(self):
        error = 'echo "$PWD/x.cpp:{}:1: error: no [clang-diagnostic-error]"; exit 1'
        code, said = self.lint(error.format(1), 60)
        self.assertEqual(code, 0)
        self.assertIn("x.cpp: clang cannot compile it for what did not change", said)
        self.assertIn("0 have none, 2 were skipped", said)
        self.assertEqual(self.lint(error.format(2), 60)[0], 1)

    def test_tells_clang_tidy_the_changed_lines(self):
        said = self.lint('echo "$*"; exit 1', 60)[1]
        self.assertIn('{"name": "x.cpp", "lines": [[2, 2]]}', said)

    def test_that_takes_too_long_is_skipped_aloud(self):
        code, said = self.lint("exec sleep 60", 1)
        self.assertEqual(code, 0)
        self.assertIn("skipped: x.cpp: the time was over", said)
        self.assertIn("0 have findings, 0 have none, 2 were skipped", said)


if __name__ == "__main__":
    unittest.main()
