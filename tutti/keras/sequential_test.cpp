#include "tutti/keras/sequential.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/randn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>

#include <sstream>

#include "tests/support/error_of.h"
#include "tests/support/temporary_folder.h"
#include "tutti/keras/layers/convolutional/conv.h"
#include "tutti/keras/layers/core/dense.h"
#include "tutti/keras/layers/pooling/pooling.h"
#include "tutti/keras/layers/reshaping/flatten.h"
#include "tutti/keras/saving/load_model.h"

namespace tutti::keras {
namespace {

using layers::Dense;
using ::testing::HasSubstr;

std::vector<std::string> weight_names(const Sequential& model) {
  std::vector<std::string> names;
  for (const layers::Weight& weight : model.weights()) names.push_back(weight.name);
  return names;
}

TEST(Sequential, IsTheChainOfItsLayers) {
  const Dense first({.units = 4, .activation = activations::relu});
  const Dense second({.units = 2});
  const Sequential model({first, second});
  const Tensor x = at::randn({3, 5});
  EXPECT_TRUE(at::allclose(model(x), second(first(x))));
  EXPECT_EQ(model.compute_output_shape({kUnknown, 5}), (Shape{kUnknown, 2}));
}

TEST(Sequential, NamesItsLayersApart) {
  const Sequential model({Dense({.units = 4}), Dense({.units = 3, .name = "middle"}), Dense({.units = 2})});
  model.build({kUnknown, 5});
  EXPECT_THAT(weight_names(model), testing::ElementsAre("dense/kernel", "dense/bias", "middle/kernel", "middle/bias",
                                                        "dense_1/kernel", "dense_1/bias"));
  EXPECT_THAT(error_of([] {
                Sequential({Dense({.units = 1, .name = "a"}), Dense({.units = 1, .name = "a"})});
              }),
              HasSubstr("two layers are called \"a\""));
}

TEST(Sequential, LeavesALayerTheNameThatAnotherModelKnowsItBy) {
  const TemporaryFolder folder;
  const Dense shared({.units = 2}), first({.units = 2}), second({.units = 2});
  const Sequential a({shared, second}), b({first, shared});
  EXPECT_EQ(shared.name(), "dense");
  EXPECT_EQ(first.name(), "dense_1");
  EXPECT_EQ(a.get_layer("dense_1").impl(), second.impl());
  EXPECT_EQ(b.get_layer("dense_1").impl(), first.impl());
  for (const Sequential& model : {a, b}) {
    model.compile({.optimizer = "sgd", .loss = "mse"});
    model.fit(at::randn({4, 2}), at::randn({4, 2}), {.verbose = Verbose::silent});
    model.save(folder / "model.keras");
    const Tensor x = at::randn({3, 2});
    EXPECT_TRUE(at::allclose(load_model(folder / "model.keras").predict(x), model.predict(x)));
  }
}

TEST(Sequential, CountsPastNamesThatAreGiven) {
  const Sequential model({Dense({.units = 4}), Dense({.units = 3}), Dense({.units = 2, .name = "dense_1"})});
  EXPECT_EQ(model.get_layer(1).name(), "dense_2");
}

TEST(Sequential, NestsAndTracksEachVariableOnce) {
  const Sequential inner({Dense({.units = 4})}, "inner");
  const Sequential model({inner, Dense({.units = 2})});
  model.build({kUnknown, 5});
  EXPECT_THAT(weight_names(model),
              testing::ElementsAre("inner/dense/kernel", "inner/dense/bias", "dense/kernel", "dense/bias"));
  EXPECT_EQ(model.trainable_variables().size(), 4U);
}

TEST(Sequential, SaysWhichLayersDoNotFit) {
  const Sequential model({Dense({.units = 4}), layers::Conv2D({.filters = 2})});
  EXPECT_THAT(
      error_of([&] {
        model.build({kUnknown, 5});
      }),
      HasSubstr("conv2d: the input has shape (None, 4); it must be [batch, height, width, channels] (the output "
                "of dense)"));
  const Dense built({.units = 2, .name = "head"});
  built.build({kUnknown, 7});
  EXPECT_THAT(
      error_of([&] {
        Sequential({Dense({.units = 4}), built}).build({kUnknown, 5});
      }),
      HasSubstr("head: the input has shape (None, 4); the layer was built for a last extent of 7 (the output of "
                "dense)"));
  EXPECT_THAT(error_of([&] {
                Sequential({Dense({.units = 4}), torch::nn::Linear(7, 2)}).build({kUnknown, 5});
              }),
              HasSubstr("the input is Float (1, 4); the weights are Float (the output of dense)"));
  const Sequential first({layers::Conv2D({.filters = 2})});
  EXPECT_THAT(error_of([&] { first.build({kUnknown, 5}); }), HasSubstr("(the model's input)"));
}

TEST(Sequential, PrintsKerassTable) {
  const Sequential model({layers::Conv2D({.filters = 32, .kernel_size = {3, 3}}), layers::MaxPooling2D(),
                          layers::Flatten(), Dense({.units = 10})});
  std::ostringstream unbuilt;
  model.summary(unbuilt);
  EXPECT_THAT(unbuilt.str(), HasSubstr("│ conv2d (Conv2D)                 │ ?                      │   0 (unbuilt) │"));
  model.build({kUnknown, 28, 28, 1});
  std::ostringstream out;
  model.summary(out);
  EXPECT_EQ(out.str(), R"(Model: "sequential"
┏━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━┳━━━━━━━━━━━━━━━━━━━━━━━━┳━━━━━━━━━━━━━━━┓
┃ Layer (type)                    ┃ Output Shape           ┃       Param # ┃
┡━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━╇━━━━━━━━━━━━━━━━━━━━━━━━╇━━━━━━━━━━━━━━━┩
│ conv2d (Conv2D)                 │ (None, 26, 26, 32)     │           320 │
├─────────────────────────────────┼────────────────────────┼───────────────┤
│ max_pooling2d (MaxPooling2D)    │ (None, 13, 13, 32)     │             0 │
├─────────────────────────────────┼────────────────────────┼───────────────┤
│ flatten (Flatten)               │ (None, 5408)           │             0 │
├─────────────────────────────────┼────────────────────────┼───────────────┤
│ dense (Dense)                   │ (None, 10)             │        54,090 │
└─────────────────────────────────┴────────────────────────┴───────────────┘
 Total params: 54,410 (212.54 KB)
 Trainable params: 54,410 (212.54 KB)
 Non-trainable params: 0 (0.00 B)
)");
}

}  // namespace
}  // namespace tutti::keras
