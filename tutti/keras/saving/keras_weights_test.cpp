#include "tutti/keras/saving/keras_weights.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/error_of.h"
#include "tests/support/temporary_folder.h"
#include "tutti/device/logical_devices.h"
#include "tutti/distribute/mirrored_strategy.h"
#include "tutti/files/hdf5_reader.h"
#include "tutti/files/hdf5_writer.h"
#include "tutti/files/npy.h"
#include "tutti/keras/layers/core/dense.h"
#include "tutti/keras/layers/core/input_layer.h"
#include "tutti/keras/layers/merging/concatenate.h"
#include "tutti/keras/layers/normalization/batch_normalization.h"
#include "tutti/keras/layers/preprocessing/normalization.h"
#include "tutti/keras/layers/recurrent/bidirectional.h"
#include "tutti/keras/layers/recurrent/lstm.h"
#include "tutti/keras/layers/recurrent/rnn.h"
#include "tutti/keras/model.h"
#include "tutti/keras/sequential.h"

namespace tutti::keras {
namespace {

using layers::BatchNormalization;
using layers::Dense;
using layers::InputLayer;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The datasets of the file that a model writes.
std::vector<std::string> datasets_of(const Model& model) {
  const TemporaryFolder folder;
  model.save_weights(folder / "m.weights.h5");
  return files::Hdf5Reader(folder / "m.weights.h5").datasets();
}

Sequential small_net(int64_t units = 2) {
  return Sequential({InputLayer({.shape = {3}}), Dense({.units = units}), BatchNormalization()});
}

void fill_at_random(const Model& model) {
  const c10::NoGradGuard no_grad;
  for (const layers::Weight& weight : model.weights()) Tensor(weight.value).uniform_(0.1, 1);
}

TEST(KerasWeights, ComeBackAsTheyWere) {
  const TemporaryFolder folder;
  const Sequential saved = small_net(), loaded = small_net();
  fill_at_random(saved);
  saved.save_weights(folder / "m.weights.h5");
  loaded.load_weights(folder / "m.weights.h5");
  for (size_t i = 0; i < saved.weights().size(); ++i)
    EXPECT_TRUE(at::equal(saved.weights()[i].value, loaded.weights()[i].value)) << saved.weights()[i].name;
}

TEST(KerasWeights, AreNamedByClassesAndNumbers) {
  EXPECT_THAT(
      datasets_of(Sequential({InputLayer({.shape = {3}}), Dense({.units = 2, .name = "b"}), BatchNormalization(),
                              Dense({.units = 2, .name = "a"}), Sequential({Dense({.units = 2, .use_bias = false})})})),
      ElementsAre("layers/batch_normalization/vars/0", "layers/batch_normalization/vars/1",
                  "layers/batch_normalization/vars/2", "layers/batch_normalization/vars/3", "layers/dense/vars/0",
                  "layers/dense/vars/1", "layers/dense_1/vars/0", "layers/dense_1/vars/1",
                  "layers/sequential/layers/dense/vars/0"));
}

TEST(KerasWeights, LieInThePartsThatKerasHas) {
  const layers::LSTM lstm({.units = 2, .return_sequences = true});
  EXPECT_THAT(
      datasets_of(Sequential({InputLayer({.shape = {4, 3}}), layers::Bidirectional(lstm),
                              layers::RNN(layers::LSTMCell({.units = 2, .use_bias = false}))})),
      ElementsAre("layers/bidirectional/backward_layer/cell/vars/0", "layers/bidirectional/backward_layer/cell/vars/1",
                  "layers/bidirectional/backward_layer/cell/vars/2", "layers/bidirectional/forward_layer/cell/vars/0",
                  "layers/bidirectional/forward_layer/cell/vars/1", "layers/bidirectional/forward_layer/cell/vars/2",
                  "layers/rnn/cell/vars/0", "layers/rnn/cell/vars/1"));
}

// In the order of their making `other` would be dense_1, and in that of the calls dense.
TEST(KerasWeights, OfAGraphAreInTheOrderOfKeras) {
  const SymbolicTensor x = Input({.shape = {3}});
  const Dense near({.units = 5}), far({.units = 4}), other({.units = 3});
  const SymbolicTensor side = near(x);
  const Model model({.inputs = {x}, .outputs = {layers::Concatenate()({side, other(far(x))})}});
  const TemporaryFolder folder;
  model.save_weights(folder / "m.weights.h5");
  const files::Hdf5Reader file(folder / "m.weights.h5");
  EXPECT_THAT(file.form("layers/dense/vars/0").sizes, ElementsAre(3, 4));
  EXPECT_THAT(file.form("layers/dense_1/vars/0").sizes, ElementsAre(3, 5));
  EXPECT_THAT(file.form("layers/dense_2/vars/0").sizes, ElementsAre(4, 3));
}

TEST(KerasWeights, OfALayerInTwoPlacesAreThereOnce) {
  const Dense shared({.units = 3});
  const SymbolicTensor x = Input({.shape = {3}}), inner_x = Input({.shape = {3}});
  const Model inner({.inputs = {inner_x}, .outputs = {shared(inner_x)}});
  EXPECT_THAT(datasets_of(Model({.inputs = {x}, .outputs = {inner(shared(x))}})),
              ElementsAre("layers/dense/vars/0", "layers/dense/vars/1"));
}

class PairOfLayers : public ModelImpl {
 public:
  PairOfLayers() : ModelImpl("PairOfLayers") {}
  Tensor call(const Tensor& x, const layers::CallOptions& options) const override {
    return out_(hidden_(x, options), options);
  }

