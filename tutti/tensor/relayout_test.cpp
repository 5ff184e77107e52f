// Redistribution of values: every pair of layouts against the plain value, gradients, memory, the log, strict mode.
#include "tutti/tensor/relayout.h"
#include "tutti/tensor/cut.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/add.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "tests/support/error_of.h"
#include "tutti/collectives/communications.h"
#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/device/logical_devices.h"
#include "tutti/tensor/mesh_tensor.h"
#include "tutti/tensor/registration.h"
#include "tutti/tensor/strict_mode.h"

namespace tutti {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using Sizes = std::vector<int64_t>;

Mesh make_mesh(const Sizes& sizes, bool merge) {
  std::vector<MeshDimension> dimensions;
  int64_t devices = 1;
  for (const int64_t size : sizes) {
    dimensions.push_back({std::string(1, static_cast<char>('x' + dimensions.size())), size});
    devices *= size;
  }
  return Mesh(dimensions, configure_logical_cpus(static_cast<int>(devices)), {.merge = merge});
}

// Integers, so that their sums are exact.
Tensor numbers(at::IntArrayRef sizes, at::ScalarType dtype = at::kDouble) {
  int64_t count = 1;
  for (const int64_t size : sizes) count *= size;
  return at::arange(1, count + 1, at::kDouble).to(dtype).view(sizes);
}

void all_specs(const MeshShape* shape, const Sizes& sizes, DimensionMask used, AxisMap axes,
               std::vector<const Spec*>& found) {
  if (axes.size() == sizes.size()) {
    const DimensionMask masks = shape->merged() ? 1 : shape->all + 1;
    for (DimensionMask mask = 0; mask < masks; ++mask)
      if (!(mask & used)) found.push_back(intern(shape, axes, mask, sizes));
    return;
  }
  for (int d = -1; d < shape->num_dimensions; ++d) {
    if (d >= 0 && (used >> d & 1)) continue;
    AxisMap next = axes;
    next.push_back(static_cast<int8_t>(d));
    all_specs(shape, sizes, d < 0 ? used : used | DimensionMask{1} << d, next, found);
  }
}

Components run(const Relayout& relayout, const Spec& from, const Components& components) {
  return relayout.run(TensorMeta::of(from, components[0]), components);
}

// The components of `value` in a layout. Its terms of a sum are (n - 1) times 1000, 1001, … and what is left to it.
Components laid_out_by(const Tensor& value, const Spec* spec) {
  Components components;
  const Spec* whole = intern(spec->shape, spec->axes, 0, spec->sizes);
  const int terms = spec->shape->count(spec->unreduced);
  for (int i = 0; i < spec->num_components; ++i) {
    const int term = spec->shape->project(i, spec->stored, spec->unreduced);
    int64_t others = 0;
    for (int t = 1; t < terms; ++t) others += 1000 + t;
    const Tensor piece = cut(value, whole)[static_cast<size_t>(spec->shape->project(i, spec->stored, whole->stored))];
    components.push_back(term == 0 ? piece - others : at::full_like(piece, 1000 + term));
  }
  return components;
}

void expect_equal(const Components& actual, const Components& expected, const Spec* spec) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    ASSERT_EQ(actual[i].sizes(), expected[i].sizes());
    if (!spec->unreduced) {
      ASSERT_TRUE(at::equal(actual[i], expected[i])) << "component " << i;
    }
  }
}

// The plain value: sums the terms that are left.
Tensor plain(const Components& components, const Spec* spec) {
  const Spec* whole = intern_replicated(spec->shape, spec->sizes);
  return run(Relayout(spec, whole, "test", Asked::implied), *spec, components)[0];
}

class Relayouts : public testing::TestWithParam<std::tuple<Sizes, bool>> {
 protected:
  Mesh mesh_ = make_mesh(std::get<0>(GetParam()), std::get<1>(GetParam()));
  const MeshShape* shape_ = MeshShape::of(mesh_);
};

// Sums not yet taken: merged buffers have none.
class RelayoutsOfTerms : public Relayouts {};

std::string name_of(const Sizes& sizes, bool merge) {
  std::string name = merge ? "merged" : "separate";
  for (const int64_t size : sizes) name += str("_", size);
  return name;
}

