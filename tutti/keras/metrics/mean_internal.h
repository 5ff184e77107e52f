#pragma once

#include <string>

#include "tutti/core/tensor_fwd.h"

namespace tutti::keras::metrics {

// Two float64: the sum of weight times value, each value [...] of a sample averaged first, and the sum of weights.
// Without weights the second is the number of samples. Source: Keras's reduce_to_samplewise_values
Tensor mean_contribution(const std::string& name, const Tensor& values, const Tensor& sample_weight);

// The first of a contribution's numbers by the second; 0 if that is 0.
Tensor mean_result(const Tensor& state);

// a / b; 0 where b is 0.
Tensor divide_no_nan(const Tensor& a, const Tensor& b);

}  // namespace tutti::keras::metrics
