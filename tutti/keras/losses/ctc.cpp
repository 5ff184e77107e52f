#include "tutti/keras/losses/ctc.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Reduction.h>
#include <ATen/ops/ctc_loss.h>
#include <ATen/ops/full.h>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/keras/label_shapes.h"
#include "tutti/keras/shape.h"

namespace tutti::keras::losses {
namespace {

Tensor values(const std::string& name, const Tensor& y_true, const Tensor& y_pred) {
  if (y_true.dim() != 2 || y_pred.dim() != 3 || y_true.size(0) != y_pred.size(0))
    throw Error(ErrorCode::invalid_argument,
                str(name, ": labels of shape ", to_string(y_true.sizes()), " do not fit predictions of shape ",
                    to_string(y_pred.sizes()), "; they must be (N, length) and (N, steps, classes)"));
  const Tensor labels = y_true.to(at::kLong);
  check_class_indices(name, labels, y_pred.size(2));
  if (y_pred.size(0) == 0) return y_pred.sum({1, 2});
  const Tensor lengths = labels.ne(0).sum(1);
  const Tensor steps = at::full({y_pred.size(0)}, y_pred.size(1), lengths.options());
  return at::ctc_loss(y_pred.log_softmax(2).transpose(0, 1), labels, steps, lengths, /*blank=*/0, at::Reduction::None);
}

}  // namespace

CTC::CTC(const CTCOptions& options)
    : Loss(options.name, options.reduction,
           [name = options.name](const Tensor& y_true, const Tensor& y_pred) { return values(name, y_true, y_pred); }) {
  tell_made_from({"CTC", options});
}

}  // namespace tutti::keras::losses
