// Models that are made of parts of others.
#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/rand.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <sstream>
#include <string>

#include "tests/support/error_of.h"
#include "tutti/keras/layers/core/dense.h"
#include "tutti/keras/layers/core/input_layer.h"
#include "tutti/keras/layers/merging/merge.h"
#include "tutti/keras/layers/recurrent/lstm.h"
#include "tutti/keras/losses/mean_squared_error.h"
#include "tutti/keras/optimizers/sgd.h"
#include "tutti/keras/sequential.h"

namespace tutti::keras {
namespace {

using layers::Dense;
using ::testing::HasSubstr;

TEST(CutModel, BeginsAtAnyPlace) {
  const SymbolicTensor in = Input({.shape = {3}});
  const Dense first({.units = 4}), second({.units = 2});
  const SymbolicTensor hidden = first(in), out = layers::Add()({second(hidden), second(hidden)});
  const Model whole({.inputs = {in}, .outputs = {out}}), head({.inputs = {in}, .outputs = {hidden}});
  const Model tail({.inputs = {hidden}, .outputs = {out}});
  const Tensor x = at::rand({5, 3});
  EXPECT_TRUE(at::allclose(tail(head(x)), whole(x)));
  EXPECT_EQ(tail.weights().size(), 2U);
  EXPECT_EQ(tail.model().input_names()[0], "dense_output");
  EXPECT_THAT(error_of([&] { tail(x); }),
              HasSubstr("dense_output: the input has shape (5, 3); the model takes (None, 4)"));
  std::ostringstream table;
  tail.summary(table);
  EXPECT_THAT(table.str(), HasSubstr("dense_output[0][0]"));
  EXPECT_THAT(error_of([&] { Model({.inputs = {hidden, hidden}, .outputs = {out}}); }), HasSubstr("is listed twice"));
}

// Two models may have given one name.
TEST(CutModel, IsJoinedUnderNamesThatAreFreeInEachModel) {
  const SymbolicTensor in = Input({.shape = {3}}), code = Dense({.units = 2})(Dense({.units = 4})(in));
  const SymbolicTensor out = Dense({.units = 3})(Dense({.units = 4})(code));
  const Model encoder({.inputs = {in}, .outputs = {code}}), decoder({.inputs = {code}, .outputs = {out}});
  EXPECT_EQ(decoder.layers()[1].name(), encoder.layers()[1].name());
  const Model whole({.inputs = {in}, .outputs = {out}});
  for (const Model& model : {whole, encoder, decoder}) {
    std::set<std::string> names;
    for (const layers::Layer& layer : model.layers()) names.insert(layer.name());
    EXPECT_EQ(names.size(), model.layers().size());
  }
  EXPECT_EQ(encoder.layers()[2].name(), "dense_1");
  const Tensor x = at::rand({5, 3});
  EXPECT_TRUE(at::allclose(whole(x), decoder(encoder(x))));
}

TEST(CutModel, MayBeCutBetweenTheOutputsOfACall) {
  const SymbolicTensor in = Input({.shape = {4, 3}});
  const std::vector<SymbolicTensor> outputs = layers::LSTM({.units = 2, .return_state = true}).outputs(std::vector{in});
  const SymbolicTensor sum = layers::Add()({outputs[1], outputs[2]});
  const Model model({.inputs = {in, outputs[1]}, .outputs = {sum, outputs[0]}});
  const Model states({.inputs = {in}, .outputs = {outputs[1], outputs[2]}});
  const Tensor x = at::rand({5, 4, 3}), h = at::rand({5, 2});
  EXPECT_TRUE(at::allclose(model.Layer::outputs({x, h})[0], h + states.Layer::outputs({x})[1]));
}

TEST(Model, GivesItsLayersAndTheirPlaces) {
  const auto check = [](const Model& model) {
    const Tensor x = at::rand({5, 3});
    const layers::Layer hidden = model.get_layer("hidden");
    const Model features({.inputs = model.inputs(), .outputs = {hidden.output()}});
    EXPECT_TRUE(at::equal(features(x), hidden(x)));
    const Model tail({.inputs = {hidden.output()}, .outputs = model.outputs()});
    EXPECT_TRUE(at::allclose(tail(features(x)), model(x)));
    hidden.set_trainable(false);
    const Model other({.inputs = model.inputs(), .outputs = {Dense({.units = 1})(hidden.output())}});
    other.compile({.optimizer = optimizers::SGD(), .loss = losses::MeanSquaredError()});
    other.fit(x, at::rand({5, 1}), {.verbose = Verbose::silent});
    EXPECT_EQ(other.trainable_variables().size(), 2U);
    EXPECT_EQ(model.get_layer(model.layers().size() - 1).name(), "last");
    EXPECT_THAT(error_of([&] { model.get_layer("nope"); }), HasSubstr("there is no layer \"nope\"; there are"));
    EXPECT_THAT(error_of([&] { model.get_layer(99); }), HasSubstr("there is no layer 99"));
  };
  const SymbolicTensor in = Input({.shape = {3}});
  check(Model(
      {.inputs = {in}, .outputs = {Dense({.units = 2, .name = "last"})(Dense({.units = 4, .name = "hidden"})(in))}}));
  const Sequential chain({Dense({.units = 4, .name = "hidden"}), Dense({.units = 2, .name = "last"})});
  EXPECT_THAT(error_of([&] { (void)chain.inputs(); }), HasSubstr("before it is built"));
  EXPECT_THAT(error_of([&] { (void)chain.get_layer(0).output(); }),
              HasSubstr("hidden.output: the layer was called 0 times"));
  chain.build({kUnknown, 3});
  check(chain);
  check(Sequential({layers::InputLayer({.shape = {3}}), Dense({.units = 4, .name = "hidden"}),
                    Dense({.units = 2, .name = "last"})}));
}

TEST(Layer, OutputRefusesWhatIsAmbiguous) {
  const SymbolicTensor a = Input({.shape = {3}}), b = Input({.shape = {3}});
  const Dense shared({.units = 1});
  const SymbolicTensor first = shared(a);
  EXPECT_EQ(shared.output(), first);
  EXPECT_EQ(shared.input(), a);
  const SymbolicTensor second = shared(b);
  EXPECT_THAT(error_of([&] { (void)shared.output(); }), HasSubstr("was called 2 times in graphs; keep what the call"));
}

}  // namespace
}  // namespace tutti::keras
