#include "tutti/distribute/count_communication.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/test_devices.h"
#include "tutti/core/str.h"
#include "tutti/distribute/mirrored_strategy.h"
#include "tutti/distribute/variable.h"
#include "tutti/tensor/mesh_tensor.h"

namespace tutti {
namespace {

using testing::ElementsAre;

// What f communicates: "reduce for Strategy::reduce: 1 call, 8 bytes".
template <class F>
std::vector<std::string> communicated(F f) {
  reset_communications();
  f();
  std::vector<std::string> lines;
  for (const Communication& c : communications())
    if (c.count > 0)
      lines.push_back(
          str(c.implied ? "implied " : "", c.op, " for ", c.cause, ": ", c.count, " calls, ", c.bytes, " bytes"));
  return lines;
}

class CountCommunication : public testing::Test {
 protected:
  MirroredStrategy strategy_{{.devices = test_devices(3)}};
  const PerReplica<Tensor> values_ =
      strategy_.run([] { return at::ones({2}) * get_replica_context().replica_id_in_sync_group(); });
};

TEST_F(CountCommunication, OfReductionsAndGathers) {
  EXPECT_THAT(communicated([&] { strategy_.reduce(ReduceOp::sum, values_); }),
              ElementsAre("reduce for Strategy::reduce: 1 calls, 8 bytes"));
  EXPECT_THAT(communicated([&] {
                strategy_.reduce_to(ReduceOp::sum, values_, {"CPU:0", "CPU:1"});
              }),
              ElementsAre("reduce for Strategy::reduce_to: 1 calls, 8 bytes"));
  EXPECT_THAT(communicated([&] { strategy_.gather(values_, 0); }),
              ElementsAre("gather for Strategy::gather: 1 calls, 24 bytes"));
}

TEST_F(CountCommunication, OfReplicas) {
  EXPECT_THAT(communicated([&] {
                strategy_.run([] { get_replica_context().all_reduce(ReduceOp::sum, at::ones({4})); });
                strategy_.run([] { get_replica_context().all_gather(at::ones({4}), 0); });
              }),
              ElementsAre("all_gather for ReplicaContext::all_gather: 1 calls, 48 bytes",
                          "all_reduce for ReplicaContext::all_reduce: 1 calls, 16 bytes"));
}

TEST_F(CountCommunication, OfReadingWhatReplicasWrote) {
  const Tensor statistic = strategy_.build([] { return at::zeros({5}); });
  strategy_.run([&] { statistic.add_(get_replica_context().replica_id_in_sync_group()); });
  EXPECT_THAT(communicated([&] { gather(statistic); }),
              ElementsAre("implied all_reduce for read of a variable: 1 calls, 20 bytes"));
  EXPECT_THAT(communicated([&] { gather(statistic); }), ElementsAre());
}

TEST(CountCommunicationOfOneReplica, IsNothing) {
  MirroredStrategy strategy({.devices = test_devices(1)});
  EXPECT_THAT(communicated([&] {
                const PerReplica<Tensor> values = strategy.run([] { return at::ones({2}); });
                strategy.reduce(ReduceOp::sum, values);
                strategy.gather(values, 0);
              }),
              ElementsAre());
}

}  // namespace
}  // namespace tutti
