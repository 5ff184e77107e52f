#include "program.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/complex.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/eye.h>

#include <numeric>

#include "tests/support/test_devices.h"

namespace tutti::fuzz {
namespace {

constexpr int64_t kPrime = 31;

// (i * step + start) mod n for i = 0, 1, …
Tensor numbers(const Sizes& sizes, int64_t step, int64_t start, int64_t n) {
  const int64_t count = std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
  return at::arange(count, at::kLong).mul(step).add(start).remainder(n).reshape(sizes);
}

Tensor real_value(const Input& input, int64_t start) {
  const auto of = [&](int64_t n) { return numbers(input.sizes, input.step, start, n).to(at::kDouble); };
  switch (input.elements) {
    case Elements::any: return of(kPrime).sub(15).div(8).mul(input.scale);
    case Elements::positive: return of(kPrime).add(1).div(16).mul(input.scale);
    case Elements::fractions: return of(15).add(1).div(16);
    case Elements::indices: return of(input.below < 1 ? 1 : input.below);
    case Elements::definite: {
      const Tensor value = of(kPrime).sub(15).div(32);
      return value.add(value.mT()).add(at::eye(input.sizes.back(), at::kDouble).mul(8));
    }
  }
  return {};
}

Tensor with_strides(const Tensor& value, Strides strides) {
  const int64_t rank = value.dim();
  if (strides == Strides::transposed && rank >= 2) return value.transpose(0, -1).contiguous().transpose(0, -1);
  if (strides == Strides::channels_last && rank == 4) return value.contiguous(at::MemoryFormat::ChannelsLast);
  if (strides == Strides::channels_last && rank == 5) return value.contiguous(at::MemoryFormat::ChannelsLast3d);
  return value;
}

}  // namespace

int64_t Program::num_devices() const {
  return std::accumulate(mesh.begin(), mesh.end(), int64_t{1}, std::multiplies<>());
}

std::string to_string(Place place) {
  switch (place) {
    case Place::merged: return "merged";
    case Place::separate: return "separate";
    case Place::in_parts: return "in parts";
    case Place::replicas: return "replicas";
    case Place::recorded: return "recorded";
    case Place::recorded_merged: return "recorded merged";
    case Place::recorded_separate: return "recorded separate";
  }
  return "";
}

std::string op_name(const c10::OperatorHandle& op) {
  const auto& name = op.operator_name();
  return name.name.substr(name.name.find("::") + 2) + (name.overload_name.empty() ? "" : "." + name.overload_name);
}

bool is_written(const c10::Argument& argument) { return argument.alias_info() && argument.alias_info()->isWrite(); }

Tensor make_value(const Input& input) {
  Tensor value = real_value(input, input.start);
  if (input.dtype == at::kBool)
    value = value.gt(0);
  else if (at::isComplexType(input.dtype) && input.elements != Elements::definite)
    value = at::complex(value, real_value(input, input.start + 5));
  return moved(with_strides(value.to(input.dtype), input.strides)).clone();  // a leaf that is no view
}

}  // namespace tutti::fuzz
