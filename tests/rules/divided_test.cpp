// Every sharding rule on meshes that are divided among processes, which are threads here: in merged and in separate
// buffers, with small parts joined and not, for a sample of the layouts, all processes get the same, bit for bit, and
// what one device gives; in separate buffers with joined parts also the bits of the whole mesh.
#include <gtest/gtest.h>

#include <optional>

#include "expected.h"
#include "input_layouts.h"
#include "rule_cases.h"
#include "tests/support/divided_mesh.h"
#include "tests/support/same_bits.h"
#include "tutti/tensor/mesh_tensor.h"
#include "tutti/tensor/random_seed.h"
#include "tutti/tensor/registration.h"
#include "tutti/tensor/separate_parts.h"
#include "tutti/tensor/view.h"

namespace tutti::rules {
namespace {

constexpr size_t kMaxLayouts = 8;  // on one mesh
constexpr const char* kInParts = "in parts, ";

// What came out, as plain tensors.
struct Gathered {
  Tensors results, gradients;
};

Gathered run_case(const RuleCase& rule_case, const Expected& expected, const Layouts& layouts, const Mesh& mesh) {
  std::optional<SeparateParts> parts;
  if (mesh.name().starts_with(kInParts)) parts.emplace();
  // Processes that are threads share LibTorch's own generator, so each has one with the seed that cases give that.
  ensure_registered();
  at::Generator numbers = make_generator(kSeed, at::kCPU);
  const ThreadViewGuard view({.generator = &numbers});
  Tensors operands;
  for (size_t i = 0; i < layouts.size(); ++i) {
    operands.push_back(distribute_tensor(expected.operands[i].detach(), as_on(layouts[i], mesh)));
    if (expected.operands[i].requires_grad()) operands.back().requires_grad_();
  }
  const Tensors results = rule_case.function(operands);
  Tensors result_gradients;
  for (const Tensor& result : results)
    if (result.requires_grad())
      result_gradients.push_back(
          distribute_tensor(expected.result_gradients.at(result_gradients.size()), layout_of(result)));
  const Tensors gradients = gradients_of(results, operands, result_gradients);
  return {gathered(results), gathered(gradients)};
}

bool have_equal_bits(const Tensors& a, const Tensors& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), same_bits);
}
bool have_equal_bits(const Gathered& a, const Gathered& b) {
  return have_equal_bits(a.results, b.results) && have_equal_bits(a.gradients, b.gradients);
}

class DividedRules : public testing::TestWithParam<RuleCase> {
 protected:
  void SetUp() override { torch::set_default_dtype(caffe2::TypeMeta::Make<double>()); }
  void TearDown() override { torch::set_default_dtype(caffe2::TypeMeta::Make<float>()); }

  // What is wrong; "" for nothing.
  static std::string check(const RuleCase& rule_case, const Expected& expected, const DividedMesh& mesh) {
    const auto choice = input_layouts(Notation::parse(rule_case.notation), mesh.whole(), kMaxLayouts);
    std::vector<std::vector<Gathered>> all(static_cast<size_t>(mesh.processes));
    const auto failures = on_each_process(mesh, [&](const Mesh& own, int rank) {
      for (const Layouts& layouts : choice.layouts)
        all[static_cast<size_t>(rank)].push_back(run_case(rule_case, expected, layouts, own));
    });
    const auto given = [&](size_t i) { return i < choice.layouts.size() ? to_text(choice.layouts[i]) : "?"; };
    if (const std::string failure = first_failure(failures); !failure.empty())
      return "given " + given(all[0].size()) + ": " + failure.substr(0, 600);
    for (size_t i = 0; i < choice.layouts.size(); ++i) {
      const Gathered& first = all[0][i];
      std::string text = difference("result", first.results, expected.results);
      if (text.empty()) text = difference("gradient", first.gradients, expected.gradients);
      for (const auto& other : all)
        if (text.empty() && !have_equal_bits(first, other[i])) text = "processes have other bits";
      if (text.empty() && !mesh.merge && mesh.name.empty()) {
        const Gathered whole = run_case(rule_case, expected, choice.layouts[i], mesh.whole());
        if (!have_equal_bits(first, whole)) text = "the whole mesh gives other bits";
      }
      if (!text.empty()) return "given " + given(i) + ": " + text;
    }
    return "";
  }
};

TEST_P(DividedRules, GiveEachProcessWhatTheWholeMeshGives) {
  const RuleCase& rule_case = GetParam();
  const Expected expected = expected_of(rule_case);
  const std::vector<DividedMesh> meshes{
      {{{"x", 2}}, "x", 2}, {{{"x", 4}}, "x", 2}, {{{"x", 2}, {"y", 2}}, "y", 2}, {{{"x", 3}, {"y", 2}}, "x", 3}};
  for (DividedMesh mesh : meshes)
    for (const char* buffers : {"merged", "separate", kInParts}) {
      mesh.merge = buffers == std::string("merged");
      if (buffers == std::string(kInParts)) mesh.name = kInParts;
      const std::string text = check(rule_case, expected, mesh);
      EXPECT_EQ(text, "") << rule_case.notation << " on " << mesh.whole().to_string() << " divided along "
                          << mesh.divided << ", " << buffers;
    }
}

INSTANTIATE_TEST_SUITE_P(All, DividedRules, testing::ValuesIn(all_cases()),
                         [](const testing::TestParamInfo<RuleCase>& info) { return info.param.name; });

}  // namespace
}  // namespace tutti::rules
