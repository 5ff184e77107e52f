#pragma once

#include <cstdint>

namespace tutti {

// The elements of a float32 matrix; one of the strides is 1.
struct MatrixPart {
  const float* data;
  int64_t row_stride;
  int64_t column_stride;
};

// result = a b, or, with a bias for each column, bias + a b: [rows, columns] of [rows, depth] and [depth, columns], the
// result contiguous. Each element is a chain of fused multiplications and additions along the depth, in pieces of
// `piece` (at most 192), which are added to the bias, or zero, one after the other: the order in which MKL computes on
// processors of AMD, with half their vectors. Requires: multiplies_in_vectors(); the result overlaps nothing.
struct MatrixProduct {
  MatrixPart a, b;
  const float* bias;  // null: none
  float* result;
  int64_t rows, columns, depth, piece;
};
void multiply(const MatrixProduct& product);

// Whether this processor has the vectors that it is written for (AVX-512).
bool multiplies_in_vectors();

}  // namespace tutti
