// Every sharding rule against plain tensors: on each mesh, for each layout of the operands (or a fixed sample), in
// merged and in separate buffers, with small parts joined and not, the results and the gradients are those of one
// device, the results' layouts do not depend on where buffers lie, nothing is gathered for want of a rule, and no more
// is communicated than the case says.
#include <gtest/gtest.h>

#include <cstdio>
#include <optional>

#include "expected.h"
#include "input_layouts.h"
#include "rule_cases.h"
#include "tests/support/collected_warnings.h"
#include "tests/support/test_devices.h"
#include "tutti/collectives/communications.h"
#include "tutti/core/str.h"
#include "tutti/tensor/mesh_tensor.h"
#include "tutti/tensor/separate_parts.h"

namespace tutti::rules {
namespace {

constexpr int kMaxFailures = 3;  // of one case: more say nothing new
constexpr const char* kInParts = "in_parts";

struct Counts {
  int64_t cases = 0, layouts = 0, runs = 0, sampled = 0, sampled_from = 0, sampled_cases = 0;
};
Counts counts;

// What came out, of mesh tensors.
struct Outcome {
  Tensors results, gradients;
  std::vector<Layout> layouts;
  int64_t forward_bytes = 0, backward_bytes = 0;
  std::string communicated;
};

// Sees to it that no op gathers for want of a rule, of which there is one warning for each op, and that none counts a
// plain operand as replicated.
class Watch {
 public:
  void check_forward() const {
    for (const Communication& c : communications())
      if (c.op == "replicate") throw std::logic_error("a plain operand of " + c.cause);
  }
  void check() const {
    if (!warnings_.lines().empty()) throw std::logic_error(str_list(warnings_.lines()));
  }

 private:
  CollectedWarnings warnings_;
};

// Bytes that moved though the program did not ask for it; with merged buffers, that would have moved.
int64_t implied_bytes(std::string& text) {
  int64_t bytes = 0;
  for (const Communication& c : communications())
    if (c.implied && c.bytes > 0) {
      bytes += c.bytes;
      text += str(" ", c.op, " over ", c.mesh_dimension, " for ", c.cause, ": ", c.bytes, " bytes;");
    }
  return bytes;
}

Outcome run(const RuleCase& rule_case, const Expected& expected, const Layouts& layouts, const Mesh& mesh) {
  Outcome outcome;
  Tensors operands;
  for (size_t i = 0; i < layouts.size(); ++i) {
    operands.push_back(distribute_tensor(expected.operands[i].detach(), as_on(layouts[i], mesh)));
    if (expected.operands[i].requires_grad()) operands.back().requires_grad_();
  }
  const Watch watch;
  reset_communications();
  outcome.results = rule_case.function(operands);
  watch.check_forward();
  outcome.forward_bytes = implied_bytes(outcome.communicated);
  Tensors result_gradients;
  for (const Tensor& result : outcome.results) {
    outcome.layouts.push_back(layout_of(result));
    if (!result.requires_grad()) continue;
    if (result_gradients.size() >= expected.result_gradients.size())
      throw std::logic_error("a result has a gradient that it should not have");
    result_gradients.push_back(
        distribute_tensor(expected.result_gradients[result_gradients.size()], outcome.layouts.back()));
  }
  reset_communications();
  outcome.gradients = gradients_of(outcome.results, operands, result_gradients);
  outcome.communicated += " backward:";
  outcome.backward_bytes = implied_bytes(outcome.communicated);
  watch.check();
  return outcome;
}

// What is wrong with the outcome; empty for nothing. What it may cost is told for one memory, and for the CPU's
// kernels.
std::string defect(const Outcome& outcome, const Expected& expected, const Cost& allowed) {
  std::string text = difference("result", gathered(outcome.results), expected.results);
  if (text.empty()) text = difference("gradient", gathered(outcome.gradients), expected.gradients);
  if (!text.empty()) return text;
  if (!test_devices_are_cpus()) return "";
  if (outcome.forward_bytes > allowed.forward || outcome.backward_bytes > allowed.backward)
    return str("communicates ", outcome.forward_bytes, " + ", outcome.backward_bytes, " bytes, allowed are ",
               allowed.forward, " + ", allowed.backward, ":", outcome.communicated);
  return "";
}

class Rules : public testing::TestWithParam<RuleCase> {
 protected:
  void SetUp() override { torch::set_default_dtype(caffe2::TypeMeta::Make<double>()); }
  void TearDown() override { torch::set_default_dtype(caffe2::TypeMeta::Make<float>()); }