 private:
  Dense hidden_ = add(Dense({.units = 4, .use_bias = false, .name = "hidden"}));
  Dense out_ = add(Dense({.units = 1, .use_bias = false, .name = "out"}));
};

// Behind "layers" in the alphabet they are those of Keras's property `layers`.
TEST(KerasWeights, OfAClassAreUnderTheNamesOfItsLayers) {
  const Model model(std::make_shared<PairOfLayers>());
  EXPECT_THAT(error_of([&] { model.save_weights("m.weights.h5"); }),
              AllOf(HasSubstr("failed_precondition"), HasSubstr("call build")));
  model.build({kUnknown, 3});
  EXPECT_THAT(datasets_of(model), ElementsAre("hidden/vars/0", "layers/dense_1/vars/0"));
}

TEST(KerasWeights, ThatDoNotFitAreAllNamedAndNothingIsChanged) {
  const TemporaryFolder folder;
  const Sequential saved = small_net(2), other = small_net(4);
  saved.save_weights(folder / "m.weights.h5");
  const Tensor before = other.weights()[0].value.detach().clone();
  EXPECT_THAT(error_of([&] { other.load_weights(folder / "m.weights.h5"); }),
              AllOf(HasSubstr("failed_precondition: load_weights: '"), HasSubstr("does not fit; nothing was changed"),
                    HasSubstr("'dense/kernel (layers/dense/vars/0)' is Float [3, 2] in the file and Float [3, 4] in "
                              "the program"),
                    HasSubstr("'batch_normalization/moving_mean (layers/batch_normalization/vars/2)'")));
  EXPECT_TRUE(at::equal(other.weights()[0].value, before));
}

TEST(KerasWeights, OfOtherLayersAreAllNamedAndNothingIsChanged) {
  const TemporaryFolder folder;
  const Sequential saved({InputLayer({.shape = {3}}), Dense({.units = 2}), Dense({.units = 2})});
  const Sequential other = small_net(2);
  fill_at_random(saved);
  saved.save_weights(folder / "m.weights.h5");
  const Tensor before = other.weights()[0].value.detach().clone();
  EXPECT_THAT(error_of([&] { other.load_weights(folder / "m.weights.h5"); }),
              AllOf(HasSubstr("failed_precondition"), HasSubstr("batch_normalization/gamma"),
                    HasSubstr("layers/dense_1/vars/1")));
  EXPECT_TRUE(at::equal(other.weights()[0].value, before));
}

TEST(KerasWeights, OfOtherFormatsChangeAllOrNothing) {
  const TemporaryFolder folder;
  const Sequential model = small_net(2);
  files::write_npz(folder / "w.npz", {{"dense/kernel", at::ones({3, 2})}, {"other", at::ones({1})}});
  const Tensor before = model.weights()[0].value.detach().clone();
  EXPECT_THAT(error_of([&] { model.load_weights(folder / "w.npz"); }),
              AllOf(HasSubstr("failed_precondition"), HasSubstr("'dense/bias'"), HasSubstr("'other'")));
  EXPECT_TRUE(at::equal(model.weights()[0].value, before));
}

TEST(KerasWeights, AreReadBesideAnOptimizersState) {
  const TemporaryFolder folder;
  const Sequential model({InputLayer({.shape = {3}}), Dense({.units = 2, .use_bias = false})});
  const Tensor kernel = at::rand({3, 2});
  const std::map<std::string, Tensor> file{{"layers/dense/vars/0", kernel},
                                           {"optimizer/vars/0", at::ones({}, at::kLong)}};
  files::write_hdf5(folder / "m.weights.h5", file);
  model.load_weights(folder / "m.weights.h5");
  EXPECT_TRUE(at::equal(model.weights()[0].value, kernel));
}

TEST(KerasWeights, CountWhatNormalizationHasSeenInWholeNumbers) {
  const TemporaryFolder folder;
  layers::Normalization layer;
  layer.adapt(at::rand({7, 3}));
  const Sequential model({InputLayer({.shape = {3}}), layer});
  model.save_weights(folder / "m.weights.h5");
  EXPECT_EQ(files::Hdf5Reader(folder / "m.weights.h5").form("layers/normalization/vars/2").dtype, at::kInt);
  const Sequential other({InputLayer({.shape = {3}}), layers::Normalization()});
  other.load_weights(folder / "m.weights.h5");
  for (size_t i = 0; i < 3; ++i) EXPECT_TRUE(at::equal(other.weights()[i].value, model.weights()[i].value)) << i;
}

TEST(KerasWeights, AreReadAndWrittenOnAllReplicas) {
  const TemporaryFolder folder;
  configure_logical_cpus(2);
  MirroredStrategy strategy({.devices = {"CPU:0", "CPU:1"}});
  const Sequential plain = small_net();
  fill_at_random(plain);
  plain.save_weights(folder / "m.weights.h5");
  const Sequential mirrored = strategy.build([] { return small_net(); });
  mirrored.load_weights(folder / "m.weights.h5");
  const Tensor x = at::rand({6, 3});
  EXPECT_TRUE(at::equal(mirrored.predict(x), plain.predict(x)));
  mirrored.save_weights(folder / "again.weights.h5");
  EXPECT_EQ(folder.read("again.weights.h5"), folder.read("m.weights.h5"));
}

}  // namespace
}  // namespace tutti::keras
