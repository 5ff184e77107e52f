// What communications() counts while functions are replayed, against the same without recording.
#include <gmock/gmock.h>
#include <torch/torch.h>

#include "tests/support/test_devices.h"
#include "tutti/collectives/communications.h"
#include "tutti/core/function_ref.h"
#include "tutti/core/str.h"
#include "tutti/distribute/gradients.h"
#include "tutti/distribute/mirrored_strategy.h"
#include "tutti/distribute/replica_context.h"
#include "tutti/distribute/variable.h"
#include "tutti/function/functions.h"
#include "tutti/keras/layers/core/dense.h"
#include "tutti/keras/layers/normalization/batch_normalization.h"
#include "tutti/keras/optimizers/adam.h"
#include "tutti/keras/sequential.h"
#include "tutti/tensor/mesh_tensor.h"

namespace tutti {
namespace {

using ::testing::IsEmpty;
using ::testing::Not;

std::vector<std::string> sent_by(FunctionRef<void()> call) {
  reset_communications();
  call();
  std::vector<std::string> lines;
  for (const Communication& c : communications())
    lines.push_back(str(c.op, ' ', c.mesh_dimension, ' ', c.cause, c.implied ? " implied" : "", c.free ? " free" : "",
                        ": ", c.count, " calls, ", c.bytes, " bytes"));
  return lines;
}

TEST(FunctionCommunications, OfReplicasThatTrain) {
  struct Replicated {
    MirroredStrategy strategy{{.devices = test_devices(2)}};
    keras::optimizers::Adam adam;
    keras::Sequential model = strategy.build([] {
      keras::Sequential made({keras::layers::Dense({.units = 3}), keras::layers::BatchNormalization()});
      made.build({keras::kUnknown, 2});
      return made;
    });
    Tensor step(const PerReplica<Tensor>& batch) {
      const auto losses = strategy.run(
          [&](const Tensor& x) {
            const Tensor loss = model(x, {.training = true}).square().mean();
            adam.apply_gradients(gradients(loss, model.trainable_variables()), model.trainable_variables());
            return get_replica_context().all_reduce(ReduceOp::mean, loss.detach());
          },
          batch);
      return strategy.reduce(ReduceOp::sum, losses);
    }
  } plain, own;
  const auto step = function([&](const PerReplica<Tensor>& batch) { return own.step(batch); });
  for (int i = 0; i < 6; ++i) {
    const auto batch = plain.strategy.distribute(torch::randn({4, 2}));
    const auto sent = sent_by([&] { step(batch); });
    EXPECT_THAT(sent, Not(IsEmpty()));
    EXPECT_EQ(sent, sent_by([&] { plain.step(batch); })) << "step " << i;
    EXPECT_EQ(sent_by([&] { own.model.get_weights(); }), sent_by([&] { plain.model.get_weights(); })) << i;
  }
}

class FunctionCommunicationsOnAMesh : public testing::TestWithParam<bool> {};

TEST_P(FunctionCommunicationsOnAMesh, AreThoseOfPlainCalls) {
  const Mesh mesh({{"x", 2}, {"y", 2}}, test_devices(4), {.merge = GetParam()});
  const Layout rows({"x", kUnsharded}, mesh), columns({kUnsharded, "y"}, mesh);
  const Tensor w = distribute_tensor(torch::randn({5, 6}), columns);
  const auto f = [&](const Tensor& x) {
    const Tensor y = torch::matmul(x, w);
    return relayout(y, Layout({kUnsharded, kUnsharded}, mesh)).sum({0}) + gather(x.mean()) + torch::ones({6});
  };
  const auto g = function(f);
  for (int i = 0; i < 5; ++i) {
    const Tensor x = distribute_tensor(torch::randn({8, 5}), rows);
    const auto sent = sent_by([&] { g(x); });
    EXPECT_THAT(sent, Not(IsEmpty()));
    EXPECT_EQ(sent, sent_by([&] { f(x); })) << "call " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Buffers, FunctionCommunicationsOnAMesh, testing::Bool());

TEST(FunctionCommunications, OfBranchesAreThoseOfTheOneThatIsTaken) {
  const Mesh mesh({{"x", 2}}, test_devices(2), {.merge = false});
  const Tensor x = distribute_tensor(torch::randn({4, 4}), Layout({"x", kUnsharded}, mesh));
  const auto f = [&](const Tensor& flag, const Tensor& steps) {
    const Tensor sum = cond(
        flag, [&] { return gather(x.sum()); }, [&] { return torch::zeros({}); });
    const auto goes_on = [&](const Tensor& i, const Tensor&) { return i < steps; };
    const auto next = [&](const Tensor& i, const Tensor& total) { return std::tuple(i + 1, total + gather(x.sum())); };
    return std::get<1>(while_loop(goes_on, next, std::tuple(torch::zeros({}), sum)));
  };
  const auto g = function(f);
  for (int i = 0; i < 8; ++i) {
    const Tensor flag = torch::tensor(i % 3 == 0), steps = torch::tensor(static_cast<float>((i + 1) % 4));
    EXPECT_EQ(sent_by([&] { g(flag, steps); }), sent_by([&] { f(flag, steps); })) << "call " << i;
  }
  EXPECT_EQ(g.tracing_count(), 2);
}

}  // namespace
}  // namespace tutti
