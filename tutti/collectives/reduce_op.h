#pragma once

#include <string_view>

namespace tutti {

// How the values of the replicas become one. TF: tf.distribute.ReduceOp.
enum class ReduceOp { sum, mean };

// "sum", "mean".
std::string_view to_string(ReduceOp op);

// Reads "sum" or "mean", in any case of letters, as TensorFlow does. Throws: invalid_argument.
ReduceOp parse_reduce_op(std::string_view text);

}  // namespace tutti
