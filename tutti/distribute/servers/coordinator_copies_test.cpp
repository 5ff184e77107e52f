#include "tutti/distribute/servers/coordinator_copies.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>

#include "tests/support/error_of.h"
#include "tests/support/server_thread.h"
#include "tutti/device/logical_devices.h"
#include "tutti/distribute/parameter_server_strategy.h"
#include "tutti/tensor/mesh_tensor.h"

namespace tutti::servers {
namespace {

constexpr int64_t kTableRows = 1000, kTableWidth = 9;  // rows cross the ends of the blocks that have checksums

// A table, a slot of an optimizer beside it, and whether that says that it keeps other rows as they are.
struct TableTwin {
  TableTwin() {
    state.add_variable(table);
    ServedOptimizer optimizer{.name = "counting", .variables = {table}, .slots = {std::vector<Tensor>{slot}}};
    optimizer.apply = [this](auto gradients, auto, double) {
      const at::NoGradGuard no_grad;
      const Tensor gradient = gradients[0].value.to_dense();
      Tensor(table).sub_(gradient);
      Tensor(slot).add_(gradient, 2);
      if (fails) throw Error(ErrorCode::invalid_argument, "it fails");
    };
    optimizer.changes_rows_alone = [this](const ServedGradient&, const Tensor&) { return keeps_rows; };
    optimizer.numbers = [] { return std::vector<double>(); };
    optimizer.set_numbers = [](std::span<const double>) {};
    state.add_optimizer(optimizer);
  }
  bool equals(const TableTwin& other) const {
    return at::equal(gather(table), gather(other.table)) && at::equal(gather(slot), gather(other.slot));
  }

  ParameterServerStrategy strategy{
      {.cluster_resolver = cluster::ClusterResolver(), .devices = configure_logical_cpus(1)}};
  const Tensor table = strategy.build([] {
    return at::arange(kTableRows * kTableWidth, at::kDouble).view({kTableRows, kTableWidth}).set_requires_grad(true);
  });
  const Tensor slot = strategy.build([] { return at::zeros({kTableRows, kTableWidth}, at::kDouble); });
  ServedState state{1, {}};
  bool keeps_rows = true, fails = false;
};

class Coordinator : public testing::Test {
 protected:
  // What a worker does: takes 1 from the rows.
  Bytes push(const std::vector<int64_t>& rows) {
    ByteWriter writer = message_of(Kind::push);
    for (const int64_t each : {++num_calls, int64_t{0}, num_calls, int64_t{0}}) writer.number(each);
    const double scale = 1;
    writer.raw(&scale, sizeof scale);
    for (const int64_t each : {0, 1, 0}) writer.number(each);
    const std::vector<double> ones(rows.size() * kTableWidth, 1);
    writer.number(static_cast<int64_t>(GradientForm::rows_of_dense));
    writer.number(static_cast<int64_t>(rows.size()));
    for (const int64_t row : rows) writer.number(row);
    writer.raw(ones.data(), ones.size() * sizeof(double));
    return writer.bytes();
  }
  void update(const std::vector<int64_t>& rows) { thread.answer_other(push(rows)); }
  // Of what the coordinator's next pull gets.
  size_t bytes_of_pull() {
    ByteWriter writer = message_of(Kind::pull_changes);
    for (const int64_t each : {int64_t{2}, int64_t{0}, version, int64_t{1}, version}) writer.number(each);
    return thread.answer_other(writer.bytes()).size();
  }

  TableTwin served, own;
  VariableServer server{served.state, 0};
  testing_support::ServerThread thread{server, {"chief", 0}, rpc::Carriage::shared_memory};
  CoordinatorCopies copies{own.state, thread.links(),
                           [](int) { throw Error(ErrorCode::unavailable, "there is no other way"); }};
  int64_t num_calls = 0, version = 0;
};

TEST_F(Coordinator, HasWhatTheServersHave) {
  copies.pull(/*keeps_writes=*/true);
  for (int round = 0; round < 20; ++round) {
    served.keeps_rows = round % 5 != 3;
    for (int64_t i = 0; i < round; ++i) update({i, 30 * i + round, 990 + round % 10});
    copies.pull();
    EXPECT_TRUE(own.equals(served)) << round;
  }
}

TEST_F(Coordinator, GetsTheRowsThatHaveChangedAlone) {
  EXPECT_GT(bytes_of_pull(), 2 * kTableRows * kTableWidth * sizeof(double));
  version = 1;
  EXPECT_EQ(bytes_of_pull(), 3 * sizeof(int64_t));
  update({5, 600});
  update({5, 7});
  const size_t heads = 7 * sizeof(int64_t), rows = 2 * 3 * (kTableWidth + 1) * sizeof(double);
  EXPECT_EQ(bytes_of_pull(), heads + rows);
  EXPECT_GT(bytes_of_pull(), kTableRows * kTableWidth * sizeof(double)) << "the answer before was lost";
}

TEST_F(Coordinator, GetsAllWhereRowsAreNotAllThatHaveChanged) {
  version = 1;
  bytes_of_pull();
  const auto gets_all = [&] { return bytes_of_pull() > 2 * kTableRows * kTableWidth * sizeof(double); };
  served.keeps_rows = false;
  update({5});
  EXPECT_TRUE(gets_all());
  version = 2;
  served.keeps_rows = served.fails = true;
  EXPECT_EQ(code_of([&] { update({5}); }), ErrorCode::invalid_argument);
  EXPECT_TRUE(gets_all());
}

// In the block of a row that comes as well as elsewhere, where a row comes in between or not.
TEST_F(Coordinator, TakesToTheServersWhatWasWrittenBesideRowsThatChange) {
  copies.pull(/*keeps_writes=*/true);
  for (const int64_t written : {4, 6, 900}) {
    for (const bool meanwhile : {false, true}) {
      SCOPED_TRACE(testing::Message() << "row " << written << (meanwhile ? ", meanwhile" : ""));
      const auto write = [&] {
        const at::NoGradGuard no_grad;
        Tensor(own.table)[written].mul_(3);
      };
      if (!meanwhile) write();
      copies.push_writes();
      update({5, 7});
      if (meanwhile) write();
      copies.pull();
      copies.push_writes();
      EXPECT_TRUE(own.equals(served));
      const double expected = gather(own.table)[written][0].item<double>();
      EXPECT_EQ(gather(served.table)[written][0].item<double>(), expected);
      EXPECT_GT(expected, 4 * kTableWidth);
    }
  }
}

TEST_F(Coordinator, RefusesRowsThatAreNone) {
  for (const std::vector<int64_t>& rows :
       {std::vector<int64_t>{-1}, {kTableRows}, {5, 5}, {7, 6}, {int64_t{1} << 60}}) {
    ByteWriter writer;
    writer.number(static_cast<int64_t>(rows.size()));
    for (const int64_t row : rows) writer.number(row);
    ByteReader reader(writer.bytes(), "an answer");
    EXPECT_EQ(code_of([&] { own.state.read_rows(reader, 0, 0); }), ErrorCode::data_loss);
  }
}

}  // namespace
}  // namespace tutti::servers
