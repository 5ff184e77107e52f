#include "tutti/keras/losses/sparse_categorical_crossentropy.h"

#include <ATen/core/Reduction.h>
#include <ATen/ops/cross_entropy_loss.h>

#include <limits>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/keras/label_shapes.h"
#include "tutti/keras/losses/crossentropy_internal.h"

namespace tutti::keras::losses {
namespace {

constexpr int64_t kIgnoreNothing = std::numeric_limits<int64_t>::min();  // LibTorch's default leaves out label -100

// LibTorch finds labels that are out of range on the way.
Tensor from_logits(const std::string& name, const Tensor& labels, const Tensor& logits) {
  const int64_t classes = logits.size(-1);
  try {
    return at::cross_entropy_loss(logits.reshape({labels.numel(), classes}), labels.reshape({-1}), {},
                                  at::Reduction::None, kIgnoreNothing)
        .view_as(labels);
  } catch (const c10::IndexError&) {
    throw Error(ErrorCode::invalid_argument,
                str(name, ": a label lies outside of [0, ", classes, "), the classes of the predictions"));
  }
}

}  // namespace

SparseCategoricalCrossentropy::SparseCategoricalCrossentropy(const SparseCategoricalCrossentropyOptions& options)
    : Loss(options.name, options.reduction, [options](const Tensor& y_true, const Tensor& y_pred) {
        const Tensor labels = class_indices(options.name, y_true, y_pred);
        const Tensor logits =
            options.from_logits ? y_pred : y_pred.clamp(kProbabilityEpsilon, 1 - kProbabilityEpsilon).log();
        return from_logits(options.name, labels, logits);
      }) {}

}  // namespace tutti::keras::losses