const auto kMeshes = testing::Values(Sizes{2}, Sizes{3}, Sizes{2, 2}, Sizes{2, 3}, Sizes{2, 2, 2});
std::string name_of_case(const testing::TestParamInfo<std::tuple<Sizes, bool>>& info) {
  return name_of(std::get<0>(info.param), std::get<1>(info.param));
}

INSTANTIATE_TEST_SUITE_P(Meshes, Relayouts, testing::Combine(kMeshes, testing::Bool()), name_of_case);
INSTANTIATE_TEST_SUITE_P(Meshes, RelayoutsOfTerms, testing::Combine(kMeshes, testing::Values(false)), name_of_case);

TEST_P(Relayouts, OfEveryPairAreThePlainValue) {
  for (const Sizes& sizes : {Sizes{}, Sizes{12}, Sizes{7}, Sizes{1}, Sizes{0}, Sizes{12, 6}, Sizes{5, 7}, Sizes{1, 3},
                             Sizes{4, 0}, Sizes{2, 5, 3}}) {
    const Tensor value = numbers(sizes);
    std::vector<const Spec*> specs;
    all_specs(shape_, sizes, 0, {}, specs);
    std::vector<Components> components;
    for (const Spec* spec : specs) components.push_back(laid_out_by(value, spec));
    for (size_t i = 0; i < specs.size(); ++i)
      for (size_t j = 0; j < specs.size(); ++j) {
        if (specs[j]->unreduced & ~specs[i]->unreduced) continue;
        SCOPED_TRACE(str(str_list(sizes), " ", specs[i]->layout().to_string(), " to ", specs[j]->layout().to_string()));
        for (const Asked asked : {Asked::implied, Asked::explicitly}) {
          const Components result = run(Relayout(specs[i], specs[j], "test", asked), *specs[i], components[i]);
          expect_equal(result, components[j], specs[j]);
          if (specs[j]->unreduced) {
            ASSERT_TRUE(at::equal(plain(result, specs[j]), value));
          }
          if (HasFatalFailure()) return;
        }
      }
  }
}

// What devices that share no memory do: one step of the plan after the other.
TEST_P(Relayouts, StepByStepAreTheSameAsAtOnce) {
  const Sizes sizes{5, 7};
  const Tensor value = numbers(sizes);
  std::vector<const Spec*> specs;
  all_specs(shape_, sizes, 0, {}, specs);
  for (const Spec* from : specs)
    for (const Spec* to : specs) {
      if (to->unreduced & ~from->unreduced) continue;
      SCOPED_TRACE(str(from->layout().to_string(), " to ", to->layout().to_string()));
      const Relayout relayout(from, to, "test", Asked::implied);
      const Spec* now = from;
      Components components = laid_out_by(value, from);
      for (const RedistributionStep& step : relayout.steps()) {
        const Spec* next =
            intern(shape_, AxisMap(step.after.axes.begin(), step.after.axes.end()), step.after.unreduced, sizes);
        components = run(Relayout(now, next, "test", Asked::implied), *now, components);
        now = next;
      }
      ASSERT_EQ(now, to);
      expect_equal(components, run(relayout, *from, laid_out_by(value, from)), to);
      if (HasFatalFailure()) return;
    }
}

TEST_P(Relayouts, OfEveryDtypeAndOrderOfAxesAreThePlainValue) {
  std::vector<const Spec*> specs;
  const Sizes sizes{40, 70};
  all_specs(shape_, sizes, 0, {}, specs);
  for (const auto dtype : {at::kFloat, at::kHalf, at::kInt, at::kBool, at::kComplexDouble})
    for (const bool transposed : {false, true}) {
      const Tensor whole = transposed ? numbers({70, 40}, dtype).t() : numbers(sizes, dtype);
      for (const Spec* from : specs)
        for (const Spec* to : specs) {
          if (from->unreduced || to->unreduced) continue;
          SCOPED_TRACE(
              tutti::str(at::toString(dtype), " ", from->layout().to_string(), " to ", to->layout().to_string()));
          const Components result = run(Relayout(from, to, "test", Asked::explicitly), *from, cut(whole, from));
          expect_equal(result, cut(whole, to), to);
          if (HasFatalFailure()) return;
        }
    }
}

TEST_P(Relayouts, TakeLazyConjugatesForWhatTheyAre) {
  const Tensor value = (numbers({6, 4}, at::kComplexDouble) * c10::complex<double>(1, 2)).conj();
  ASSERT_TRUE(value.is_conj());
  const Spec* from = intern(shape_, {0, -1}, 0, {6, 4});
  const Spec* whole = intern_replicated(shape_, {6, 4});
  EXPECT_TRUE(at::equal(run(Relayout(from, whole, "test", Asked::explicitly), *from, cut(value, from))[0], value));
}

