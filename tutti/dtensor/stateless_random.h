#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Scalar.h>

#include <cstdint>
#include <optional>

#include "tutti/core/tensor_fwd.h"

namespace tutti {

// Both numbers of TensorFlow's stateless seeds; one number n is {n, 0}.
struct StatelessSeed {
  uint64_t first, second;
  constexpr StatelessSeed(uint64_t first, uint64_t second = 0) : first(first), second(second) {}
  bool operator==(const StatelessSeed&) const = default;
};

struct StatelessNormalOptions {
  StatelessSeed seed;
  double mean = 0;
  double stddev = 1;
  at::ScalarType dtype = at::kFloat;
};

struct StatelessUniformOptions {
  StatelessSeed seed;
  // Numbers are in [minval, maxval). Floating point: 0 and 1 where absent. Integers: both or, for all numbers of the
  // dtype, none.
  std::optional<at::Scalar> minval = {};
  std::optional<at::Scalar> maxval = {};
  at::ScalarType dtype = at::kFloat;
};

// Random numbers that are a function of seed, dtype and the element's index alone, and TensorFlow's: Philox-4x32-10.
// They do not depend on layout, mesh, devices or threads, so each piece is made by itself: inside call_with_layout a
// tensor of the layout's rank lies in it and the whole is never made; in other scopes it is replicated; else it is
// plain, on the CPU. All are made on the host. No gradient. Dtypes: float32, float64, float16, bfloat16; uniform also
// int32 and int64.
// Throws: invalid_argument for another dtype, a negative size, or a maxval that is not above minval.

// TF: tf.random.stateless_normal.
Tensor stateless_normal(at::IntArrayRef shape, const StatelessNormalOptions& options);
// Standard deviations beyond 2 are drawn again. TF: tf.random.stateless_truncated_normal.
Tensor stateless_truncated_normal(at::IntArrayRef shape, const StatelessNormalOptions& options);
// TF: tf.random.stateless_uniform.
Tensor stateless_uniform(at::IntArrayRef shape, const StatelessUniformOptions& options);

}  // namespace tutti
