#include "tutti/keras/saving/legacy_weights.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/error_of.h"
#include "tests/support/temporary_folder.h"
#include "tutti/device/logical_devices.h"
#include "tutti/distribute/mirrored_strategy.h"
#include "tutti/keras/layers/core/dense.h"
#include "tutti/keras/layers/core/input_layer.h"
#include "tutti/keras/layers/normalization/batch_normalization.h"
#include "tutti/keras/layers/regularization/dropout.h"
#include "tutti/keras/sequential.h"

namespace tutti::keras {
namespace {

using layers::BatchNormalization;
using layers::Dense;
using layers::Dropout;
using layers::InputLayer;
using ::testing::AllOf;
using ::testing::HasSubstr;

// Files that h5py has written; tests/hdf5/write.py.
std::filesystem::path legacy_file(const std::string& name) { return std::filesystem::path(TUTTI_TESTS_HDF5) / name; }

// Whose weights they have, under other names.
Sequential make_legacy(int64_t units = 2) {
  return Sequential(
      {InputLayer({.shape = {3}}), Dense({.units = units}), Dropout({.rate = 0.5}), BatchNormalization()});
}

void expect_weights_of_file(const Sequential& model) {
  const Tensor row = at::arange(3, 5, at::kFloat);
  EXPECT_TRUE(at::equal(model.get_weights()[0], at::arange(6, at::kFloat).view({3, 2})));
  EXPECT_TRUE(at::equal(model.get_weights()[1], at::arange(2, at::kFloat)));
  for (size_t i = 0; i < 4; ++i) EXPECT_TRUE(at::equal(model.get_weights()[2 + i], row + static_cast<double>(i))) << i;
}

TEST(LegacyWeights, AreReadByTheOrderOfLayers) {
  for (const char* const name : {"legacy.h5", "legacy_fixed.h5"}) {
    const Sequential model = make_legacy();
    model.load_weights(legacy_file(name));
    expect_weights_of_file(model);
  }
}

TEST(LegacyWeights, AreKnownByWhatTheFileHas) {
  const TemporaryFolder folder;
  for (const char* const name : {"m.hdf5", "m.weights.h5"}) {
    std::filesystem::copy_file(legacy_file("legacy.h5"), folder / name);
    const Sequential model = make_legacy();
    model.load_weights(folder / name);
    expect_weights_of_file(model);
  }
}

TEST(LegacyWeights, AreReadOnAllReplicas) {
  MirroredStrategy strategy({.devices = configure_logical_cpus(2)});
  const Sequential model = strategy.build([] { return make_legacy(); });
  model.load_weights(legacy_file("legacy.h5"));
  expect_weights_of_file(model);
}

// The error of reading, which must change nothing.
std::string error_of_loading(const Sequential& model, const std::string& name) {
  const std::vector<Tensor> before = model.get_weights();
  std::string error = error_of([&] { model.load_weights(legacy_file(name)); });
  EXPECT_TRUE(std::ranges::equal(model.get_weights(), before, [](auto& a, auto& b) { return at::equal(a, b); }));
  return error;
}

TEST(LegacyWeights, ThatDoNotFitAreNamedAndNothingIsChanged) {
  EXPECT_THAT(error_of_loading(make_legacy(4), "legacy.h5"),
              AllOf(HasSubstr("failed_precondition"), HasSubstr("nothing was changed"),
                    HasSubstr("'dense/kernel (first/net/first/kernel)' is Float [3, 2] in the file and Float [3, 4]"),
                    HasSubstr("'batch_normalization/gamma (norm/net/norm/gamma)'")));
  EXPECT_THAT(error_of_loading(Sequential({InputLayer({.shape = {3}}), Dense({.units = 2})}), "legacy.h5"),
              AllOf(HasSubstr("failed_precondition"), HasSubstr("it has 2 layers with weights, the model has 1")));
  EXPECT_THAT(error_of_loading(Sequential({InputLayer({.shape = {3}}), Dense({.units = 2, .use_bias = false}),
                                           BatchNormalization()}),
                               "legacy.h5"),
              AllOf(HasSubstr("'first' has the weights [kernel, bias], the layer dense has [kernel]")));
}

// Keras takes those that are not trained last, and so the places of a file's weights tell what was frozen.
TEST(LegacyWeights, OfLayersThatWereFrozenOtherwiseAreNotMixedUp) {
  const Sequential inner({Dense({.units = 2}), BatchNormalization()});
  const Sequential model({InputLayer({.shape = {3}}), inner});
  EXPECT_THAT(error_of_loading(model, "legacy_frozen.h5"),
              AllOf(HasSubstr("failed_precondition"), HasSubstr("freeze the layers that were frozen")));
  inner.layers()[0].set_trainable(false);
  model.load_weights(legacy_file("legacy_frozen.h5"));
  EXPECT_TRUE(at::equal(model.get_weights()[0], at::arange(6, at::kFloat).view({3, 2})));
}

TEST(LegacyWeights, OfDamagedFilesAreRefused) {
  EXPECT_THAT(error_of_loading(make_legacy(), "legacy_no_layer.h5"),
              AllOf(HasSubstr("data_loss"), HasSubstr("no group '../first', which its layer_names names")));
  EXPECT_THAT(error_of_loading(make_legacy(), "legacy_no_weight.h5"),
              AllOf(HasSubstr("data_loss"), HasSubstr("no weight 'norm/net/first/kernel', which weight_names names")));
  EXPECT_THAT(error_of_loading(make_legacy(), "legacy_numbers.h5"),
              AllOf(HasSubstr("unimplemented"), HasSubstr("layer_names of '' is no text")));
}

}  // namespace
}  // namespace tutti::keras