TEST_P(RelayoutsOfTerms, TakeLazyConjugatesForWhatTheyAre) {
  const Tensor value = (numbers({6, 4}, at::kComplexDouble) * c10::complex<double>(1, 2)).conj();
  const Spec* terms = intern(shape_, {-1, -1}, 1, {6, 4});
  const Components equal_terms(static_cast<size_t>(terms->num_components), value);
  const Spec* whole = intern_replicated(shape_, {6, 4});
  const Tensor sum = run(Relayout(terms, whole, "test", Asked::explicitly), *terms, equal_terms)[0];
  EXPECT_TRUE(at::equal(sum, value.resolve_conj() * terms->num_components));
}

// d sum(w * f(x)) / dx = w, whatever the layouts of x, f(x) and w.
TEST_P(Relayouts, GradientsComeBackInTheLayoutOfTheValue) {
  const Sizes sizes{5, 3};
  const Tensor value = numbers(sizes), weights = numbers(sizes) * 3;
  std::vector<const Spec*> specs;
  all_specs(shape_, sizes, 0, {}, specs);
  for (const Spec* from : specs)
    for (const Spec* to : specs) {
      if (from->unreduced || to->unreduced) continue;
      SCOPED_TRACE(str(from->layout().to_string(), " to ", to->layout().to_string()));
      const Tensor x = make_mesh_tensor(from, laid_out_by(value, from)).requires_grad_();
      const Tensor w = distribute_tensor(weights, to->layout());
      const Tensor y = relayout(x, to->layout());
      ASSERT_EQ(layout_of(y), to->layout());
      (y * y * w).sum().backward();
      ASSERT_EQ(layout_of(x.grad()), from->layout());
      ASSERT_TRUE(at::equal(gather(x.grad()), 2 * value * weights));
    }
}

TEST_P(Relayouts, GradientsOfGradientsPassRelayoutAndGather) {
  const Tensor value = numbers({6, 4});
  const Layout from({"x", kUnsharded}, mesh_), to({kUnsharded, "x"}, mesh_);
  const Tensor x = distribute_tensor(value, from).requires_grad_();
  const auto second = [&](const Tensor& y) {
    const Tensor first = torch::autograd::grad({(y * y * y).sum()}, {x}, {}, {}, /*create_graph=*/true)[0];
    const Tensor result = torch::autograd::grad({first.sum()}, {x})[0];
    EXPECT_EQ(layout_of(result), from);
    return gather(result);
  };
  EXPECT_TRUE(at::equal(second(relayout(x, to)), 6 * value));
  EXPECT_TRUE(at::equal(second(gather(x)), 6 * value));
}

TEST_P(RelayoutsOfTerms, GradientsOfASumReachEachOfItsTerms) {
  const Tensor value = numbers({5, 3});
  const Spec* from = intern(shape_, {-1, -1}, 1, {5, 3});
  const Tensor x = make_mesh_tensor(from, laid_out_by(value, from)).requires_grad_();
  (relayout(x, Layout({"x", kUnsharded}, mesh_)) * distribute_tensor(value, Layout({"x", kUnsharded}, mesh_)))
      .sum()
      .backward();
  EXPECT_TRUE(at::equal(gather(x.grad()), value));
}

// On a mesh of two dimensions, by name.
class LayoutCases {
 protected:
  explicit LayoutCases(bool merge) : mesh_{{{"batch", 4}, {"model", 2}}, configure_logical_cpus(8), {.merge = merge}} {}
  Mesh mesh_;
  Layout rows_{{"batch", kUnsharded}, mesh_}, columns_{{kUnsharded, "batch"}, mesh_};
  Layout whole_ = Layout::replicated(mesh_, 2);

  static std::vector<std::string> log() {
    std::vector<std::string> lines;
    for (const auto& each : communications())
      lines.push_back(str(each.op, ' ', each.mesh_dimension, ' ', each.cause, ' ', each.bytes,
                          each.implied ? " implied" : "", each.free ? " free" : ""));
    return lines;
  }
  std::string line(const std::string& text) const { return text + (mesh_.options().merge ? " free" : ""); }
};

