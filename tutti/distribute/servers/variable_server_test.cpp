#include "tutti/distribute/servers/variable_server.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <random>

#include "tests/support/error_of.h"
#include "tutti/device/logical_devices.h"
#include "tutti/distribute/parameter_server_strategy.h"
#include "tutti/distribute/variable.h"
#include "tutti/tensor/mesh_tensor.h"

namespace tutti::servers {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// 10 rows in shards of 3, 3, 2 and 2, on server 0: 0, 1, 2, 6 and 7.
class Served : public testing::Test {
 protected:
  Served() {
    state.add_variable(w);
    state.add_variable(scalar);
    ServedOptimizer sgd{.name = "sgd", .variables = {w, scalar}, .slots = {{}, {}}};
    sgd.apply = [this](auto gradients, auto variables, double scale) {
      if (rate < 0) throw Error(ErrorCode::invalid_argument, "a rate below 0");
      for (size_t i = 0; i < variables.size(); ++i) Tensor(variables[i]).sub_(gradients[i].value.to_dense(), scale);
    };
    sgd.numbers = [this] { return std::vector<double>{rate}; };
    sgd.set_numbers = [this](std::span<const double> numbers) { rate = numbers[0]; };
    state.add_optimizer(sgd);
  }

  static ByteWriter push(int64_t call, int64_t number, int64_t first_open, int64_t optimizer = 0) {
    ByteWriter writer = message_of(Kind::push);
    for (const int64_t each : {call, number, first_open, optimizer}) writer.number(each);
    const double scale = 1;
    writer.raw(&scale, sizeof scale);
    writer.number(0);  // nothing is pulled
    return writer;
  }
  // Of ones, for rows.
  static Bytes push_rows(int64_t call, int64_t number, int64_t first_open, const std::vector<int64_t>& rows) {
    ByteWriter writer = push(call, number, first_open);
    writer.number(1);
    writer.number(0);
    writer.number(1);
    writer.number(static_cast<int64_t>(rows.size()));
    for (const int64_t row : rows) writer.number(row);
    const std::vector<float> ones(2 * rows.size(), 1);
    writer.raw(ones.data(), ones.size() * sizeof(float));
    return writer.bytes();
  }
  std::string error_of_answer(const Bytes& request) {
    const Bytes answer = server.answer(request).bytes();
    ByteReader reader(answer, "an answer");
    return error_of([&] { require_done(reader); });
  }
  float at(int64_t row) { return gather(w)[row][0].item<float>(); }

