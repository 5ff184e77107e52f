#include "tutti/stablehlo/call.h"

#include <ATen/core/Tensor.h>
#include <c10/core/DefaultDtype.h>

#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti::stablehlo {
namespace {

using at::ScalarType;

int category(ScalarType dtype) { return dtype == at::kBool ? 0 : at::isIntegralType(dtype, false) ? 1 : 2; }

void promote(ScalarType& dtype, ScalarType with) {
  dtype = dtype == ScalarType::Undefined ? with : c10::promoteTypes(dtype, with);
}

ScalarType dtype_of(const at::Scalar& number) {
  if (number.isBoolean()) return at::kBool;
  return number.isFloatingPoint() ? c10::get_default_dtype_as_scalartype() : at::kLong;
}

// The higher one decides, unless the lower one is of a higher category: whole numbers, then real ones.
ScalarType combine(ScalarType higher, ScalarType lower) {
  if (higher == ScalarType::Undefined) return lower;
  if (lower == ScalarType::Undefined || category(higher) >= category(lower)) return higher;
  return c10::promoteTypes(higher, lower);
}

}  // namespace

bool Call::has(size_t i) const {
  if (i >= arguments.size()) return false;
  const Operand& operand = arguments[i];
  if (operand.is_tensor) return !operand.values.empty() && operand.values.front();
  return !operand.constant.isNone() && !(operand.constant.isTensor() && !operand.constant.toTensor().defined());
}

const Value& Call::value(size_t i) const {
  if (!has(i) || !arguments[i].is_tensor)
    throw Error(ErrorCode::unimplemented, str("argument ", i, " of ", op, " is no tensor in this program"));
  return *arguments[i].values.front();
}

std::vector<Value> Call::values(size_t i) const {
  std::vector<Value> all;
  for (const auto& one : arguments[i].values) all.push_back(one.value());
  return all;
}

at::Scalar Call::scalar(size_t i) const {
  const at::IValue& constant = arguments.at(i).constant;
  if (constant.isTensor()) return constant.toTensor().item();
  if (constant.isBool()) return constant.toBool();
  if (constant.isScalar()) return constant.toScalar();
  throw Error(ErrorCode::unimplemented,
              str("argument ", i, " of ", op, " is no number that is known when it is compiled"));
}

Dims Call::dims(size_t i) const {
  if (!has(i)) return {};
  const at::IValue& constant = arguments[i].constant;
  if (constant.isInt()) return {constant.toInt()};
  return constant.toIntVector();
}

std::vector<bool> Call::flags(size_t i) const {
  const auto list = arguments.at(i).constant.toBoolList();
  return {list.begin(), list.end()};
}

int64_t Call::axis(size_t i, size_t rank) const {
  const int64_t axis = integer(i), all = static_cast<int64_t>(rank);
  return axis < 0 ? axis + std::max<int64_t>(all, 1) : axis;
}

ScalarType Call::common_dtype(std::initializer_list<size_t> which) const {
  ScalarType tensors = ScalarType::Undefined, numbers = tensors, wrapped = tensors;
  for (const size_t i : which) {
    if (!has(i)) continue;
    if (arguments[i].is_tensor)
      promote(value(i).rank() ? tensors : numbers, value(i).dtype());
    else
      promote(wrapped, dtype_of(scalar(i)));
  }
  return combine(combine(tensors, numbers), wrapped);
}

}  // namespace tutti::stablehlo
