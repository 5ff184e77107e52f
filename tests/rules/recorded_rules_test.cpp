// Each case of the rules, forward and backward, as a recorded function: on plain tensors and on a mesh, in merged and
// in separate buffers, its calls give the bits of plain calls.
#include <gtest/gtest.h>

#include <cstdio>
#include <optional>
#include <set>

#include "expected.h"
#include "input_layouts.h"
#include "rule_cases.h"
#include "tests/support/same_bits.h"
#include "tests/support/test_devices.h"
#include "tests/support/test_graphs.h"
#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/function/function.h"
#include "tutti/tensor/mesh_tensor.h"

namespace tutti::rules {
namespace {

const int kCalls = test_graphs() ? 6 : 4;  // two are recorded, the third tries what the others do
constexpr size_t kMaxLayouts = 6;          // on one mesh

// Where a case runs: on plain tensors, or laid out so.
struct Place {
  std::optional<Mesh> mesh;
  Layouts layouts;

  std::string to_string() const { return mesh ? mesh->to_string() + " given " + to_text(layouts) : "plain tensors"; }
};

class Case {
 public:
  Case(const RuleCase& rule_case, const Expected& expected, const Place& place)
      : rule_case_(rule_case), expected_(expected), place_(place) {
    const Tensors results = rule_case_.function(operands_of(arguments(0)));
    for (const Tensor& result : results)
      if (result.requires_grad())
        gradient_layouts_.push_back(place_.mesh ? std::optional(layout_of(result)) : std::nullopt);
  }

  // Operands, then gradients of results; of each call others.
  Tensors arguments(int call) const {
    Tensors tensors;
    for (size_t i = 0; i < expected_.operands.size(); ++i) {
      const Tensor value = of_call(expected_.operands[i].detach(), call);
      tensors.push_back(place_.mesh ? distribute_tensor(value, as_on(place_.layouts[i], *place_.mesh)) : value);
    }
    for (size_t i = 0; i < gradient_layouts_.size(); ++i) {
      const Tensor value = of_call(expected_.result_gradients.at(i), call);
      tensors.push_back(place_.mesh ? distribute_tensor(value, *gradient_layouts_[i]) : value);
    }
    return tensors;
  }

  // Results, then gradients of operands.
  Tensors run(const Tensors& arguments) const {
    const Tensors operands = operands_of(arguments);
    Tensors results = rule_case_.function(operands);
    const Tensors result_gradients(arguments.begin() + static_cast<std::ptrdiff_t>(operands.size()), arguments.end());
    const Tensors gradients = gradients_of(results, operands, result_gradients);
    results.insert(results.end(), gradients.begin(), gradients.end());
    return results;
  }

 private:
  static Tensor of_call(const Tensor& value, int call) {
    return value.is_floating_point() ? value * (1 - call / 16.0) : value.clone();
  }

  Tensors operands_of(const Tensors& arguments) const {
    Tensors operands;
    for (size_t i = 0; i < expected_.operands.size(); ++i)
      operands.push_back(arguments[i].detach().set_requires_grad(expected_.operands[i].requires_grad()));
    return operands;
  }

  const RuleCase& rule_case_;
  const Expected& expected_;
  const Place& place_;
  std::vector<std::optional<Layout>> gradient_layouts_;  // none of plain tensors
};

std::vector<Place> places_for(const RuleCase& rule_case) {
  std::vector<Place> places(1);
  for (const bool merge : {true, false}) {
    const Mesh mesh({{"x", 2}, {"y", 2}}, test_devices(4), {.merge = merge});
    for (const Layouts& layouts : input_layouts(Notation::parse(rule_case.notation), mesh, kMaxLayouts).layouts)
      places.push_back({mesh, layouts});
  }
  return places;
}

// Whose gradients by LibTorch read a number out of a tensor, or which writes to its arguments by its schema, which on a
// mesh is refused.
const std::set<std::string> kNotRecorded = {"cumprod", "max_of_all",  "min_of_all",
                                            "prod",    "prod_of_all", "batch_norm_in_inference"};
// On GPUs.
const std::set<std::string> kNotRecordedThere = {"bernoulli_of_probabilities"};

// Of which CUDA's kernels add in an order of their own, so that two plain calls give other bits.
const std::set<std::string> kUnorderedOnCuda = {"upsample_bilinear2d", "upsample_bicubic2d", "upsample_trilinear3d",
                                                "pad_reflect",         "pad_replicate",      "nll_2d_sum",
                                                "nll_2d_mean",         "cross_entropy_2d"};
// Which CUDA has one kernel for, and a recording LibTorch's calls of others.
const std::set<std::string> kComposedOnCuda = {"rms_norm"};

int64_t num_recorded = 0;
std::set<std::string> refusals;

class RecordedRules : public testing::TestWithParam<RuleCase> {
 protected:
  void TearDown() override { torch::set_default_dtype(caffe2::TypeMeta::Make<float>()); }

  static void TearDownTestSuite() {
    std::printf("%lld recorded. Not recorded:\n", static_cast<long long>(num_recorded));
    for (const std::string& refusal : refusals) std::printf("  %s\n", refusal.c_str());
  }

  // What is wrong; empty for nothing.
  static std::string check(const RuleCase& rule_case, const Expected& expected, const Place& place) {
    const Case one(rule_case, expected, place);
    const auto recorded = function([&](const Tensors& arguments) { return one.run(arguments); });
    for (int call = 0; call < kCalls; ++call) {
      torch::manual_seed(7 + call);
      const Tensors wanted = one.run(one.arguments(call));
      torch::manual_seed(7 + call);
      const Tensors seen = recorded(one.arguments(call));
      if (seen.size() != wanted.size()) return str("call ", call, ": ", seen.size(), " results, not ", wanted.size());
      for (size_t i = 0; i < seen.size(); ++i)
        if (!same_bits(seen[i], wanted[i])) return str("call ", call, ": result ", i, " has other bits");
    }
    ++num_recorded;
    return "";
  }
};

TEST_P(RecordedRules, GiveTheBitsOfPlainCalls) {
  const RuleCase& rule_case = GetParam();
  if (test_torch_device().is_cuda() &&
      (kUnorderedOnCuda.count(rule_case.name) || kComposedOnCuda.count(rule_case.name)))
    GTEST_SKIP() << "has other bits on CUDA";
  if (rule_case.name.find("float_power") != std::string::npos)  // which gives no others
    torch::set_default_dtype(caffe2::TypeMeta::Make<double>());
  const Expected expected = expected_of(rule_case);
  for (const Place& place : places_for(rule_case)) {
    try {
      EXPECT_EQ(check(rule_case, expected, place), "") << rule_case.notation << " on " << place.to_string();
    } catch (const Error& refusal) {
      const bool there = !test_devices_are_cpus() && kNotRecordedThere.count(rule_case.name);
      if (!there && !kNotRecorded.count(rule_case.name)) throw;
      refusals.insert(str(rule_case.name, place.mesh ? ", on a mesh: " : ": ", refusal.what()));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, RecordedRules, testing::ValuesIn(all_cases()),
                         [](const testing::TestParamInfo<RuleCase>& info) { return info.param.name; });

}  // namespace
}  // namespace tutti::rules