  static void TearDownTestSuite() {
    std::printf(
        "%lld cases with %lld layouts: %lld runs, merged, separate and in parts. In %lld cases the layouts are a "
        "sample: %lld of "
        "%lld.\n",
        static_cast<long long>(counts.cases), static_cast<long long>(counts.layouts),
        static_cast<long long>(counts.runs), static_cast<long long>(counts.sampled_cases),
        static_cast<long long>(counts.sampled), static_cast<long long>(counts.sampled_from));
  }

  // Runs the case with these layouts in merged and in separate buffers, and in separate ones of which no small parts
  // are joined. Returns what is wrong.
  static std::string check(const RuleCase& rule_case, const Expected& expected, const Layouts& layouts,
                           const std::vector<Mesh>& meshes) {
    const Cost allowed = allowed_cost(rule_case, layouts, expected.operands, expected.results);
    std::vector<Layout> result_layouts;
    for (const Mesh& mesh : meshes) {
      const bool in_parts = mesh.options().name == kInParts;
      const std::optional<SeparateParts> parts = in_parts ? std::optional<SeparateParts>(std::in_place) : std::nullopt;
      const std::string where = mesh.options().merge ? "merged: " : in_parts ? "in parts: " : "separate: ";
      try {
        const Outcome outcome = run(rule_case, expected, layouts, mesh);
        ++counts.runs;
        if (std::string text = defect(outcome, expected, allowed); !text.empty()) return where + text;
        for (size_t i = 0; i < result_layouts.size(); ++i)
          if (result_layouts[i].axes() != outcome.layouts[i].axes())
            return str("results are ", to_text(result_layouts), " merged, but ", where, to_text(outcome.layouts));
        result_layouts = outcome.layouts;
      } catch (const std::exception& error) {
        return where + std::string(error.what()).substr(0, 400);
      }
    }
    return "";
  }
};

TEST_P(Rules, GiveWhatOneDeviceGives) {
  const RuleCase& rule_case = GetParam();
  const Notation notation = Notation::parse(rule_case.notation);
  ASSERT_EQ(notation.operands.size(), rule_case.operands.size());
  const Expected expected = expected_of(rule_case);
  ASSERT_EQ(notation.results.size(), expected.results.size());
  ++counts.cases;
  bool sampled = false;
  int failures = 0;
  for (const std::vector<int64_t>& sizes : std::vector<std::vector<int64_t>>{{2}, {3}, {2, 2}, {2, 3}, {2, 2, 2}}) {
    std::vector<MeshDimension> dimensions;
    int devices = 1;
    for (size_t d = 0; d < sizes.size(); ++d) {
      dimensions.push_back({std::string(1, static_cast<char>('x' + d)), sizes[d]});
      devices *= static_cast<int>(sizes[d]);
    }
    const Mesh merged(dimensions, test_devices(devices));
    const Mesh separate(dimensions, test_devices(devices), {.merge = false});
    const Mesh in_parts(dimensions, test_devices(devices), {.merge = false, .name = kInParts});
    const LayoutChoice choice = input_layouts(notation, separate, rule_case.max_layouts);
    counts.layouts += static_cast<int64_t>(choice.layouts.size());
    if (choice.total > static_cast<int64_t>(choice.layouts.size())) {
      sampled = true;
      counts.sampled += static_cast<int64_t>(choice.layouts.size());
      counts.sampled_from += choice.total;
    }
    for (const Layouts& layouts : choice.layouts) {
      const std::string text = check(rule_case, expected, layouts, {merged, separate, in_parts});
      if (text.empty()) continue;
      ADD_FAILURE() << rule_case.notation << " on " << separate.to_string() << " given " << to_text(layouts) << "\n  "
                    << text;
      if (++failures == kMaxFailures) return;
    }
  }
  counts.sampled_cases += sampled;
}

INSTANTIATE_TEST_SUITE_P(All, Rules, testing::ValuesIn(all_cases()),
                         [](const testing::TestParamInfo<RuleCase>& info) { return info.param.name; });

}  // namespace
}  // namespace tutti::rules
