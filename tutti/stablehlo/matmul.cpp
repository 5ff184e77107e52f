#include "tutti/stablehlo/expression.h"
#include "tutti/stablehlo/lowerings.h"

namespace tutti::stablehlo {
namespace {

// Products are of the operands' own dtype, also half precision: that is what accelerators multiply.
Expression product(Builder& b, const Call& c, size_t x, size_t y) {
  const size_t rank = c.value(x).rank(), of_y = c.value(y).rank();
  const Dims batch = rank == 3 ? Dims{0} : Dims{};
  return {&b, b.dot(c.value(x), c.value(y), batch, {static_cast<int64_t>(rank) - 1},
                    {static_cast<int64_t>(of_y == 1 ? 0 : of_y - 2)})};
}

Results multiply_matrices(Builder& b, const Call& c) { return {product(b, c, 0, 1)}; }

// beta c + alpha x y.
Results add_matrix_product(Builder& b, const Call& c) {
  Expression sum = product(b, c, 1, 2);
  const auto times = [&](Expression x, size_t i) { return c.has(i) && c.real(i) != 1 ? x * c.real(i) : x; };
  sum = times(sum, 4);
  const Expression start = expand({&b, b.convert(c.value(0), sum.value.dtype())}, sum.dims());
  return {c.has(3) && c.real(3) == 0 ? sum : times(start, 3) + sum};
}

constexpr NamedLowering kMatmuls[] = {
    {"mm", multiply_matrices},     {"bmm", multiply_matrices},    {"mv", multiply_matrices},
    {"dot", multiply_matrices},    {"addmm", add_matrix_product}, {"baddbmm", add_matrix_product},
    {"addmv", add_matrix_product},
};

}  // namespace

std::span<const NamedLowering> matmul_lowerings() { return kMatmuls; }

}  // namespace tutti::stablehlo
