#!/usr/bin/env python3
"""Shows that every rule of layering.py can fail, on a tree of a few small files."""

import tempfile
import unittest
from pathlib import Path

import layering

TABLE = """
| rank | folder | what lives there |
|---|---|---|
| 0 | `tutti/core/` | errors |
| 1 | `tutti/device/` | devices |
| 1 | `tutti/cluster/` | hosts *(planned)* |
| 2 | `tutti/mesh/` | meshes |
| 2 | `tutti/rings/` | rings |
| 3 | `tutti/tensor/` | tensors |
"""


class Layering(unittest.TestCase):
    def findings(self, files):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            for name, text in {"docs/architecture.md": TABLE, **files}.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text)
            return layering.findings(root)

    def assert_clean(self, files):
        self.assertEqual(self.findings(files), [])

    def assert_finds(self, files, text):
        found = self.findings(files)
        self.assertEqual(len(found), 1, found)
        self.assertIn(text, found[0])

    def test_lower_ranks_and_the_own_folder_are_free(self):
        self.assert_clean({"tutti/mesh/a.h": '#pragma once\n#include "tutti/core/e.h"\n#include <tutti/mesh/b.h>\n'})

    def test_higher_rank(self):
        self.assert_finds({"tutti/core/a.cpp": '#include "tutti/device/d.h"\n'}, "rank 0 includes lower ranks only")

    def test_equal_rank_also_in_angle_brackets(self):
        self.assert_finds({"tutti/mesh/a.cpp": "#include <tutti/rings/r.h>\n"}, "rank 2 includes lower ranks only")

    def test_rank_holds_in_subfolders_and_tests(self):
        self.assert_finds({"tutti/mesh/sub/a_test.cpp": '  # include "tutti/tensor/t.h"\n'}, "tensor has 3")

    def test_unknown_and_planned_folders(self):
        self.assert_finds({"tutti/attic/a.cpp": ""}, "no rank")
        self.assert_finds({"tutti/cluster/a.cpp": ""}, "no rank")
        self.assert_finds({"tutti/mesh/a.cpp": '#include "tutti/cluster/c.h"\n'}, "cluster has none")

    def test_loops_that_only_look_parallel(self):
        self.assert_finds({"tutti/core/a.cpp": "at::parallel_for(0, n, 1, f);\n"}, "call parallel_ranges")

    def test_keras_leaves_the_inside_of_mesh_tensors_alone(self):
        table = TABLE + "| 7 | `tutti/keras/` | layers |\n"
        self.assert_finds({"docs/architecture.md": table, "tutti/keras/a.cpp": "mesh_impl(w);\n"}, "mesh_impl(")
        self.assert_clean({"tutti/tensor/a.cpp": "mesh_impl(w).write();\n"})

    def test_what_is_for_every_op_names_none(self):
        names_one = 'if (name == "aten::t_") return;\n'
        self.assert_finds({"tutti/tensor/kernel.cpp": names_one}, '"aten::t_": tensor/ is for every op')
        self.assert_clean({"tutti/tensor/kernel.cpp": 'name.starts_with("aten::");\n'})
        self.assert_clean({"tutti/tensor/rules/op_traits.cpp": names_one, "tutti/tensor/kernel_test.cpp": names_one})

    def test_shares_are_made_in_one_place(self):
        uses = "c10::impl::cow::lazy_clone_storage(storage);\n"
        self.assert_finds({"tutti/mesh/a.cpp": uses}, "for tutti/tensor/copy_on_write.h alone")
        self.assert_clean({"tutti/tensor/copy_on_write.cpp": uses})

    def test_internal_headers_are_not_public(self):
        front = {"tutti/tutti.h": '#pragma once\n#include "tutti/mesh/a.h"\n', "tutti/mesh/b_internal.h": "#pragma once\n"}
        reads = '#pragma once\n#include "tutti/mesh/b_internal.h"\n'
        self.assert_finds({**front, "tutti/mesh/a.h": reads}, "tutti/mesh/a.h, which is installed, includes it")
        self.assert_clean({**front, "tutti/mesh/a.h": "#pragma once\n", "tutti/mesh/c.h": reads})

    def test_examples_have_the_public_headers_alone(self):
        front = {"tutti/tutti.h": '#pragma once\n#include "tutti/mesh/a.h"\n', "tutti/mesh/a.h": "#pragma once\n"}
        self.assert_clean({**front, "examples/e.cpp": '#include "tutti/mesh/a.h"\n'})
        files = {**front, "tutti/mesh/b.h": "#pragma once\n", "examples/e.cpp": '#include "tutti/mesh/b.h"\n'}
        self.assert_finds(files, "tutti/mesh/b.h: tutti/tutti.h does not reach it")

    def test_what_is_installed_is_what_is_public(self):
        with tempfile.TemporaryDirectory() as folder:
            root, include = Path(folder, "root"), Path(folder, "include")
            for path in (root / "tutti/mesh", include / "tutti/mesh"):
                path.mkdir(parents=True)
            (root / "tutti/tutti.h").write_text('#include "tutti/mesh/a.h"\n')
            (root / "tutti/mesh/a.h").write_text("")
            (include / "tutti/tutti.h").write_text("")
            (include / "tutti/mesh/b.h").write_text("")
            found = layering.installation_findings(root, include)
        self.assertEqual([finding.split(",")[0] for finding in found],
                         ["tutti/mesh/a.h: public", "tutti/mesh/b.h: installed"])

    def test_relative_include(self):
        self.assert_finds({"tutti/core/a.cpp": '#include "b.h"\n'}, "written from the root")

    def test_only_tests_include_test_support(self):
        self.assert_clean({"tutti/core/a_test.cpp": '#include "tests/support/s.h"\n'})
        self.assert_finds({"tutti/core/a.cpp": '#include "tests/support/s.h"\n'}, "written from the root")

    def test_front_header_in_the_library(self):
        self.assert_finds({"tutti/tensor/a_test.cpp": "#include <tutti/tutti.h>\n"}, "is for users")
        self.assert_clean({"tutti/tutti.h": '#pragma once\n#include <torch/torch.h>\n#include "tutti/mesh/m.h"\n'})
        self.assert_clean({"tests/all_test.cpp": "#include <tutti/tutti.h>\n"})

    def test_heavy_headers(self):
        for name in ("torch/torch.h", "torch/nn.h", "ATen/ATen.h"):
            self.assert_finds({"tutti/tensor/a.h": f"#pragma once\n#include <{name}>\n"}, "narrow header")
        self.assert_finds({"tutti/tensor/a.cpp": "#include <torch/torch.h>\n"}, "narrow header")

    def test_tensors_in_headers_of_low_rank(self):
        header = "#pragma once\n#include <ATen/core/Tensor.h>\n"
        self.assert_finds({"tutti/mesh/a.h": header}, "tensor_fwd.h")
        self.assert_clean({"tutti/tensor/a.h": header, "tutti/mesh/a.cpp": "#include <ATen/core/Tensor.h>\n"})

    def test_names(self):
        for name in ("utils", "string_helpers", "impl", "base_test", "misc/thing"):
            self.assert_finds({f"tutti/core/{name}.cpp": ""}, "says nothing")
        self.assert_clean({"tutti/core/common_shape.cpp": "", "tutti/core/database.cpp": ""})

    def test_length(self):
        self.assert_finds({"tutti/core/a.h": "#pragma once\n" + 250 * "\n"}, "251 lines")
        self.assert_finds({"tutti/core/a.cpp": 601 * "\n"}, "601 lines")
        self.assert_finds({"tutti/core/a_test.cpp": 901 * "\n"}, "901 lines")
        self.assert_clean({"tutti/core/a_test.cpp": 900 * "\n", "tests/a.cpp": 900 * "\n"})

    def test_pragma_once(self):
        self.assert_finds({"examples/a.h": "int a;\n"}, "#pragma once")

    def test_own_header_first(self):
        header = {"tutti/core/a.h": "#pragma once\n"}
        self.assert_finds({**header, "tutti/core/a.cpp": "#include <string>\n"}, "first include")
        self.assert_finds({**header, "tutti/core/a_test.cpp": ""}, "first include")
        self.assert_clean({**header, "tutti/core/a.cpp": '#include "tutti/core/a.h"\n'})
        self.assert_clean({"tests/x/a.h": "#pragma once\n", "tests/x/a.cpp": '#include "a.h"\n'})

    def test_a_document_without_the_table(self):
        self.assert_finds({"docs/architecture.md": "# Architecture\n"}, "no table")


if __name__ == "__main__":
    unittest.main()
