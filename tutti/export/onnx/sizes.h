#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tutti/export/onnx/graph.h"
#include "tutti/export/program.h"
#include "tutti/export/value_type.h"

namespace tutti::saved_model::onnx {

// Integers of a program as values of a graph: those that are known as constants, others by the shapes of inputs.
class Sizes {
 public:
  // `value_of`: an input of the graph, by its number in the program; nothing for text.
  Sizes(Graph& graph, const Program& program, std::function<std::optional<Operand>(int number)> value_of)
      : graph_(graph), program_(program), value_of_(std::move(value_of)), unknown_(program.sizes.size()) {}

  Operand one(const Integer& integer);              // int64 [1]
  Operand list(std::span<const Integer> integers);  // int64 [n]
  // Of a value: nothing where a size is not the inputs' in a known way.
  std::optional<Operand> of(const ValueType& type);
  // `value` with the sizes of `to`, as LibTorch's reshape gives it. Throws: unimplemented where they are not known.
  Operand reshape(const Operand& value, const ValueType& from, const ValueType& to);

 private:
  Operand unknown(size_t number);

  Graph& graph_;
  const Program& program_;
  std::function<std::optional<Operand>(int number)> value_of_;
  std::vector<std::optional<Operand>> unknown_;  // int64 [1], those that were asked for
};

}  // namespace tutti::saved_model::onnx
