#include "tutti/distribute/check_in_sync.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <torch/nn/modules/linear.h>

#include <limits>

#include "tests/support/dataset_values.h"
#include "tests/support/three_replicas.h"

namespace tutti {
namespace {

using ::testing::HasSubstr;

class CheckInSync : public ThreeReplicas {
 protected:
  Variable make(const Tensor& initial, const VariableOptions& options = {}) {
    return strategy.build([&] { return variable(initial, options); });
  }
};

TEST_F(CheckInSync, NamesTheReplicaTheElementAndTheValues) {
  const Variable made = make(at::zeros({2, 3}), {.name = "w", .trainable = false});
  check_in_sync(made);
  strategy.run([&] { made.assign(0.5); });
  check_in_sync(made);  // each has a buffer of its own, with the same value
  strategy.run([&] {
    if (replica() == 2) made[1][0].fill_(1.5);
  });
  EXPECT_THAT(
      error_of([&] { check_in_sync(made); }),
      AllOf(HasSubstr("failed_precondition"), HasSubstr("'w' of shape [2, 3]"),
            HasSubstr("replica 2 has at [1, 0]: 1.5, replica 0 has 0.5"), HasSubstr("check_in_sync_test.cpp:")));
  made.assign(1);
  check_in_sync(made);
}

TEST_F(CheckInSync, ShowsDigitsEnoughToTellValuesApart) {
  const Variable made = make(at::ones({}), {.trainable = false});
  strategy.run([&] {
    if (replica() == 1) made.fill_(std::nextafter(1.0f, 2.0f));
  });
  EXPECT_THAT(error_of([&] { check_in_sync(made); }), HasSubstr("replica 1 has at []: 1.00000012, replica 0 has 1;"));
}

TEST_F(CheckInSync, KnowsHalvesOfComplexNumbers) {
  const Variable made = make(at::zeros({2}, at::kComplexHalf), {.trainable = false});
  strategy.run([&] { made.fill_(1); });
  check_in_sync(made);  // equal, each in a buffer of its own
  strategy.run([&] {
    if (replica() == 1) made[1].fill_(2);
  });
  EXPECT_THAT(error_of([&] { check_in_sync(made); }), HasSubstr("replica 1 has at [1]: (2,0), replica 0 has (1,0)"));
}

TEST_F(CheckInSync, LooksAtAListAndSaysWhichOfIt) {
  auto linear = strategy.build([] { return torch::nn::Linear(2, 1); });
  check_in_sync(linear->parameters());
  strategy.run([&] {
    const at::NoGradGuard no_grad;
    linear->bias.fill_(replica());
  });
  EXPECT_THAT(error_of([&] { check_in_sync(linear->parameters()); }), HasSubstr("number 1 of the list"));
}

TEST_F(CheckInSync, PassesOverWhatMayDiffer) {
  const Variable own = make(at::zeros({}), {.synchronization = VariableSynchronization::on_read});
  strategy.run([&] { own.assign(replica()); });
  check_in_sync(own);
  check_in_sync(at::ones({}));
  const Variable nans = make(at::zeros({}));
  strategy.run([&] { nans.assign(std::numeric_limits<double>::quiet_NaN()); });
  check_in_sync(nans);
}

TEST_F(CheckInSync, InAReplicaIsAMeeting) {
  const Variable made = make(at::zeros({}), {.name = "w"});
  strategy.run([&] { check_in_sync(made); });
  EXPECT_THAT(error_of([&] {
                strategy.run([&] {
                  made.assign(replica());
                  check_in_sync(made);
                });
              }),
              AllOf(HasSubstr("failed_precondition"), HasSubstr("'w'"), HasSubstr("replica 1")));
}

}  // namespace
}  // namespace tutti
