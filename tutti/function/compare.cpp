#include "tutti/function/compare.h"

#include <cmath>
#include <cstring>
#include <iomanip>
#include <sstream>
#include <unordered_map>

#include "tutti/core/str.h"

namespace tutti {
namespace {

using Kind = Program::Buffer::Kind;
using OperandKind = Program::Operand::Kind;

std::string exact(double number) {
  std::ostringstream out;
  out << std::setprecision(17) << number;
  return out.str();
}

bool same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

// A tensor that C++ made of a number, of which only the number counts.
c10::complex<double> number_in(const Tensor& tensor) { return tensor.item().toComplexDouble(); }

std::string text_of(const at::IValue& value) {
  if (value.isDouble()) return exact(value.toDouble());
  if (value.isGenerator()) return "a generator";
  if (!value.isTensor()) return tutti::str(value);
  if (!value.toTensor().defined()) return "none";
  const auto number = number_in(value.toTensor());
  return number.imag() == 0 ? exact(number.real()) : tutti::str(exact(number.real()), " + ", exact(number.imag()), "i");
}

bool same(const at::IValue& a, const at::IValue& b) {
  if (a.isTensor() && b.isTensor()) {
    const Tensor &x = a.toTensor(), &y = b.toTensor();
    if (!x.defined() || !y.defined()) return x.defined() == y.defined();
    const auto p = number_in(x), q = number_in(y);
    return x.scalar_type() == y.scalar_type() && same(p.real(), q.real()) && same(p.imag(), q.imag());
  }
  if (a.isGenerator() && b.isGenerator()) return a.toGenerator() == b.toGenerator();
  if (a.isDouble() && b.isDouble()) return same(a.toDouble(), b.toDouble());
  return a.tagKind() == b.tagKind() && a == b;
}

// Follows both programs call by call, and pairs their buffers by where they are first used.
class Comparison {
 public:
  Comparison(const Program& first, const Program& second) : first_(first), second_(second) {}

  std::optional<std::string> run() {
    for (size_t i = 0; i < std::min(first_.calls.size(), second_.calls.size()); ++i)
      if (auto found = compare(i)) return found;
    if (first_.calls.size() != second_.calls.size()) {
      const bool longer = first_.calls.size() > second_.calls.size();
      const auto& calls = longer ? first_.calls : second_.calls;
      return str("it made ", first_.calls.size(), " calls and then ", second_.calls.size(), "; ",
                 calls[std::min(first_.calls.size(), second_.calls.size())].name, longer ? " is missing" : " is new");
    }
    return compare_ends();
  }

 private:
  std::optional<std::string> compare(size_t number) {
    const Program::Call &a = first_.calls[number], &b = second_.calls[number];
    if (a.name != b.name) return str("call ", number, " was ", a.name, " and then ", b.name);
    if (a.grad_mode != b.grad_mode) return str("call ", number, ", ", a.name, ", was made in another gradient mode");
    for (size_t i = 0; i < a.arguments.size(); ++i) {
      const auto where = [&] {
        return str("call ", number, ", ", a.name, ", argument ",
                   a.op ? a.op->schema().arguments()[i].name() : "inputs");
      };
      const Program::Operand &x = a.arguments[i], &y = b.arguments[i];
      if (x.kind != y.kind || x.values.size() != y.values.size()) return where() + " was of another kind";
      if (x.kind == OperandKind::constant && !same(x.constant, y.constant))
        return str(where(), ": ", text_of(x.constant), " and then ", text_of(y.constant));
      for (size_t k = 0; k < x.values.size(); ++k)
        if (auto found = compare_values(x.values[k], y.values[k])) return str(where(), ": ", *found);
    }
    for (size_t i = 0; i < a.parts.size(); ++i)
      if (auto found = difference(*a.parts[i].program, *b.parts[i].program))
        return str("call ", number, ", ", a.name, ", in its part ", a.parts[i].name, ": ", *found);
    for (size_t i = 0; i < a.results.size(); ++i)
      for (size_t k = 0; k < std::min(a.results[i].values.size(), b.results[i].values.size()); ++k)
        if (auto found = compare_values(a.results[i].values[k], b.results[i].values[k]))
          return str("call ", number, ", ", a.name, ", its result: ", *found);
    return {};
  }

