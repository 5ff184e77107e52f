#include "tutti/keras/model.h"

#include <ostream>
#include <utility>

#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti::keras {
namespace {

void refuse_tensor_options(const char* function, const std::optional<int64_t>& batch_size, const Tensor& weight) {
  if (batch_size || weight.defined())
    throw Error(ErrorCode::invalid_argument,
                str(function,
                    ": batch_size and sample_weight belong to tensors; a dataset brings its own batches and, "
                    "as the third element of each, weights"));
}

}  // namespace

Model::Model(std::shared_ptr<ModelImpl> impl) : Layer(std::move(impl)) {}

ModelImpl& Model::model() const { return static_cast<ModelImpl&>(*impl()); }

void Model::compile(const CompileOptions& options) const { model().compile(options); }

History Model::fit(const Batches& batches, const FitOptions& options) const {
  refuse_tensor_options("fit", options.batch_size, options.sample_weight);
  return model().fit(batches, options);
}

History Model::fit(const Tensor& x, const Tensor& y, const FitOptions& options) const {
  return model().fit(Batches::from_tensors(x, y, options.sample_weight,
                                           {.batch_size = options.batch_size.value_or(32), .shuffle = options.shuffle}),
                     options);
}

Logs Model::evaluate(const Batches& batches, const EvaluateOptions& options) const {
  refuse_tensor_options("evaluate", options.batch_size, options.sample_weight);
  return model().evaluate(batches, options.verbose);
}

Logs Model::evaluate(const Tensor& x, const Tensor& y, const EvaluateOptions& options) const {
  return model().evaluate(
      Batches::from_tensors(x, y, options.sample_weight, {.batch_size = options.batch_size.value_or(32)}),
      options.verbose);
}

Tensor Model::predict(const Batches& batches) const { return model().predict(batches); }

Tensor Model::predict(const Tensor& x, const PredictOptions& options) const {
  return model().predict(Batches::from_tensors(x, {}, {}, {.batch_size = options.batch_size}));
}

void Model::summary(std::ostream& out) const { out << model().summary(); }

}  // namespace tutti::keras
