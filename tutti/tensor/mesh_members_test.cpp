// A mesh that is divided among processes: each holds its own part of a value, and all together give what the whole mesh
// gives.
#include "tutti/tensor/mesh_members.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <torch/csrc/autograd/autograd.h>

#include "tests/support/divided_mesh.h"
#include "tests/support/error_of.h"
#include "tutti/tensor/cut.h"
#include "tutti/tensor/mesh_tensor.h"
#include "tutti/tensor/relayout.h"
#include "tutti/tensor/scope.h"
#include "tutti/tensor/view.h"

namespace tutti {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::Each;
using testing::HasSubstr;
using testing::IsEmpty;

// Integers, so that their sums are exact.
Tensor numbered(at::IntArrayRef sizes) {
  return at::arange(1, 1 + c10::multiply_integers(sizes), at::kDouble).view(sizes);
}

class DividedMeshes : public testing::TestWithParam<bool> {
 protected:
  bool merge_ = GetParam();
  DividedMesh line_{{{"x", 4}}, "x", 2, merge_};
  DividedMesh grid_{{{"x", 2}, {"y", 4}}, "y", 2, merge_};

  static Layout rows(const Mesh& mesh) { return Layout({"x", kUnsharded}, mesh); }
};

INSTANTIATE_TEST_SUITE_P(Buffers, DividedMeshes, testing::Bool(),
                         [](const testing::TestParamInfo<bool>& info) { return info.param ? "Merged" : "Separate"; });

TEST_P(DividedMeshes, HoldInEachProcessWhatLiesOnItsDevices) {
  const Tensor value = numbered({5, 2});
  const auto failures = on_each_process(line_, [&](const Mesh& mesh, int rank) {
    const Tensor tensor = distribute_tensor(value, rows(mesh));
    EXPECT_EQ(tensor.sizes(), value.sizes());
    EXPECT_EQ(tensor.strides(), value.strides());
    int64_t rows_here = 0;
    for (const Tensor& component : mesh_impl(tensor).components())
      if (component.defined()) rows_here += component.size(0);
    EXPECT_EQ(rows_here, rank == 0 ? 4 : 1);  // of pieces of 2, 2, 1 and 0 rows
    EXPECT_EQ(mesh_impl(tensor).components().size(), merge_ ? 2U : 4U);
  });
  EXPECT_THAT(failures, Each(IsEmpty()));
}

// The components of a value in a layout, of which sums have the terms 1000, 1001, … and what is left to the first.
Components laid_out_here(const Tensor& value, const Spec* spec) {
  const Spec* pieces = intern(spec->shape, spec->axes, 0, spec->sizes);
  const int terms = spec->shape->count(spec->unreduced & spec->stored);
  const Components cut_pieces = cut(value, pieces);
  Components components;
  for (int i = 0; i < spec->num_components; ++i) {
    const Tensor& piece = cut_pieces[static_cast<size_t>(spec->shape->project(i, spec->stored, pieces->stored))];
    const int term = spec->shape->project(i, spec->stored, spec->unreduced & spec->stored);
    int64_t others = 0;
    for (int t = 1; t < terms; ++t) others += 1000 + t;
    components.push_back(!spec->is_here(i) ? Tensor() : term == 0 ? piece - others : at::full_like(piece, 1000 + term));
  }
  return components;
}

std::vector<const Spec*> all_specs(const MeshShape* shape, at::IntArrayRef sizes) {
  std::vector<const Spec*> specs;
  for (int8_t a = -1; a < shape->num_dimensions; ++a)
    for (int8_t b = -1; b < shape->num_dimensions; ++b)
      for (DimensionMask sums = 0; sums <= shape->all; ++sums) {
        const bool twice = (a >= 0 && a == b) || (a >= 0 && (sums >> a & 1)) || (b >= 0 && (sums >> b & 1));
        const Spec* spec = twice ? nullptr : intern(shape, {a, b}, sums, sizes);
        if (spec && std::find(specs.begin(), specs.end(), spec) == specs.end()) specs.push_back(spec);
      }
  return specs;
}

TEST_P(DividedMeshes, ChangeEveryLayoutIntoEveryOther) {
  for (const Tensor& value : {numbered({5, 7}), numbered({7, 5}).t(), numbered({1, 3}), numbered({4, 0}),
                              numbered({6, 2}).to(at::kFloat), numbered({2, 6}).to(at::kInt)}) {
    const auto failures = on_each_process(grid_, [&](const Mesh& mesh, int) {
      const auto specs = all_specs(MeshShape::of(mesh), value.sizes());
      for (const Spec* from : specs)
        for (const Spec* to : specs) {
          if (to->unreduced & ~from->unreduced) continue;
          SCOPED_TRACE(str(from->layout().to_string(), " to ", to->layout().to_string()));
          const Tensor tensor = make_mesh_tensor(from, laid_out_here(value, from), value.strides());
          const Tensor moved = relayout(tensor, to->layout());
          const auto& components = mesh_impl(moved).components();
          for (int i = 0; i < to->num_components; ++i)
            ASSERT_EQ(components[static_cast<size_t>(i)].defined(), to->is_here(i));
          ASSERT_TRUE(at::equal(gather(moved), value));
        }
    });
    EXPECT_THAT(failures, Each(IsEmpty()));
  }
}

TEST_P(DividedMeshes, MultiplyAddAndReduceAsTheWholeMeshDoes) {
  const Tensor a = numbered({5, 6}), b = numbered({6, 3});
  const auto run = [&](const Mesh& mesh) {
    const Tensor left = distribute_tensor(a, Layout({kUnsharded, "x"}, mesh));
    const Tensor right = distribute_tensor(b, Layout({"x", kUnsharded}, mesh));
    const Tensor product = at::mm(left, right);
    const Tensor top = (left * 2 + left).amax(1), places = left.argmax(1);
    return std::vector<Tensor>{gather(product), gather(top), gather(places), gather(left.sum(0)),
                               at::full({}, left.sum().item<double>(), at::kDouble)};
  };
  const std::vector<Tensor> expected = run(line_.whole());
  const auto failures = on_each_process(line_, [&](const Mesh& mesh, int) {
    const std::vector<Tensor> results = run(mesh);
    for (size_t i = 0; i < results.size(); ++i) EXPECT_TRUE(at::equal(results[i], expected[i])) << i;
  });
  EXPECT_THAT(failures, Each(IsEmpty()));
}

// Of these the parts are not joined, and have roundings.
TEST(DividedMesh, AddsTermsUpInTheOrderOfTheWholeMesh) {
  const DividedMesh line{{{"x", 4}}, "x", 2};
  const Tensor value = at::randn({601, 300}, at::detail::createCPUGenerator(1));
  const auto run = [&](const Mesh& mesh) {
    const Tensor tensor = distribute_tensor(value, Layout({"x", kUnsharded}, mesh));
    const Tensor loss = at::logsumexp(tensor, 0).sum();
    return std::vector<Tensor>{gather(tensor.sum(0)),
                               gather(tensor.sum()),
                               gather(tensor.mean(0)),
                               gather(tensor.var(0)),
                               gather(tensor.norm()),
                               gather(tensor.prod(0)),
                               gather(std::get<1>(tensor.max(0))),
                               gather(loss)};
  };
  const std::vector<Tensor> expected = run(line.whole());
  const auto failures = on_each_process(line, [&](const Mesh& mesh, int) {
    const std::vector<Tensor> results = run(mesh);
    for (size_t i = 0; i < results.size(); ++i) EXPECT_TRUE(at::equal(results[i], expected[i])) << i;
  });
  EXPECT_THAT(failures, Each(IsEmpty()));
}

TEST_P(DividedMeshes, GiveTheGradientsOfOneDevice) {
  const Tensor x = numbered({6, 4}), w = numbered({4, 3}).requires_grad_();
  (at::mm(x, w).relu() * 0.5).sum().backward();
  const auto failures = on_each_process(line_, [&](const Mesh& mesh, int) {
    const Tensor own = distribute_tensor(w.detach(), Layout::replicated(mesh, 2)).requires_grad_();
    const Tensor loss = (at::mm(distribute_tensor(x, rows(mesh)), own).relu() * 0.5).sum();
    loss.backward();
    EXPECT_TRUE(at::equal(gather(own.grad()), w.grad()));
  });
  EXPECT_THAT(failures, Each(IsEmpty()));
}

TEST_P(DividedMeshes, WriteInPlaceThroughViewsOfAxesThatAreCut) {
  Tensor expected = numbered({6, 4});
  expected[4].fill_(-1);
  expected.slice(0, 1, 6, 2).add_(100);
  const auto failures = on_each_process(line_, [&](const Mesh& mesh, int) {
    const Tensor tensor = distribute_tensor(numbered({6, 4}), rows(mesh));
    tensor[4].fill_(-1);
    tensor.slice(0, 1, 6, 2).add_(100);
    EXPECT_TRUE(at::equal(gather(tensor), expected));
  });
  EXPECT_THAT(failures, Each(IsEmpty()));
}

TEST_P(DividedMeshes, MoveValuesThatRepeatAnAxisOrHaveYetToBeConjugated) {
  const Tensor column = numbered({5, 1}), turned = (numbered({5, 4}) * c10::complex<double>(1, 2)).conj();
  const auto failures = on_each_process(line_, [&](const Mesh& mesh, int) {
    const Layout columns({kUnsharded, "x"}, mesh);
    const Tensor wide = distribute_tensor(column, rows(mesh)).expand({5, 4});
    EXPECT_TRUE(at::equal(gather(relayout(wide, columns)), column.expand({5, 4})));
    const Tensor conjugate = distribute_tensor(turned.conj(), rows(mesh)).conj();
    EXPECT_TRUE(at::equal(gather(relayout(conjugate, columns)), turned));
    EXPECT_TRUE(at::equal(gather(at::mm(conjugate, conjugate.t())), at::mm(turned, turned.t())));
    EXPECT_TRUE(at::equal(gather(wide.gt(3)), column.expand({5, 4}).gt(3)));
  });
  EXPECT_THAT(failures, Each(IsEmpty()));
}

TEST_P(DividedMeshes, ChangeTheirGeometryInPlaceAndLeaveAliasesTheirs) {
  const Tensor value = numbered({6, 4});
  const auto failures = on_each_process(line_, [&](const Mesh& mesh, int) {
    Tensor tensor = distribute_tensor(value, rows(mesh));
    const Tensor alias = tensor.detach();
    tensor.t_();
    EXPECT_TRUE(at::equal(gather(tensor), value.t()));
    EXPECT_TRUE(at::equal(gather(alias), value));
    tensor.add_(1);
    EXPECT_TRUE(at::equal(gather(alias), value + 1));
    tensor.resize_({3, 2});
    EXPECT_EQ(tensor.sizes(), (at::IntArrayRef{3, 2}));
  });
  EXPECT_THAT(failures, Each(IsEmpty()));
}

TEST_P(DividedMeshes, AddInPlaceToValuesThatEachProcessHas) {
  const Tensor source = numbered({8, 3}), places = at::arange(8) % 3;
  const Tensor expected = numbered({3, 3}).index_add_(0, places, source);
  const auto failures = on_each_process(line_, [&](const Mesh& mesh, int) {
    Tensor sums = distribute_tensor(numbered({3, 3}), Layout::replicated(mesh, 2));
    sums.index_add_(0, distribute_tensor(places, Layout({"x"}, mesh)), distribute_tensor(source, rows(mesh)));
    EXPECT_TRUE(at::equal(gather(sums), expected));
  });
  EXPECT_THAT(failures, Each(IsEmpty()));
}

// LibTorch's own generator is one for all, as these processes are threads; see multi_worker_dtensor_test.cpp.
TEST_P(DividedMeshes, DrawFromGeneratorsThatAllHaveSeededAlike) {
  Tensor expected = at::zeros({6, 4});
  expected.normal_(0, 1, at::detail::createCPUGenerator(7));
  const auto failures = on_each_process(line_, [&](const Mesh& mesh, int) {
    const Tensor tensor = distribute_tensor(at::zeros({6, 4}), rows(mesh));
    tensor.normal_(0, 1, at::detail::createCPUGenerator(7));
    EXPECT_TRUE(at::equal(gather(tensor), expected));
    const LayoutScope scope(rows(mesh));
    EXPECT_TRUE(at::equal(gather(at::randn({6, 4}, at::detail::createCPUGenerator(7), at::kFloat)), expected));
  });
  EXPECT_THAT(failures, Each(IsEmpty()));
}

TEST_P(DividedMeshes, HaveWhatIsMadeInTheirScope) {
  const auto failures = on_each_process(line_, [&](const Mesh& mesh, int) {
    const LayoutScope scope(rows(mesh));
    const Tensor cut = at::full({6, 4}, 3), whole = at::full({5}, 2);
    EXPECT_EQ(layout_of(cut), rows(mesh));
    EXPECT_TRUE(layout_of(whole).is_replicated());
    const ThreadViewGuard outside({});
    EXPECT_TRUE(at::equal(gather(cut), at::full({6, 4}, 3)));
    EXPECT_TRUE(at::equal(gather(whole), at::full({5}, 2)));
  });
  EXPECT_THAT(failures, Each(IsEmpty()));
}

TEST_P(DividedMeshes, RefuseWhatNeedsAllComponentsInOneProcess) {
  const auto failures = on_each_process(line_, [&](const Mesh& mesh, int) {
    const Tensor tensor = distribute_tensor(numbered({6, 4}), rows(mesh));
    EXPECT_EQ(code_of([&] { local(tensor); }), ErrorCode::unimplemented);
    EXPECT_EQ(code_of([&] { replica_components(tensor); }), ErrorCode::unimplemented);
    EXPECT_EQ(code_of([&] { mesh_impl(tensor).write(); }), ErrorCode::unimplemented);
    EXPECT_EQ(code_of([&] {
                Tensor(tensor).set_data(distribute_tensor(numbered({6, 4}), rows(mesh)));
              }),
              ErrorCode::unimplemented);
    EXPECT_THAT(error_of([&] { mesh_impl(tensor).read(); }), HasSubstr("lies in several processes"));
    EXPECT_TRUE(at::equal(local(relayout(tensor, Layout::replicated(mesh, 2))), numbered({6, 4})));
  });
  EXPECT_THAT(failures, Each(IsEmpty()));
}

TEST_P(DividedMeshes, KeepOfTheComponentsTheyAreGivenThoseThatAreHere) {
  const auto failures = on_each_process(line_, [&](const Mesh& mesh, int) {
    const Spec* spec = mesh_impl(distribute_tensor(numbered({8, 2}), rows(mesh))).spec();
    Components all;
    for (int i = 0; i < spec->num_components; ++i) all.push_back(at::full({spec->length(i, 0), 2}, i, at::kDouble));
    const Tensor tensor = make_mesh_tensor(spec, all);
    for (int i = 0; i < spec->num_components; ++i)
      EXPECT_EQ(mesh_impl(tensor).components()[static_cast<size_t>(i)].defined(), spec->is_here(i));
    EXPECT_EQ(code_of([&] { mesh_impl(tensor).read(); }), ErrorCode::unimplemented);
    EXPECT_EQ(gather(tensor)[7][1].item<double>(), spec->num_components - 1);
  });
  EXPECT_THAT(failures, Each(IsEmpty()));
}

TEST_P(DividedMeshes, SayWhichOpsProcessesThatDoNotAgreeHaveCalled) {
  const auto failures = on_each_process(line_, [&](const Mesh& mesh, int rank) {
    const Tensor tensor = distribute_tensor(numbered({8, 4}), rows(mesh));
    gather(rank == 0 ? tensor.sum(0) : tensor.amax(0));
  });
  EXPECT_THAT(failures,
              Contains(AllOf(HasSubstr("failed_precondition"), HasSubstr("aten::sum"), HasSubstr("aten::amax"))));
}

TEST_P(DividedMeshes, EndWithTheirGroup) {
  const Mesh mesh = DividedMesh{{{"x", 2}}, "x", 1, merge_}.of(0);
  auto groups = local_groups(1);
  std::shared_ptr<Group> group = std::move(groups[0]);
  divide_mesh(mesh, "x", group);
  EXPECT_EQ(group_of(*MeshShape::of(mesh)), group);
  group.reset();
  EXPECT_EQ(code_of([&] { group_of(*MeshShape::of(mesh)); }), ErrorCode::failed_precondition);
}

TEST_P(DividedMeshes, AreRefusedWhereTheyCannotBeDivided) {
  auto groups = local_groups(3);
  const std::shared_ptr<Group> group = std::move(groups[0]);
  EXPECT_EQ(code_of([&] { divide_mesh(line_.whole(), "y", group); }), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of([&] { divide_mesh(line_.whole(), "x", group); }), ErrorCode::invalid_argument);
  const Mesh used = DividedMesh{{{"x", 3}}, "x", 3, merge_}.whole();
  distribute_tensor(numbered({3, 3}), Layout::replicated(used, 2));
  EXPECT_EQ(code_of([&] { divide_mesh(used, "x", group); }), ErrorCode::failed_precondition);
  const Mesh at_home({{"x", 3}}, configure_logical_cpus(3), {.merge = merge_, .home = Device("CPU:0")});
  EXPECT_EQ(code_of([&] { divide_mesh(at_home, "x", group); }), ErrorCode::unimplemented);
}

}  // namespace
}  // namespace tutti
