// Errors of compiled functions name the line of the program, which is compiled with -g1 here.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/support/error_of.h"
#include "tutti/core/str.h"
#include "tutti/function/function.h"
#include "tutti/tpu/tpu_strategy.h"
#include "tutti/tpu/tpu_system.h"

namespace tutti {
namespace {

using testing::AllOf;
using testing::HasSubstr;

int g_line;  // of what was called last

Tensor layer(const Tensor& x) {
  g_line = __LINE__ + 1;
  return at::linalg_matrix_exp(x * 2);
}

Tensor squared_sum(const Tensor& x) {
  const Tensor w = (x * 1).set_requires_grad(true);
  const Tensor y = at::special_i0e(w).sum();
  g_line = __LINE__ + 1;
  y.backward();
  return w.grad();
}

Tensor of_own_size(const Tensor& x) {
  const auto rows = get_replica_context().replica_id_in_sync_group() + 1;
  g_line = __LINE__ + 1;
  return x.sum() + at::ones({rows}).sum();
}

class ErrorLines : public testing::Test {
 protected:
  void SetUp() override {
    if (std::system("addr2line --version >/dev/null 2>&1")) GTEST_SKIP() << "there is no addr2line, of binutils";
    const cluster::TPUClusterResolver resolver({.tpu = "local"}, cluster::Environment());
    tpu::initialize_tpu_system(
        resolver, {.environment = cluster::Environment::Variables{{"TUTTI_PJRT_PLUGIN", TUTTI_FAKE_PJRT_PLUGIN}}});
    strategy_ = std::make_unique<TPUStrategy>(resolver);
    tpu::shutdown_tpu_system();
  }

  template <class F>
  std::string error_when_compiled(F f) {
    const auto step = function([&](const PerReplica<Tensor>& x) { return strategy_->run(f, x); }, {.name = "step"});
    const PerReplica<Tensor> x({at::ones({2, 2}), at::ones({2, 2})});
    step(x);
    return error_of([&] { step(x); });
  }

  std::unique_ptr<TPUStrategy> strategy_;
};

TEST_F(ErrorLines, NameTheOpAndTheLine) {
  const std::string error = error_when_compiled([](const Tensor& x) { return layer(x); });
  EXPECT_THAT(error, AllOf(HasSubstr("aten::linalg_matrix_exp cannot be compiled for an accelerator yet"),
                           HasSubstr(str("The program made the call at tpu_error_lines_test.cpp:", g_line))));
}

TEST_F(ErrorLines, OfABackwardPassAreThoseOfItsCall) {
  const std::string error = error_when_compiled([](const Tensor& x) { return squared_sum(x); });
  EXPECT_THAT(error, HasSubstr("aten::special_i0e cannot be compiled"));
  EXPECT_THAT(error, HasSubstr(str("tpu_error_lines_test.cpp:", g_line - 2)));
}

TEST_F(ErrorLines, OfReplicasThatDifferAreThoseOfTheFirst) {
  const std::string error = error_when_compiled([](const Tensor& x) { return of_own_size(x); });
  EXPECT_THAT(error, HasSubstr("in replica"));
  EXPECT_THAT(error, HasSubstr(str("Replica 0 made its call at tpu_error_lines_test.cpp:", g_line)));
}

}  // namespace
}  // namespace tutti
