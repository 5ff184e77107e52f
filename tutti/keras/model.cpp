#include "tutti/keras/model.h"

#include <ostream>
#include <utility>

#include "tutti/checkpoint/weights.h"
#include "tutti/checkpoint/weights_internal.h"
#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/keras/layer_names.h"
#include "tutti/keras/saving/keras_weights.h"
#include "tutti/keras/saving/save_model.h"
#include "tutti/keras/training_loops.h"

namespace tutti::keras {
namespace {

void refuse_tensor_options(const char* function, bool given) {
  if (given)
    throw Error(ErrorCode::invalid_argument,
                str(function,
                    ": batch_size, sample_weight and validation_split belong to tensors; a dataset brings its own "
                    "batches and, as the third element of each, weights"));
}

Tensor only_output(const Model& model, std::vector<Tensor> outputs) {
  if (outputs.size() != 1)
    model.impl()->refuse(str("predict: the model has ", outputs.size(), " outputs; ask for them by predict_outputs"));
  return std::move(outputs[0]);
}

bool is_keras_file(const std::filesystem::path& file) { return file.string().ends_with(".weights.h5"); }

}  // namespace

Model::Model(std::shared_ptr<ModelImpl> impl) : Layer(std::move(impl)) {}

ModelImpl& Model::model() const { return static_cast<ModelImpl&>(*impl()); }

void Model::compile(const CompileOptions& options) const { model().compile(options); }

History Model::fit(const Batches& batches, const FitOptions& options) const {
  refuse_tensor_options("fit", options.batch_size || !options.sample_weight.empty() || options.validation_split != 0);
  return training_loops::fit(*this, batches, options);
}

History Model::fit(const Tensors& x, const Tensors& y, const FitOptions& options) const {
  const TensorBatchesOptions batches{.batch_size = options.batch_size.value_or(32), .shuffle = options.shuffle};
  const Batch samples{x, y, options.sample_weight};
  if (options.validation_split == 0)
    return training_loops::fit(*this, Batches::from_tensors(samples, batches), options);
  const auto [train, validation] = samples.split(options.validation_split);
  FitOptions own = options;
  own.validation_data =
      Batches::from_tensors(validation, {.batch_size = options.validation_batch_size.value_or(batches.batch_size)});
  return training_loops::fit(*this, Batches::from_tensors(train, batches), own);
}

Logs Model::evaluate(const Batches& batches, const EvaluateOptions& options) const {
  refuse_tensor_options("evaluate", options.batch_size || !options.sample_weight.empty());
  return training_loops::evaluate(*this, batches, options);
}

Logs Model::evaluate(const Tensors& x, const Tensors& y, const EvaluateOptions& options) const {
  return training_loops::evaluate(
      *this, Batches::from_tensors({x, y, options.sample_weight}, {.batch_size = options.batch_size.value_or(32)}),
      options);
}

std::vector<Tensor> Model::predict_outputs(const Batches& batches, const PredictOptions& options) const {
  refuse_tensor_options("predict", options.batch_size.has_value());
  return training_loops::predict(*this, batches, options);
}

std::vector<Tensor> Model::predict_outputs(const Tensors& x, const PredictOptions& options) const {
  return training_loops::predict(*this, Batches::from_tensors({x}, {.batch_size = options.batch_size.value_or(32)}),
                                 options);
}

Tensor Model::predict(const Batches& batches, const PredictOptions& options) const {
  return only_output(*this, predict_outputs(batches, options));
}

Tensor Model::predict(const Tensors& x, const PredictOptions& options) const {
  return only_output(*this, predict_outputs(x, options));
}

Logs Model::train_on_batch(const Batch& batch) const {
  return training_loops::on_batch(*this, batch, "train_on_batch", ModelImpl::Step::train);
}

Logs Model::test_on_batch(const Batch& batch) const {
  return training_loops::on_batch(*this, batch, "test_on_batch", ModelImpl::Step::test);
}

std::vector<Tensor> Model::predict_on_batch(const Tensors& x) const {
  return predict_outputs(x, {.batch_size = x.empty() || x[0].dim() == 0 ? 1 : std::max<int64_t>(x[0].size(0), 1)});
}

void Model::save_weights(const std::filesystem::path& file) const {
  if (is_keras_file(file))
    save_keras_weights(*this, file);
  else
    tutti::save_weights(*this, file);
}

void Model::load_weights(const std::filesystem::path& file) const {
  if (file.extension() == ".h5" || file.extension() == ".hdf5")
    load_keras_weights(*this, file);
  else
    checkpoint::load_every_weight(*this, file);
}

void Model::save(const std::filesystem::path& file, const SaveModelOptions& options) const {
  save_model(*this, file, options);
}

const std::vector<layers::Layer>& Model::layers() const { return model().layers(); }

layers::Layer Model::get_layer(const std::string& name) const {
  std::vector<std::string> names;
  for (const layers::Layer& layer : layers()) {
    if (layer.name() == name) return layer;
    names.push_back(layer.name());
  }
  impl()->refuse(str("get_layer: there is no layer \"", name, "\"; there are ", quoted(names)));
}

layers::Layer Model::get_layer(size_t index) const {
  if (index >= layers().size())
    impl()->refuse(str("get_layer: there is no layer ", index, "; there are ", layers().size()));
  return layers()[index];
}

std::vector<SymbolicTensor> Model::inputs() const { return model().graph_inputs(); }
std::vector<SymbolicTensor> Model::outputs() const { return model().graph_outputs(); }

void Model::summary(std::ostream& out) const { out << model().summary(); }

}  // namespace tutti::keras
