// What a new user does wrong, and what is then read: what was seen, what is required, the way out.
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <gmock/gmock.h>

#include <functional>

#include "tests/support/error_of.h"
#include "tests/support/temporary_folder.h"
#include "tutti/data/dataset.h"
#include "tutti/keras/callbacks/early_stopping.h"
#include "tutti/keras/callbacks/model_checkpoint.h"
#include "tutti/keras/layers/convolutional/conv.h"
#include "tutti/keras/layers/core/dense.h"
#include "tutti/keras/layers/core/embedding.h"
#include "tutti/keras/layers/recurrent/lstm.h"
#include "tutti/keras/losses/loss.h"
#include "tutti/keras/optimizers/sgd.h"
#include "tutti/keras/sequential.h"
#include "tutti/keras/symbolic_tensor.h"

namespace tutti::keras {
namespace {

using layers::Dense;

const FitOptions kSilently{.verbose = Verbose::silent};

Sequential classifier(int64_t classes, const losses::Loss& loss) {
  const Sequential model({Dense({.units = classes, .activation = activations::softmax})});
  model.compile({.optimizer = "sgd", .loss = loss});
  return model;
}
Sequential regressor() {
  const Sequential model({Dense({.units = 1})});
  model.compile({.optimizer = "sgd", .loss = "mse"});
  return model;
}

struct Mistake {
  const char* name;
  std::function<void()> make;
  const char* text;
};

const Tensor& features() {
  static const Tensor x = at::rand({8, 4});
  return x;
}
Tensor classes(int64_t n) { return at::randint(n, {8}); }

std::vector<Mistake> mistakes() {
  const Tensor x = features();
  return {
      {"AnUnbatchedDataset",
       [=] {
         regressor().fit(data::from_tensor_slices(x, at::rand({8, 1})), kSilently);
       },
       "invalid_argument: sequential: x has 4 rows, but a label has shape (1,); each must have one row for each "
       "sample; if the dataset gives single samples, batch it: dataset.batch(n)"},
      {"ANameWithADot", [] { Dense({.units = 1, .name = "block.1"}); },
       "invalid_argument: block.1: the name \"block.1\" has a '.' or '/', which separate the parts of a weight's path; "
       "leave them out"},
      {"ANameWithASlash", [] { Dense({.units = 1, .name = "block/1"}); },
       "invalid_argument: block/1: the name \"block/1\" has a '.' or '/', which separate the parts of a weight's path; "
       "leave them out"},
      {"NotCompiled",
       [=] {
         Sequential({Dense({.units = 1})}).fit(x, at::rand({8, 1}));
       },
       "failed_precondition: sequential.fit: the model is not compiled; call compile({.optimizer = …, .loss = …}) "
       "first, without a loss if the layers add one or the step is your own"},
      {"NotCompiledForEvaluate",
       [=] {
         Sequential({Dense({.units = 1})}).evaluate(x, at::rand({8, 1}));
       },
       "failed_precondition: sequential.evaluate: the model is not compiled; call compile({.optimizer = …, .loss = …}) "
       "first, without a loss if the layers add one or the step is your own"},
      {"NoOptimizer",
       [=] {
         const Sequential model({Dense({.units = 1})});
         model.compile({.loss = "mse"});
         model.fit(x, at::rand({8, 1}), kSilently);
       },
       "failed_precondition: sequential.fit: the model has no optimizer; call compile({.optimizer = …, .loss = …}) "
       "first"},
      {"NoLabels", [=] { regressor().fit(x, Tensor(), kSilently); },
       "invalid_argument: fit: 0 labels for 1 outputs: \"output_1\"; give one for each, or compile without losses and "
       "metrics"},
      {"NoLoss",
       [=] {
         const Sequential model({Dense({.units = 1})});
         model.compile({.optimizer = "sgd"});
         model.fit(x, at::rand({8, 1}), kSilently);
       },
       "invalid_argument: sequential: the model has no loss; compile({.loss = …}), or let a layer add one by add_loss"},
      {"OtherNumbersOfSamples",
       [=] {
         regressor().fit(x, at::rand({7, 1}), kSilently);
       },
       "invalid_argument: batches: x has 8 rows, but y has shape (7, 1); each must have one row for each sample"},
      {"LabelsOfAnotherShape",
       [=] {
         regressor().fit(x, at::rand({8, 3}), kSilently);
       },
       "invalid_argument: mean_squared_error: labels of shape (8, 3) do not fit predictions of shape (8, 1); there "
       "must be a label for each prediction: look at the units of the last layer"},
      {"ClassNumbersForOneHotLabels", [=] { classifier(3, "categorical_crossentropy").fit(x, classes(3), kSilently); },
       "invalid_argument: categorical_crossentropy: labels of shape (8,) do not fit predictions of shape (8, 3); if "
       "they are class numbers, take sparse_categorical_crossentropy, or make them one-hot"},
      {"OneHotLabelsForClassNumbers",
       [=] {
         classifier(3, "sparse_categorical_crossentropy").fit(x, at::ones({8, 3}), kSilently);
       },
       "invalid_argument: sparse_categorical_crossentropy: labels of shape (8, 3) do not fit predictions of shape (8, "
       "3); they must be class numbers: take categorical_crossentropy for one-hot labels"},
      {"AClassTooLarge", [=] { classifier(3, "sparse_categorical_crossentropy").fit(x, at::full({8}, 3), kSilently); },
       "invalid_argument: sparse_categorical_crossentropy: a label lies outside of [0, 3): 3; there are as many "
       "classes as a prediction has numbers, and they count from 0"},
      {"OtherFeatures",
       [=] {
         const Sequential model = regressor();
         model.fit(x, at::rand({8, 1}), kSilently);
         model.predict(at::rand({8, 5}));
       },
       "invalid_argument: dense: the input has shape (8, 5); the layer was built for a last extent of 4"},
      {"AnOptimizersName", [] { Sequential({Dense({.units = 1})}).compile({.optimizer = "adamm", .loss = "mse"}); },
       "invalid_argument: there is no optimizer \"adamm\"; there are adadelta, adafactor, adagrad, adam, adamax, "
       "adamw, ftrl, lamb, lion, muon, nadam, rmsprop, schedulefreeadamw, sgd"},
      {"ALossName", [] { Sequential({Dense({.units = 1})}).compile({.optimizer = "adam", .loss = "mes"}); },
       "invalid_argument: there is no loss \"mes\"; there are ce, BCE, binary_focal_crossentropy, "
       "categorical_crossentropy, categorical_focal_crossentropy, categorical_generalized_cross_entropy, "
       "categorical_hinge, circle, cosine_similarity, ctc, dice, hinge, huber, KLD, logcosh, MAE, MAPE, MSE, MSLE, "
       "poisson, sparse_categorical_crossentropy, squared_hinge, tversky"},
      {"AMetricsName",
       [] { Sequential({Dense({.units = 1})}).compile({.optimizer = "adam", .loss = "mse", .metrics = {"acuracy"}}); },
       "invalid_argument: there is no metric \"acuracy\"; there are acc, auc, binary_accuracy, BCE, binary_io_u, "
       "categorical_accuracy, categorical_crossentropy, categorical_hinge, concordance_correlation, cosine_similarity, "
       "f1_score, f_beta_score, false_negatives, false_positives, hinge, KLD, logcosh, MAE, MAPE, MSE, MSLE, "
       "pearson_correlation, poisson, precision, r2_score, recall, root_mean_squared_error, "
       "sparse_categorical_accuracy, sparse_categorical_crossentropy, sparse_top_k_categorical_accuracy, "
       "squared_hinge, top_k_categorical_accuracy, true_negatives, true_positives"},
      {"ImagesWithoutChannels",
       [] {
         layers::Conv2D({.filters = 3})(at::rand({8, 28, 28}));
       },
       "invalid_argument: conv2d: the input has shape (8, 28, 28); it must be [batch, height, width, channels]; "
       "x.unsqueeze(-1) has one channel"},
      {"NoUnits", [] { Dense({}); }, "invalid_argument: dense: units is 0; it must be positive"},
      {"ASequenceWithoutSteps", [=] { layers::LSTM({.units = 2})(x); },
       "invalid_argument: lstm: the input has shape (8, 4); it must be [batch, steps, features]"},
      {"AnIdTooLarge",
       [] {
         layers::Embedding({.input_dim = 10, .output_dim = 2})(at::full({2, 3}, 10));
       },
       "invalid_argument: embedding: the input has ids from 10 to 10; input_dim 10 allows 0 to 9"},
      {"ValidationSplitOfADataset",
       [=] {
         regressor().fit(data::from_tensor_slices(x, at::rand({8, 1})).batch(4),
                         {.verbose = Verbose::silent, .validation_split = 0.5});
       },
       "invalid_argument: fit: batch_size, sample_weight and validation_split belong to tensors; a dataset brings its "
       "own batches and, as the third element of each, weights"},
      {"BatchSizeOfADataset",
       [=] {
         regressor().fit(data::from_tensor_slices(x, at::rand({8, 1})).batch(4),
                         {.batch_size = 4, .verbose = Verbose::silent});
       },
       "invalid_argument: fit: batch_size, sample_weight and validation_split belong to tensors; a dataset brings its "
       "own batches and, as the third element of each, weights"},
      {"AnInputsName",
       [=] {
         const auto a = Input({.shape = {4}, .name = "a"});
         const Model model({.inputs = {a}, .outputs = {Dense({.units = 1})(a)}});
         model.predict(std::map<std::string, Tensor>{{"b", x}});
       },
       "invalid_argument: the batch has the input \"b\"; the model's inputs are \"a\""},
      {"AnOutputsName",
       [=] {
         const auto a = Input({.shape = {4}, .name = "a"});
         Model({.inputs = {a}, .outputs = {Dense({.units = 1, .name = "price"})(a)}})
             .compile({.optimizer = "sgd", .loss = {{"prize", "mse"}}});
       },
       "invalid_argument: compile: losses names the output \"prize\"; the outputs are \"price\""},
      {"ALayersName", [] { Sequential({Dense({.units = 1, .name = "head"})}).get_layer("haed"); },
       "invalid_argument: sequential: get_layer: there is no layer \"haed\"; there are \"head\""},
      {"AKerasFile", [] { callbacks::ModelCheckpoint({.filepath = "best.keras"}); },
       "invalid_argument: ModelCheckpoint: filepath best.keras ends in .keras, Keras's files, which are not written; "
       "give the name of a folder for a checkpoint, or of a file in .weights.h5, .safetensors or .npz with "
       "save_weights_only = true"},
      {"AnH5File", [] { callbacks::ModelCheckpoint({.filepath = "best.h5", .save_weights_only = true}); },
       "invalid_argument: When using `save_weights_only=true` in `ModelCheckpoint`, the filepath provided must end in "
       "`.weights.h5`, `.safetensors` or `.npz`, which are files of weights. Received: filepath=best.h5"},
      {"WeightsOfAnotherModel",
       [=] {
         const TemporaryFolder folder;
         const Sequential small({Dense({.units = 1})}), large({Dense({.units = 2})});
         small.build({kUnknown, 4});
         large.build({kUnknown, 4});
         small.save_weights(folder / "w.safetensors");
         large.load_weights(folder / "w.safetensors");
       },
       "does not fit; nothing was changed\n  'dense/bias' is Float [1] in the file and Float [2] in the program\n  "
       "'dense/kernel' is Float [4, 1] in the file and Float [4, 2] in the program"},
      {"ThawedWeights",
       [=] {
         const Dense body({.units = 3});
         const Sequential model({body, Dense({.units = 1})});
         body.set_trainable(false);
         model.compile({.optimizer = "sgd", .loss = "mse"});
         model.fit(x, at::rand({8, 1}), kSilently);
         body.set_trainable(true);
         model.fit(x, at::rand({8, 1}), kSilently);
       },
       "invalid_argument: SGD: variable 0 of shape [4, 3] is none of the 2 that it was built with. Weights that were "
       "frozen until now need a new optimizer: compile with one. In a loop of your own, call build(variables) with all "
       "of them before the first update"},
      {"ANegativeLearningRate", [] { optimizers::SGD({.learning_rate = -0.1}); },
       "invalid_argument: SGD: the learning rate is -0.1; it must be a finite number, at least 0"},
      {"AMisspelledMonitor",
       [=] {
         regressor().fit(x, at::rand({8, 1}),
                         {.verbose = Verbose::silent, .callbacks = {callbacks::EarlyStopping({.monitor = "val_los"})}});
       },
       "invalid_argument: EarlyStopping: monitor is \"val_los\", of which is not known whether more or less is better; "
       "the model logs \"loss\", and each with \"val_\" in front where it validates. Correct the name, or set mode to "
       "MonitorMode::max or MonitorMode::min"},
      {"TheBatchAxisInInput", [=] { Sequential({Dense({.units = 1})})(at::rand({4})); },
       "invalid_argument: dense: the input has shape (None,); it must be [batch, ..., features] (the model's input)"},
  };
}

class Mistakes : public testing::TestWithParam<Mistake> {};

TEST_P(Mistakes, ReadWell) { EXPECT_THAT(error_of(GetParam().make), testing::HasSubstr(GetParam().text)); }

INSTANTIATE_TEST_SUITE_P(, Mistakes, testing::ValuesIn(mistakes()), [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace tutti::keras