class Layouts : public LayoutCases, public testing::TestWithParam<bool> {
 protected:
  Layouts() : LayoutCases(GetParam()) {}
};
class SeparateLayouts : public LayoutCases, public testing::Test {
 protected:
  SeparateLayouts() : LayoutCases(false) {}
};

INSTANTIATE_TEST_SUITE_P(Buffers, Layouts, testing::Bool(),
                         [](const auto& info) { return info.param ? "merged" : "separate"; });

TEST_P(Layouts, AWriteToTheResultDoesNotReachTheOperandNorBack) {
  const Layout layouts[] = {whole_, rows_, columns_};
  for (const Layout& from : layouts)
    for (const Layout& to : layouts) {
      if (from == to) continue;
      const Tensor value = numbers({8, 8});
      Tensor x = distribute_tensor(value, from), y = relayout(x, to);
      y.add_(1);
      EXPECT_TRUE(at::equal(gather(x), value)) << from.to_string() << " to " << to.to_string();
      x.mul_(3);
      EXPECT_TRUE(at::equal(gather(y), value + 1)) << from.to_string() << " to " << to.to_string();
    }
}

TEST_F(SeparateLayouts, APieceDoesNotKeepTheWholeAlive) {
  const Tensor value = at::rand({64, 64}), x = distribute_tensor(value, whole_);
  for (const Layout& to : {rows_, columns_})
    for (const Tensor& y : {relayout(x, to), distribute_tensor(value, to)})
      for (const Tensor& piece : mesh_impl(y).read()) {
        EXPECT_EQ(piece.storage().nbytes(), piece.nbytes());
        EXPECT_TRUE(piece.is_contiguous());
      }
}