  std::optional<std::string> compare_values(int a, int b) {
    if (a < 0 && b < 0) return {};
    if (a < 0 || b < 0) return "a tensor and none";
    const auto& [buffer_a, geometry_a] = first_.values[static_cast<size_t>(a)];
    const auto& [buffer_b, geometry_b] = second_.values[static_cast<size_t>(b)];
    if (geometry_a != geometry_b) return str(to_string(geometry_a), " and then ", to_string(geometry_b));
    const auto [pair, is_new] = partner_.try_emplace(buffer_a, buffer_b);
    if (!is_new) return pair->second == buffer_b ? std::nullopt : std::optional<std::string>("another tensor");
    return compare_buffers(first_.buffers[static_cast<size_t>(buffer_a)],
                           second_.buffers[static_cast<size_t>(buffer_b)], geometry_a);
  }

  std::optional<std::string> compare_buffers(const Program::Buffer& a, const Program::Buffer& b,
                                             const Geometry& geometry) {
    if (a.kind != b.kind || a.index != b.index || a.piece != b.piece)
      return str("another tensor of ", to_string(geometry));
    if (a.kind == Kind::replica && !mesh_of(first_, a).is_same(mesh_of(second_, b)))
      return str("another mesh tensor of ", to_string(geometry));
    if (a.kind == Kind::captured && a.storage.unsafeGetStorageImpl() != b.storage.unsafeGetStorageImpl())
      return str("another tensor of ", to_string(geometry), " from outside");
    if (a.kind == Kind::constant &&
        (a.bytes != b.bytes || std::memcmp(a.storage.data(), b.storage.data(), static_cast<size_t>(a.bytes)) != 0))
      return str("a tensor of ", to_string(geometry), " that C++ made, with other values");
    return {};
  }

  static const Tensor& mesh_of(const Program& program, const Program::Buffer& buffer) {
    return program.meshes[static_cast<size_t>(buffer.index)].tensor;
  }

  std::optional<std::string> compare_ends() {
    if (first_.results.size() != second_.results.size())
      return str(first_.results.size(), " results and then ", second_.results.size());
    for (size_t i = 0; i < first_.results.size(); ++i)
      if (auto found = compare_values(first_.results[i].value, second_.results[i].value))
        return str("result ", i, ": ", *found);
    for (size_t i = 0; i < first_.results.size(); ++i)
      if (first_.results[i].requires_grad != second_.results[i].requires_grad)
        return str("result ", i, " needs a gradient in one of them alone");
    std::unordered_map<const c10::TensorImpl*, const Program::Leaf*> leaves;
    for (const Program::Leaf& leaf : first_.leaves) leaves.emplace(leaf.tensor.unsafeGetTensorImpl(), &leaf);
    for (const Program::Leaf& leaf : second_.leaves) {
      const auto found = leaves.find(leaf.tensor.unsafeGetTensorImpl());
      const bool alike = found != leaves.end() && found->second->changes == leaf.changes &&
                         std::ranges::equal(found->second->exit_values, leaf.exit_values,
                                            [&](int a, int b) { return !compare_values(a, b); });
      if (!alike) return str("the gradient of a tensor of ", str_list(leaf.tensor.sizes()), " was set in another way");
    }
    return {};
  }

  const Program& first_;
  const Program& second_;
  std::unordered_map<int, int> partner_;
};

}  // namespace

bool same_constant(const at::IValue& a, const at::IValue& b) { return same(a, b); }

std::optional<std::string> difference(const Program& first, const Program& second) {
  return Comparison(first, second).run();
}

}  // namespace tutti
