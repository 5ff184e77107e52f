#include "tutti/stablehlo/expression.h"
#include "tutti/stablehlo/lowerings.h"

namespace tutti::stablehlo {
namespace {

template <int number>
Results filled(Builder& b, const Call& c) {
  return {b.splat(number, c.results[0])};
}
// The number is argument i.
template <int i>
Results filled_with(Builder& b, const Call& c) {
  if (c.arguments.at(i).is_tensor) return {b.expand(b.convert(c.value(i), c.results[0].dtype), c.results[0].dims)};
  return {b.splat(c.scalar(i), c.results[0])};
}

// Overloads: end; start and end; start, end and step; with four arguments more, or with one that is written.
Results arange(Builder& b, const Call& c) {
  const size_t count = c.arguments.size();
  const bool one = count == 5 || count == 2, step = count == 7 || count == 4;
  const Type type{wide(c.results[0].dtype), c.results[0].dims};
  const Expression index{&b, b.iota(type.dims, 0, type.dtype)};
  if (one) return {index};
  const Expression steps = step ? index * index.with(b.splat(c.scalar(2), type)) : index;
  return {steps + index.with(b.splat(c.scalar(0), type))};
}

constexpr NamedLowering kCreations[] = {
    {"zeros", filled<0>},     {"zeros_like", filled<0>},    {"new_zeros", filled<0>},
    {"zero", filled<0>},      {"ones", filled<1>},          {"ones_like", filled<1>},
    {"new_ones", filled<1>},  {"full", filled_with<1>},     {"full_like", filled_with<1>},
    {"fill", filled_with<1>}, {"new_full", filled_with<2>}, {"scalar_tensor", filled_with<0>},
    {"arange", arange},
};

}  // namespace

std::span<const NamedLowering> creation_lowerings() { return kCreations; }

}  // namespace tutti::stablehlo
