#pragma once

#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <iostream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tutti/core/log.h"
#include "tutti/keras/callbacks/lambda_callback.h"
#include "tutti/keras/layers/core/dense.h"
#include "tutti/keras/losses/mean_squared_error.h"
#include "tutti/keras/metrics/accuracy.h"
#include "tutti/keras/metrics/regression.h"
#include "tutti/keras/optimizers/sgd.h"
#include "tutti/keras/sequential.h"

// Small trainings whose logs are made up, for the tests of callbacks.
namespace tutti::keras {

// y = w x with w = 1 at first. Each batch of ones with labels of zero makes w smaller.
inline Sequential line(const optimizers::LearningRate& learning_rate = 0.1) {
  const Sequential model({layers::Dense({.units = 1, .use_bias = false, .kernel_initializer = initializers::Ones()})},
                         "line");
  model.compile({.optimizer = optimizers::SGD({.learning_rate = learning_rate}),
                 .loss = losses::MeanSquaredError(),
                 .metrics = {metrics::MeanAbsoluteError({.name = "mae"}), metrics::Accuracy({.name = "accuracy"})}});
  model.build(Shape{kUnknown, 1});
  return model;
}

inline double weight_of(const Model& model) { return model.get_weights()[0].item<double>(); }

// Puts the numbers into the logs, one after each epoch.
inline callbacks::Callback scripted(const std::string& name, const std::vector<double>& values) {
  return callbacks::LambdaCallback({.on_epoch_end = [=](callbacks::TrainingState&, int64_t epoch, Logs& logs) {
    logs[name] = values.at(static_cast<size_t>(epoch));
  }});
}

struct Training {
  History history;
  std::string printed;   // on std::cout
  std::string warnings;  // each with a newline
};

// Epochs of two batches.
inline Training train(const Model& model, int64_t epochs, const std::vector<callbacks::Callback>& callbacks,
                      const Tensor& labels = at::zeros({4, 1})) {
  Training training;
  const std::ostringstream printed;
  std::streambuf* const screen = std::cout.rdbuf(printed.rdbuf());
  const WarningSink before = set_warning_sink([&](const std::string& text) { training.warnings += text + '\n'; });
  const auto restore = [&] {
    std::cout.rdbuf(screen);
    set_warning_sink(before);
  };
  try {
    training.history = model.fit(
        at::ones({4, 1}), labels,
        {.batch_size = 2, .epochs = epochs, .verbose = Verbose::silent, .callbacks = callbacks, .shuffle = false});
  } catch (...) {
    restore();
    throw;
  }
  restore();
  training.printed = printed.str();
  return training;
}

}  // namespace tutti::keras
