#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tutti/core/tensor_fwd.h"
#include "tutti/export/onnx/model.h"

namespace tutti::saved_model::onnx {

// A value of a graph. Without a name: an input of a node that is left out.
struct Operand {
  std::string name = {};
  at::ScalarType dtype = at::ScalarType::Undefined;

  // The same value; for nodes whose result has another dtype than their first input.
  Operand as(at::ScalarType other) const { return {name, other}; }
};
using Operands = std::vector<Operand>;

// ONNX's number of a dtype. Throws: unimplemented for one that it does not have.
int32_t data_type_of(at::ScalarType dtype);

// Makes a model, node by node.
class Graph {
 public:
  using Dims = std::vector<std::variant<int64_t, std::string>>;

  explicit Graph(const std::string& name) { model_.name = name; }

  // Reserves the name of an input or output. Throws: invalid_argument where it is taken.
  void reserve(const std::string& name);
  Operand input(const std::string& name, at::ScalarType dtype, Dims dims);
  void output(const std::string& name, const Operand& value, Dims dims);
  // A weight, in CPU memory; its name gets a number where it is taken.
  Operand initializer(const std::string& name, const Tensor& value, std::optional<FilePlace> place);

  // The first result, of the dtype of the first input.
  Operand node(const char* op, const Operands& inputs, Attributes attributes = {});
  Operands node(const char* op, const Operands& inputs, Attributes attributes, size_t num_results);

  // Constants; those of the same bits are one.
  Operand constant(const Tensor& value);
  Operand integers(const std::vector<int64_t>& values);      // int64 [n]
  Operand number(double value, at::ScalarType dtype);        // no axes
  Operand integer(int64_t value, at::ScalarType dtype);      // no axes
  Operand cast(const Operand& value, at::ScalarType dtype);  // itself where it has the dtype
  Operand transpose(const Operand& value, const std::vector<int64_t>& axes) {
    return node("Transpose", {value}, {{"perm", axes}});
  }
  Operand unsqueeze(const Operand& value, const std::vector<int64_t>& axes) {
    return node("Unsqueeze", {value, integers(axes)});
  }
  Operand squeeze(const Operand& value, const std::vector<int64_t>& axes) {
    return node("Squeeze", {value, integers(axes)});
  }
  Operand slice(const Operand& value, int64_t axis, const Operand& begin, const Operand& end, int64_t step = 1) {
    return node("Slice", {value, begin, end, integers({axis}), integers({step})});
  }

  // The model without what no output needs; valid as long as this.
  Model finish();

 private:
  std::string unique(const std::string& wanted);

  Model model_;
  std::set<std::string> names_;
  std::map<std::string, int> counters_;       // of names that were taken
  std::map<std::string, Operand> constants_;  // by dtype, shape and bytes
  std::vector<Tensor> kept_;
};

}  // namespace tutti::saved_model::onnx
