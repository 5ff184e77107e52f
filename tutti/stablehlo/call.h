#pragma once

#include <ATen/core/ivalue.h>

#include <optional>
#include <string>
#include <vector>

#include "tutti/stablehlo/builder.h"

namespace tutti::stablehlo {

// An argument of an op: a constant, or tensors, some of which may be undefined.
struct Operand {
  at::IValue constant = {};
  std::vector<std::optional<Value>> values = {};  // one, or those of a list
  bool is_tensor = false;
};

// A call of LibTorch's that is to be written down: what it was given, and the types that it gave.
struct Call {
  std::string op;  // "add", of aten::add.Tensor and of aten::add_.Tensor
  std::vector<Operand> arguments;
  std::vector<Type> results;
  std::optional<Value> random_state = {};  // of a call that draws: what its numbers follow from, ui64 [2]

  bool has(size_t i) const;  // an argument that is neither missing nor None nor undefined
  const Value& value(size_t i) const;
  std::vector<Value> values(size_t i) const;
  at::Scalar scalar(size_t i) const;  // also of a number that LibTorch wrapped in a tensor
  int64_t integer(size_t i) const { return scalar(i).to<int64_t>(); }
  double real(size_t i) const { return scalar(i).to<double>(); }
  bool flag(size_t i) const { return scalar(i).to<int64_t>() != 0; }
  Dims dims(size_t i) const;  // a list of integers; empty for None
  std::vector<bool> flags(size_t i) const;
  // An axis of an argument, counted from its start.
  int64_t axis(size_t i, size_t rank) const;
  // The dtype in which LibTorch computes with these arguments.
  at::ScalarType common_dtype(std::initializer_list<size_t> arguments) const;
};

// What a call gives; none for a result that no compiled program can have, which is an error where it is read.
using Results = std::vector<std::optional<Value>>;
using Lowering = Results (*)(Builder& builder, const Call& call);

}  // namespace tutti::stablehlo