// By several threads, in long runs.
TEST_P(Layouts, OfManyElementsAreThePlainValue) {
  const Tensor value = numbers({512, 1024}, at::kFloat);
  std::vector<const Spec*> specs;
  all_specs(MeshShape::of(mesh_), {512, 1024}, 0, {}, specs);
  for (const Spec* from : specs) {
    const Components components = laid_out_by(value, from);
    for (const Spec* to : specs) {
      if (to->unreduced) continue;
      SCOPED_TRACE(str(from->layout().to_string(), " to ", to->layout().to_string()));
      expect_equal(run(Relayout(from, to, "test", Asked::explicitly), *from, components), cut(value, to), to);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(Layouts, MergedBuffersMoveNothing) {
  const Tensor x = distribute_tensor(at::rand({64, 64}), rows_);
  const Tensor y = relayout(x, whole_);
  EXPECT_EQ(mesh_impl(y).read()[0].const_data_ptr() == mesh_impl(x).read()[0].const_data_ptr(), GetParam());
}

TEST_P(Layouts, EveryCollectiveIsInTheLog) {
  const Tensor x = distribute_tensor(at::rand({8, 8}, at::kDouble), rows_);
  reset_communications();
  relayout(x, columns_);
  EXPECT_THAT(log(), ElementsAre(line("all_to_all batch relayout 128"))) << "a device puts in 2 rows of 8 numbers";
  reset_communications();
  relayout(x, whole_);
  gather(x);
  EXPECT_THAT(log(), ElementsAre(line("all_gather batch gather 512"), line("all_gather batch relayout 512")));
  reset_communications();
  relayout(distribute_tensor(at::rand({8, 8}), whole_), rows_);
  EXPECT_THAT(log(), ElementsAre()) << "a local slice is no communication";
}

TEST_F(SeparateLayouts, CopiesOfTermsShareTheWorkOfTheirSum) {
  const auto log_of_sum = [](const Mesh& mesh) {
    const Spec* terms = intern(MeshShape::of(mesh), {-1, -1}, 1, {8, 8});
    const Tensor sum = make_mesh_tensor(terms, Components(4, at::ones({8, 8}, at::kDouble)));
    reset_communications();
    const Tensor result = relayout(sum, Layout({kUnsharded, "batch"}, mesh));
    const std::vector<std::string> lines = log();
    EXPECT_TRUE(at::equal(gather(result), at::full_like(gather(result), 4)));
    return lines;
  };
  EXPECT_THAT(log_of_sum(Mesh({{"batch", 4}}, configure_logical_cpus(4), {.merge = false})),
              ElementsAre("reduce_scatter batch relayout 512"));
  EXPECT_THAT(log_of_sum(mesh_), ElementsAre("all_gather model relayout 128", "reduce_scatter batch relayout 256"));
}

TEST_P(Layouts, AGroupOfOneDeviceDoesNotCommunicate) {
  const Mesh mesh({{"one", 1}, {"two", 2}}, configure_logical_cpus(2), {.merge = GetParam()});
  const Tensor x = distribute_tensor(at::rand({4}), Layout({"one"}, mesh));
  reset_communications();
  relayout(x, Layout::replicated(mesh, 1));
  EXPECT_THAT(log(), ElementsAre());
}

TEST_P(Layouts, AnotherMeshRankOrSumIsRefusedByName) {
  const Mesh other({{"rows", 2}}, configure_logical_cpus(2), {.merge = GetParam()});
  const Tensor x = distribute_tensor(at::ones({8, 8}), rows_);
  EXPECT_THAT(error_of([&] { relayout(x, Layout::replicated(other, 2)); }),
              AllOf(HasSubstr("invalid_argument"), HasSubstr("<batch=4, model=2>"), HasSubstr("<rows=2>")));
  EXPECT_THAT(error_of([&] { relayout(x, Layout({"batch"}, mesh_)); }),
              AllOf(HasSubstr("invalid_argument"), HasSubstr("[batch, unsharded]"), HasSubstr("to [batch] ")));
  EXPECT_THAT(error_of([&] {
                relayout(x, Layout({"batch", kUnsharded}, mesh_, {"model"}));
              }),
              AllOf(HasSubstr("invalid_argument"), HasSubstr("unreduced={model}"), HasSubstr("sum of terms")));
}

TEST_P(Layouts, StrictModeRefusesAnImpliedMoveOfPieces) {
  const Tensor rows = distribute_tensor(numbers({8, 8}), rows_), columns = distribute_tensor(numbers({8, 8}), columns_);
  const auto add = [&] { return rows + columns; };
  EXPECT_TRUE(at::equal(gather(add()), numbers({8, 8}) * 2));
  const StrictMode strict;
  reset_communications();
  EXPECT_THAT(error_of(add),
              AllOf(HasSubstr("failed_precondition"), HasSubstr("aten::add"), HasSubstr("[batch, unsharded]"),
                    HasSubstr("[unsharded, batch]"), HasSubstr("relayout() it first")));
  EXPECT_THAT(log(), ElementsAre()) << "what was refused did not communicate";
  EXPECT_TRUE(at::equal(gather(relayout(rows, columns_) + columns), numbers({8, 8}) * 2));
}

TEST_P(Layouts, StrictModeAllowsSlicesAndSums) {
  const Tensor rows = distribute_tensor(numbers({8, 8}), rows_), columns = distribute_tensor(numbers({8, 8}), columns_);
  const Tensor whole = distribute_tensor(numbers({8, 8}), whole_);
  const StrictMode strict;
  EXPECT_TRUE(at::equal(gather(rows + whole), numbers({8, 8}) * 2));
  EXPECT_TRUE(at::equal(gather(at::mm(columns, rows)), at::mm(numbers({8, 8}), numbers({8, 8}))));
  EXPECT_EQ(rows.sum().item<double>(), 64 * 65 / 2);
}

TEST_F(SeparateLayouts, StrictModeAllowsASumThatIsDue) {
  ensure_registered();
  const StrictMode strict;
  const Spec* terms = intern(MeshShape::of(mesh_), {-1, -1}, 1, {8, 8});
  const Tensor sum = make_mesh_tensor(terms, laid_out_by(numbers({8, 8}), terms));
  EXPECT_TRUE(at::equal(gather(sum.mul(sum)), numbers({8, 8}) * numbers({8, 8})));
}

TEST_F(SeparateLayouts, OnlyTheLastThatWereAskedForAreKept) {
  const MeshShape* shape = MeshShape::of(make_mesh({2}, /*merge=*/false));
  std::vector<std::weak_ptr<const Relayout>> made;
  for (int64_t length = 1; length <= 3000; ++length)
    made.push_back(Relayout::of(intern(shape, {0}, 0, {length}), intern(shape, {-1}, 0, {length}), "a test"));
  EXPECT_FALSE(made.back().expired());
  EXPECT_LE(std::ranges::count_if(made, [](const auto& each) { return !each.expired(); }), 1024);
}

}  // namespace
}  // namespace tutti
