#pragma once

#include <string_view>

namespace tutti::estimator {

// What a model function is called for. TF: tf.estimator.ModeKeys.
enum class ModeKeys { train, eval, predict };

// "train", "eval", "infer"
constexpr std::string_view to_string(ModeKeys mode) {
  return mode == ModeKeys::train ? "train" : mode == ModeKeys::eval ? "eval" : "infer";
}

}  // namespace tutti::estimator
