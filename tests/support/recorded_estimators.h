#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tests/support/oracle.h"
#include "tutti/estimator/estimator.h"
#include "tutti/estimator/head.h"
#include "tutti/estimator/optimizer_choice.h"

namespace tutti::oracle {

// A recorded input: features, labels, and how they are batched.
estimator::InputFn input_fn_of(const Json& json);
estimator::Input input_of(const Json& json);

// A recorded model function.
estimator::ModelFn model_fn_of(const Json& model);

// A recorded optimizer, by name or with its settings. `v1`: of tf.compat.v1.train.
estimator::OptimizerChoice optimizer_of(const Json& json, bool v1);

// A recorded canned estimator in a folder.
estimator::Estimator canned_estimator_of(const Json& test, const std::string& model_dir,
                                         const std::optional<estimator::WarmStartSettings>& warm_start = {});

estimator::Head head_of(const Json& json);

}  // namespace tutti::oracle