  ParameterServerStrategy strategy{
      {.cluster_resolver = cluster::ClusterResolver(), .devices = configure_logical_cpus(1)}};
  const Tensor w = strategy.build([] { return at::zeros({10, 2}).set_requires_grad(true); });
  const Tensor scalar = strategy.build([] { return at::zeros({}).set_requires_grad(true); });
  double rate = 1;
  ServedState state{2, FixedShardsPartitioner(4)};
  VariableServer server{state, 0};
};

TEST_F(Served, AnUpdateThatFailedIsNotMadeButFailsAgainWhenItsRequestComesAgain) {
  rate = -1;
  const Bytes request = push_rows(5, 0, 5, {0});
  EXPECT_THAT(error_of_answer(request), HasSubstr("a rate below 0"));
  rate = 1;
  EXPECT_THAT(error_of_answer(request), HasSubstr("a rate below 0"));
  EXPECT_EQ(at(0), 0);
  EXPECT_EQ(error_of_answer(push_rows(5, 1, 5, {0})), "no error");
  EXPECT_EQ(at(0), -1);
}

TEST_F(Served, RowsGoOnceToWhoKnowsTheVersion) {
  const auto pulled = [&](int64_t version) {
    ByteWriter writer = message_of(Kind::pull);
    for (const int64_t each : {int64_t{1}, int64_t{0}, version}) writer.number(each);
    return server.answer(writer.bytes()).bytes();
  };
  const Bytes first = pulled(0);
  ByteReader reader(first, "an answer");
  require_done(reader);
  const int64_t version = reader.number();
  EXPECT_EQ(reader.left(), 5 * 2 * sizeof(float));
  EXPECT_EQ(pulled(version).size(), 2 * sizeof(int64_t));
  EXPECT_EQ(error_of_answer(push_rows(1, 0, 1, {7})), "no error");
  EXPECT_EQ(pulled(version).size(), first.size());
}

TEST_F(Served, AnUpdateCountsOnceForEachCallHoweverOftenItComes) {
  for (int times = 0; times < 3; ++times) EXPECT_EQ(error_of_answer(push_rows(5, 0, 5, {0, 7})), "no error");
  EXPECT_EQ(at(0), -1);
  EXPECT_EQ(at(7), -1);
  EXPECT_EQ(at(1), 0);
  error_of_answer(push_rows(5, 2, 5, {0}));  // this server has no part in update 1
  error_of_answer(push_rows(5, 1, 5, {0}));
  EXPECT_EQ(at(0), -2);
  error_of_answer(push_rows(6, 0, 5, {0}));
  EXPECT_EQ(at(0), -3);
}

TEST_F(Served, WhatIsPulledWithAnUpdateIsWhatItHasMade) {
  const auto push_and_pull = [&](int64_t known) {
    ByteWriter writer = message_of(Kind::push);
    for (const int64_t each : {5, 0, 5, 0}) writer.number(each);
    const double scale = 1;
    writer.raw(&scale, sizeof scale);
    for (const int64_t each : {int64_t{1}, int64_t{0}, known}) writer.number(each);  // pulls tensor 0
    for (const int64_t each : {1, 0, 1, 1, 7}) writer.number(each);                  // and pushes its row 7
    const std::vector<float> ones(2, 1);
    writer.raw(ones.data(), ones.size() * sizeof(float));
    return server.answer(writer.bytes()).bytes();
  };
  const Bytes first = push_and_pull(1);
  EXPECT_EQ(at(7), -1);
  ByteReader reader(first, "an answer");
  require_done(reader);
  const int64_t version = reader.number();
  EXPECT_EQ(version, 2);
  std::vector<float> rows(10);
  std::memcpy(rows.data(), reader.raw(rows.size() * sizeof(float)), rows.size() * sizeof(float));
  reader.finish();
  EXPECT_THAT(rows, ElementsAre(0, 0, 0, 0, 0, 0, 0, 0, -1, -1));
  EXPECT_EQ(push_and_pull(1), first) << "of an update that was made before too";
  EXPECT_EQ(push_and_pull(version).size(), 2 * sizeof(int64_t));
  EXPECT_EQ(at(7), -1);
}

// Else it would keep messages from coming, or read what comes.
TEST_F(Served, AGradientThatAnOptimizerKeepsHasMemoryOfItsOwn) {
  ServedState whole(1, {});
  whole.add_variable(w);
  const auto memory = std::make_shared<std::vector<double>>(1000);
  const auto* const begin = reinterpret_cast<const char*>(memory->data());
  std::vector<Tensor> kept;
  bool throws = false;
  whole.add_optimizer({.name = "keeps", .variables = {w}, .slots = {{}}, .apply = [&](auto gradients, auto, double) {
                         const auto* const bytes = static_cast<const char*>(gradients[0].value.const_data_ptr());
                         EXPECT_TRUE(bytes > begin && bytes < begin + 1000) << "it was copied";
                         kept.push_back(gradients[0].value.view({20}));
                         if (throws) throw Error(ErrorCode::internal, "after all");
                       }});
  VariableServer alone(whole, 0);
  for (const int64_t call : {1, 2}) {
    throws = call == 2;
    LongMessage message(Kind::push);
    for (const int64_t each : {call, int64_t{0}, int64_t{0}, int64_t{0}}) message.number(each);
    const double scale = 1;
    message.raw(&scale, sizeof scale);
    for (const int64_t each : {0, 1, 0, 0}) message.number(each);
    const std::vector<float> ones(20, 1);
    message.part(ones.data(), ones.size() * sizeof(float));
    const Bytes bytes = message.bytes();
    std::memcpy(memory->data(), bytes.data(), bytes.size());
    alone.answer(Incoming(memory, {reinterpret_cast<const uint8_t*>(begin), bytes.size()}));
    EXPECT_EQ(memory.use_count(), 1);
    std::ranges::fill(*memory, 7.0);
  }
  ASSERT_EQ(kept.size(), 2);
  for (const Tensor& gradient : kept) EXPECT_TRUE(at::equal(gradient, at::ones({20})));
}

TEST_F(Served, RowsComeAsSparseGradientsThatTellWhetherTheProgramsAre) {
  ServedState whole(1, {});
  whole.add_variable(w);
  whole.add_variable(scalar);
  std::vector<bool> are_sparse;
  whole.add_optimizer({.name = "takes rows",
                       .variables = {w, scalar},
                       .slots = {{}, {}},
                       .apply = [&](auto gradients, auto variables, double) {
                         EXPECT_TRUE(gradients[0].value.is_sparse() && gradients[0].value.is_coalesced());
                         are_sparse.push_back(gradients[0].is_sparse);
                         Tensor(variables[0]).sub_(gradients[0].value.to_dense());
                       }});
  VariableServer alone(whole, 0);
  const auto answer = [&](int64_t call, int64_t tensor, int64_t form) {
    ByteWriter writer = push(call, 0, 1);
    for (const int64_t each : {int64_t{1}, tensor, form, int64_t{2}, int64_t{4}, int64_t{9}}) writer.number(each);
    const std::vector<float> ones(4, 1);
    writer.raw(ones.data(), ones.size() * sizeof(float));
    const Bytes bytes = alone.answer(writer.bytes()).bytes();
    ByteReader reader(bytes, "an answer");
    return error_of([&] { require_done(reader); });
  };
  EXPECT_EQ(answer(1, 0, 1), "no error");
  EXPECT_EQ(answer(2, 0, 2), "no error");
  EXPECT_EQ(are_sparse, (std::vector<bool>{false, true}));
  EXPECT_THAT((std::vector{at(3), at(4), at(9)}), ElementsAre(0, -2, -2));
  EXPECT_THAT(answer(3, 0, 3), HasSubstr("data_loss"));
  EXPECT_THAT(answer(4, 1, 1), HasSubstr("rows of tensor 1, which has none"));
}

TEST_F(Served, CallsThatAreOverCountNoMore) {
  error_of_answer(push_rows(9, 0, 9, {0}));
  EXPECT_EQ(error_of_answer(push_rows(8, 0, 3, {0})), "no error");
  EXPECT_EQ(at(0), -1);
}

TEST_F(Served, RowsOfAnotherServerOrInAnotherOrderAreRefused) {
  int64_t call = 0;
  for (const std::vector<int64_t>& rows :
       {std::vector<int64_t>{3}, {7, 6}, {0, 0}, {10}, {-1}, {0, std::numeric_limits<int64_t>::max()}})
    EXPECT_THAT(error_of_answer(push_rows(++call, 0, 1, rows)), HasSubstr("data_loss")) << rows[0];
}

TEST_F(Served, AnUpdateThatWasRefusedCountsAsMade) {
  EXPECT_THAT(error_of_answer(push_rows(1, 0, 1, {3})), HasSubstr("data_loss"));
  EXPECT_EQ(at(3), 0);
}

TEST_F(Served, ABufferIsTakenAsItIsOrItsDifferenceIsAddedToWhatOthersHaveWritten) {
  int64_t call = 0;
  const auto write = [&](float before, float after) {
    ByteWriter writer = push(++call, 0, 1, -1);
    for (const int64_t each : {1, 0}) writer.number(each);  // one tensor, number 0
    for (const float value : {before, after}) {
      const std::vector<float> rows(10, value);
      writer.raw(rows.data(), rows.size() * sizeof(float));
    }
    return error_of_answer(writer.bytes());
  };
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(write(0, 1000), "no error");
  EXPECT_EQ(write(1000, 0.001F), "no error");
  EXPECT_EQ(at(2), 0.001F);
  EXPECT_EQ(at(3), 0) << "of another server";
  EXPECT_EQ(write(0.001F, 2), "no error");
  EXPECT_EQ(write(1, 4), "no error");
  EXPECT_EQ(at(2), 5);
  EXPECT_EQ(write(5, kInfinity), "no error");
  EXPECT_EQ(write(1, 1), "no error");
  EXPECT_EQ(at(2), kInfinity);
  EXPECT_EQ(write(kInfinity, 3), "no error");
  EXPECT_THAT(write(kInfinity, 1), HasSubstr("was written by two functions at once, whose changes cannot be added: a "
                                             "difference is not finite"));
  EXPECT_EQ(at(2), 3);
}

TEST_F(Served, NumbersOfOptimizersAreReadAndWritten) {
  ByteWriter write = message_of(Kind::write_numbers);
  write.number(0);
  write.number(1);
  const double rate = 0.25;
  write.raw(&rate, sizeof rate);
  EXPECT_EQ(error_of_answer(write.bytes()), "no error");
  EXPECT_EQ(this->rate, 0.25);
}

TEST_F(Served, RequestsThatAreNoneAreAnsweredWithErrors) {
  std::vector<Bytes> requests{push_rows(1, 0, 1, {0, 7})};
  ByteWriter assign = message_of(Kind::assign);
  assign.number(1);
  assign.number(0);
  assign.raw(std::vector<char>(40).data(), 40);
  requests.push_back(assign.bytes());
  ByteWriter pull = message_of(Kind::pull_rows);
  for (const int64_t each : {0, 2, 1, 6}) pull.number(each);
  requests.push_back(pull.bytes());
  for (const Bytes& request : requests) {
    for (size_t size = 0; size < request.size(); ++size) {
      Bytes part(request.begin(), request.begin() + static_cast<std::ptrdiff_t>(size));
      if (size >= 16) part[8] = static_cast<uint8_t>(size);  // the call of an update is another one
      EXPECT_NE(error_of_answer(part), "no error");
    }
    EXPECT_EQ(error_of_answer(request), "no error");
  }
  std::mt19937 random(1);
  for (int i = 0; i < 5000; ++i) {
    Bytes request = requests[random() % requests.size()];
    for (int k = 0; k < 2; ++k) {
      const size_t place = random() % request.size();
      request[place] = static_cast<uint8_t>(random() % 3 == 0 ? random() : random() % 12);
    }
    server.answer(request);
  }
}

TEST_F(Served, TheOtherServersRowsStayWhatTheyWere) {
  ByteWriter assign = message_of(Kind::assign);
  assign.number(1);
  assign.number(0);
  const std::vector<float> rows(10, 4);
  assign.raw(rows.data(), rows.size() * sizeof(float));
  EXPECT_EQ(error_of_answer(assign.bytes()), "no error");
  std::vector<float> first;
  for (int64_t row = 0; row < 10; ++row) first.push_back(at(row));
  EXPECT_THAT(first, ElementsAre(4, 4, 4, 0, 0, 0, 4, 4, 0, 0));
}

TEST(ServedState, RefusesOptimizersWhoseUpdatesNeedWhatLiesElsewhere) {
  ParameterServerStrategy strategy{
      {.cluster_resolver = cluster::ClusterResolver(), .devices = configure_logical_cpus(1)}};
  const Tensor w = strategy.build([] { return at::zeros({10, 2}).set_requires_grad(true); });
  ServedState cut(2, FixedShardsPartitioner(2)), whole(2, {});
  cut.add_variable(w);
  whole.add_variable(w);
  const auto code = [&](ServedState& state, bool needs_whole, bool needs_all) {
    return code_of([&] {
      state.add_optimizer({.name = "o",
                           .variables = {w},
                           .slots = {{}},
                           .needs_whole_variables = needs_whole,
                           .needs_all_variables = needs_all});
    });
  };
  EXPECT_EQ(code(cut, true, false), ErrorCode::unimplemented);
  EXPECT_EQ(code(whole, true, false), std::nullopt);
  EXPECT_EQ(code(whole, false, true), ErrorCode::unimplemented);
}

}  // namespace
}  // namespace tutti::servers
