#include "facts.h"

#include <algorithm>
#include <map>
#include <set>

#include "print.h"

namespace tutti::fuzz {

Sizes strides_that_count(const Seen& seen) {
  Sizes strides;
  const bool empty = std::find(seen.sizes.begin(), seen.sizes.end(), 0) != seen.sizes.end();
  for (size_t i = 0; i < seen.sizes.size() && !empty; ++i)
    if (seen.sizes[i] > 1) strides.push_back(seen.strides[i]);
  return strides;
}

bool Facts::calls(const std::function<bool(const std::string& op)>& matches) const {
  return std::any_of(program_.statements.begin(), program_.statements.end(),
                     [&](const Statement& statement) { return statement.op && matches(op_name(*statement.op)); });
}

bool Facts::has_value_of_no_elements() const {
  return std::any_of(wanted_.seen.begin(), wanted_.seen.end(),
                     [](const Seen& seen) { return seen.value.defined() && seen.value.numel() == 0; });
}

bool Facts::have_no_elements(int first, int count) const {
  bool gives_any = false, all_empty = true;
  for (const Seen& seen : wanted_.seen)
    if (!seen.is_gradient && seen.slot >= first && seen.slot < first + count && seen.value.defined()) {
      gives_any = true;
      all_empty &= seen.value.numel() == 0;
    }
  return gives_any && all_empty;
}

bool Facts::is_of_no_elements(const Statement& call) const {
  const auto& slots = call.arguments.at(0).slots;
  return have_no_elements(call.result, Program::kResults) || (!slots.empty() && have_no_elements(slots[0], 1));
}

bool Facts::is_left_to_backward(int slot) const {
  return std::any_of(program_.statements.begin(), program_.statements.end(), [&](const Statement& statement) {
    return statement.op && op_name(*statement.op).rfind("embedding_bag", 0) == 0 && slot > statement.result &&
           slot < statement.result + Program::kResults;
  });
}

bool Facts::mixes_types() const {
  return std::any_of(wanted_.seen.begin(), wanted_.seen.end(),
                     [&](const Seen& seen) { return seen.dtype != wanted_.seen[0].dtype; });
}

bool Facts::calls_product() const {
  return calls([](const std::string& op) {
    return op == "einsum" || op == "linear" || op.find("scaled_dot_product_attention") != std::string::npos ||
           op.rfind("matmul", 0) == 0 || op.rfind("linalg_matmul", 0) == 0;
  });
}

bool Facts::hooks_written_product() const {
  std::set<int> results, hooked;
  std::map<int, int> written;  // what an op in place gives, by what it was given
  for (const Statement& statement : program_.statements) {
    int first =
        statement.arguments.empty() || statement.arguments[0].slots.empty() ? -1 : statement.arguments[0].slots[0];
    if (const auto found = written.find(first); found != written.end()) first = found->second;
    if (statement.kind == Statement::Kind::hook && results.count(first)) hooked.insert(first);
    if (!statement.op) continue;
    if (const std::string op = op_name(*statement.op); op == "einsum" || op == "linear")
      results.insert(statement.result);
    if (!is_written(statement.op->schema().arguments()[0])) continue;
    if (hooked.count(first)) return true;
    written[statement.result] = first;
  }
  return false;
}

bool Facts::calls_dropout() const {
  return calls([](const std::string& op) { return op.find("dropout") != std::string::npos; });
}

bool Facts::calls_logsumexp_into() const {
  return calls([](const std::string& op) { return op == "logsumexp.out" || op == "special_logsumexp.out"; });
}

bool Facts::transforms_into() const {
  return calls([](const std::string& op) { return op.rfind("fft_ihfft", 0) == 0 && op.ends_with(".out"); });
}

bool Facts::hangs_on_a_nan() const {
  static constexpr const char* kOps[] = {"signbit",    "copysign", "relu6", "hardtanh", "hardswish", "softshrink",
                                         "hardshrink", "elu",      "celu",  "selu",     "_add_relu"};
  return calls([](const std::string& op) {
           return op.find("_polynomial_") != std::string::npos ||
                  std::ranges::any_of(kOps, [&](const char* name) { return op.rfind(name, 0) == 0; });
         }) &&
         std::any_of(wanted_.seen.begin(), wanted_.seen.end(), [](const Seen& seen) {
           return seen.value.defined() && at::isFloatingType(seen.dtype) && seen.value.isnan().any().item<bool>();
         });
}

bool Facts::takes_median_of_expanded() const {
  const auto is_expanded = [&](int slot) {
    return std::any_of(wanted_.seen.begin(), wanted_.seen.end(), [&](const Seen& seen) {
      const Sizes strides = strides_that_count(seen);
      return seen.slot == slot && std::find(strides.begin(), strides.end(), 0) != strides.end();
    });
  };
  return std::any_of(program_.statements.begin(), program_.statements.end(), [&](const Statement& statement) {
    if (!statement.op) return false;
    const std::string op = statement_name(statement);
    return (op.rfind("median.dim", 0) == 0 || op.rfind("nanmedian.dim", 0) == 0) &&
           is_expanded(statement.arguments[0].slots[0]);
  });
}

bool Facts::calls_norm() const {
  return calls([](const std::string& op) { return op.find("_norm") != std::string::npos; });
}

bool Facts::takes_complex_deviation_into() const {
  return calls([](const std::string& op) { return op == "std.out" || op == "std.correction_out"; }) &&
         std::any_of(wanted_.seen.begin(), wanted_.seen.end(),
                     [](const Seen& seen) { return at::isComplexType(seen.dtype); });
}

double Facts::most_elements() const {
  int64_t most = 1;
  for (const Seen& seen : wanted_.seen)
    if (seen.value.defined()) most = std::max(most, seen.value.numel());
  return static_cast<double>(most);
}

bool Facts::negates() const {
  return calls([](const std::string& op) { return op.rfind("neg", 0) == 0; });
}

bool Facts::leaves_infinities_open() const {
  return calls_logsumexp_into() || calls([](const std::string& op) {
           return op.rfind("var_mean", 0) == 0 || op.rfind("std_mean", 0) == 0 || op.rfind("gelu", 0) == 0 ||
                  op.rfind("norm.", 0) == 0 || op.rfind("prod", 0) == 0 || op == "cov" || op == "corrcoef" ||
                  op.find("logdet") != std::string::npos || op.find("solve") != std::string::npos;
         }) ||
         calls_norm();
}

bool Facts::sums_overflow(const Tensor& value) const {
  return program_.place == Place::replicas && value.is_floating_point() &&
         value.isfinite().logical_and(value.mul(2).isinf()).any().item<bool>();
}

bool Facts::resizes() const {
  return std::any_of(program_.statements.begin(), program_.statements.end(), [](const Statement& statement) {
    return statement.op && !statement.op->schema().arguments().empty() &&
           statement.op->schema().arguments().back().is_out();
  });
}

bool Facts::is_result_of_gradient(int slot) const {
  return std::any_of(program_.statements.begin(), program_.statements.end(), [&](const Statement& statement) {
    return statement.kind == Statement::Kind::gradient && slot >= statement.result &&
           slot < statement.result + Program::kResults;
  });
}

bool Facts::is_read_gradient(int slot) const {
  return std::any_of(program_.statements.begin(), program_.statements.end(), [&](const Statement& statement) {
    return statement.kind == Statement::Kind::read_gradient && slot == statement.result;
  });
}

bool Facts::is_input(int slot) const {
  return std::any_of(program_.inputs.begin(), program_.inputs.end(),
                     [&](const Input& input) { return input.slot == slot; });
}

bool Facts::is_shared(int slot) const {
  if (program_.place != Place::replicas) return false;
  const auto wrote = [&](const Statement& statement) {
    if (!statement.op || slot < statement.result || slot >= statement.result + Program::kResults) return false;
    const auto& arguments = statement.op->schema().arguments();
    return std::any_of(arguments.begin(), arguments.end(), [](const auto& argument) { return is_written(argument); });
  };
  return is_input(slot) || std::any_of(program_.statements.begin(), program_.statements.end(), wrote);
}

bool Facts::goes_back_behind_a_step() const {
  int made = 0, made_before = -1;  // results have lower slots
  for (const Statement& statement : program_.statements) {
    if (statement.op) made = std::max(made, statement.result + Program::kResults);
    if (statement.kind == Statement::Kind::optimizer_step) made_before = made;
    const bool goes_back = statement.kind == Statement::Kind::backward || statement.kind == Statement::Kind::gradient;
    if (!goes_back || made_before < 0) continue;
    for (const int slot : statement.arguments[0].slots)
      if (slot < made_before && !is_input(slot)) return true;
  }
  return false;
}

bool Facts::writes_behind_kron() const {
  bool has_kron = false;
  for (const Statement& statement : program_.statements) {
    if (!statement.op) continue;
    const auto& arguments = statement.op->schema().arguments();
    if (has_kron && std::ranges::any_of(arguments, is_written)) return true;
    has_kron |= op_name(*statement.op) == "kron";
  }
  return false;
}

bool Facts::is_bits_of_a_result(int slot) const {
  return std::any_of(program_.statements.begin(), program_.statements.end(), [&](const Statement& statement) {
    if (!statement.op) return false;
    const std::string op = statement_name(statement);
    if (op == "view.dtype" && statement.arguments[0].slots[0] == slot) return writes_to(statement.result);
    return statement.result == slot &&
           (op == "view.dtype" || op.rfind("atan2", 0) == 0 || op.rfind("arctan2", 0) == 0) &&
           !is_input(statement.arguments[0].slots[0]);
  });
}

bool Facts::writes_to(int slot) const {
  return std::any_of(program_.statements.begin(), program_.statements.end(), [&](const Statement& statement) {
    for (size_t i = 0; statement.op && i < statement.arguments.size(); ++i)
      if (is_written(statement.op->schema().arguments()[i]) && statement.arguments[i].kind == Argument::Kind::tensor &&
          statement.arguments[i].slots[0] == slot)
        return true;
    return false;
  });
}

bool Facts::takes_elements_around_a_view() const {
  return calls([](const std::string& op) { return op == "as_strided"; }) &&
         std::any_of(program_.statements.begin(), program_.statements.end(),
                     [](const Statement& statement) { return statement.op && statement.no_grad; });
}

}  // namespace tutti::fuzz
