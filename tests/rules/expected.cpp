#include "expected.h"

#include "tests/support/test_devices.h"
#include "tutti/core/str.h"
#include "tutti/tensor/mesh_tensor.h"

namespace tutti::rules {
namespace {

Tensor make_operand(const Operand& operand) {
  switch (operand.elements) {
    case Operand::Elements::any: return torch::randn(operand.sizes);
    case Operand::Elements::positive: return torch::rand(operand.sizes) + 0.5;
    case Operand::Elements::fractions: return torch::rand(operand.sizes) * 0.9 + 0.05;
    case Operand::Elements::integers: return torch::randint(operand.below, operand.sizes, torch::kLong);
    case Operand::Elements::booleans: return torch::rand(operand.sizes) > 0.5;
  }
  return {};
}

Tensors that_need_gradients(const Tensors& tensors) {
  Tensors found;
  for (const Tensor& tensor : tensors)
    if (tensor.requires_grad()) found.push_back(tensor);
  return found;
}

}  // namespace

Tensors gradients_of(const Tensors& results, const Tensors& operands, const Tensors& result_gradients) {
  const Tensors from = that_need_gradients(results), to = that_need_gradients(operands);
  if (from.empty() || to.empty()) return {};
  return torch::autograd::grad(from, to, result_gradients, /*retain_graph=*/false, /*create_graph=*/false,
                               /*allow_unused=*/true);
}

Expected expected_of(const RuleCase& rule_case) {
  torch::manual_seed(11);
  Expected expected;
  for (const Operand& operand : rule_case.operands) {
    Tensor value = make_operand(operand).to(test_torch_device());
    if (value.is_floating_point() && operand.gradient) value.requires_grad_();
    expected.operands.push_back(std::move(value));
  }
  expected.results = rule_case.function(expected.operands);
  for (const Tensor& result : that_need_gradients(expected.results))
    expected.result_gradients.push_back(torch::randn(result.sizes()).to(test_torch_device()));
  expected.gradients = gradients_of(expected.results, expected.operands, expected.result_gradients);
  return expected;
}

Layout as_on(const Layout& layout, const Mesh& mesh) {
  std::vector<std::string> names;
  for (const int d : layout.axes())
    names.push_back(d < 0 ? kUnsharded : mesh.dimensions()[static_cast<size_t>(d)].name);
  return Layout(names, mesh);
}

std::string to_text(const std::vector<Layout>& layouts) {
  std::string text;
  for (const Layout& layout : layouts) text += (text.empty() ? "" : ", ") + layout.to_string();
  return text;
}

Tensors gathered(const Tensors& tensors) {
  Tensors values;
  for (const Tensor& tensor : tensors) values.push_back(tensor.defined() ? gather(tensor.detach()) : tensor);
  return values;
}

std::string difference(const char* what, const Tensors& actual, const Tensors& expected) {
  if (actual.size() != expected.size()) return str(actual.size(), " ", what, "s, not ", expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    if (actual[i].defined() != expected[i].defined()) return tutti::str(what, " ", i, " is defined on one side only");
    if (!actual[i].defined()) continue;
    const Tensor &value = actual[i], wanted = expected[i].detach();
    if (value.sizes() != wanted.sizes())
      return tutti::str(what, " ", i, " has sizes ", value.sizes(), ", not ", wanted.sizes());
    if (value.scalar_type() != wanted.scalar_type())
      return tutti::str(what, " ", i, " is ", value.scalar_type(), ", not ", wanted.scalar_type());
    if (!torch::allclose(value, wanted, 1e-11, 1e-11, /*equal_nan=*/true))
      return tutti::str(what, " ", i, " differs by ", (value - wanted).abs().max().item<double>());
  }
  return "";
}

}  // namespace tutti::rules
