#pragma once

#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tutti/export/onnx/graph.h"
#include "tutti/export/onnx/sizes.h"
#include "tutti/export/program.h"
#include "tutti/export/value_type.h"

namespace tutti::saved_model::onnx {

// A call that is to be written down as nodes: its arguments by the names that LibTorch's schema gives them.
class CallToLower {
 public:
  Graph& graph;
  Sizes& sizes;

  CallToLower(Graph& graph, Sizes& sizes, const Call& call, std::span<const ValueType> types,
              std::span<const std::optional<Operand>> values);

  // Says that ONNX has no form for this; `what` begins with "with" or "of". Throws: unimplemented.
  [[noreturn]] void refuse(const std::string& what) const;

  bool takes(const char* name) const { return find(name) != nullptr; }
  bool has(const char* name) const;  // neither missing nor none nor an undefined tensor

  // A tensor that the call takes.
  Operand tensor(const char* name) const;
  Operand tensor(const char* name, at::ScalarType dtype) const { return graph.cast(tensor(name), dtype); }
  const ValueType& type(const char* name) const;
  size_t rank(const char* name) const { return type(name).rank(); }
  // Of a list of tensors; and where all are defined.
  std::vector<std::optional<Operand>> items(const char* name) const;
  Operands tensors(const char* name) const;
  std::vector<const ValueType*> types(const char* name) const;
  // A tensor, or a number as one without axes.
  Operand operand(const char* name, at::ScalarType dtype) const;
  // The dtype in which LibTorch computes with these tensors and numbers.
  at::ScalarType common_dtype(std::initializer_list<const char*> names) const;
  // What it gives; of a list its items.
  const ValueType& result(size_t i = 0) const;
  size_t num_results() const { return results_.size(); }
  bool gives(size_t i) const { return results_[i] >= 0; }  // one that is defined

  // Integers that must be known when it is written, and those that may follow from sizes.
  int64_t integer(const char* name) const;
  std::vector<int64_t> integers(const char* name) const;  // empty for none
  const std::vector<Integer>& symbolic(const char* name) const;
  double number(const char* name) const;
  double number(const char* name, double otherwise) const { return has(name) ? number(name) : otherwise; }
  std::vector<double> numbers(const char* name) const { return given(name).numbers; }
  bool flag(const char* name) const { return has(name) && integer(name) != 0; }
  std::string text(const char* name) const;
  // Axes, counted from the start.
  int64_t axis(const char* name, size_t rank) const;
  std::vector<int64_t> axes(const char* name, size_t rank) const;

  Operand node(const char* op, const Operands& inputs, Attributes attributes = {}) const {
    return graph.node(op, inputs, std::move(attributes));
  }
  // A number as an operand beside `other`.
  Operand number_like(double value, const Operand& other) const { return graph.number(value, other.dtype); }
  // int64 [rank], of a value as it is when it runs.
  Operand shape_of(const Operand& value) const { return node("Shape", {value}).as(at::kLong); }

 private:
  const Argument* find(const char* name) const;
  const Argument& given(const char* name) const;

  const Call& call_;
  std::span<const ValueType> types_;
  std::span<const std::optional<Operand>> values_;
  std::vector<int> results_;
};

// That in which ONNX handles values of a dtype, and computes with them: not all of its operators and of their kernels
// take bfloat16, and few compute with bool and small integers.
at::ScalarType widened(at::ScalarType dtype);
at::ScalarType arithmetic(at::ScalarType dtype);

}  // namespace tutti::saved_model::onnx
