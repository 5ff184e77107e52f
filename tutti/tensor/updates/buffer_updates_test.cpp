// Updates of dense buffers in host memory, beside the same by LibTorch's ops.
#include "tutti/tensor/updates/buffer_updates.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/complex.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/imag.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/sparse_coo_tensor.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tutti/device/logical_devices.h"
#include "tutti/tensor/host_memory.h"
#include "tutti/tensor/mesh_tensor.h"
#include "tutti/tensor/updates/host_buffers.h"
#include "tutti/tensor/updates/measures.h"
#include "tutti/tensor/updates/slot_buffers.h"

namespace tutti {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Mesh four_devices(bool merge) { return Mesh({{"x", 4}}, configure_logical_cpus(4), {.merge = merge}); }

Tensor rows_on(const Mesh& mesh, const Tensor& value) {
  return distribute_tensor(value, Layout({"x", kUnsharded}, mesh));
}

// The variable loses half of its gradient, the slot counts.
template <class T>
void lose_half(const TypedUpdate<T>& update) {
  for (int64_t i = 0; i < update.count; ++i) {
    update.variable[i] = update.variable[i] * update.variable_scale - update.gradient[i] * update.gradient_scale / T(2);
    update.slots[0][i] += 1;
  }
}

void run(const std::vector<BufferUpdate>& updates) {
  const auto in_float = [](const TypedUpdate<float>& update) { lose_half(update); };
  const auto in_double = [](const TypedUpdate<double>& update) { lose_half(update); };
  fused_update(updates, {.num_slots = 1, .in_float = in_float, .in_double = in_double});
}

bool update(const Tensor& variable, const Tensor& gradient, const Tensor& slot,
            decltype(add_buffer_updates)& add = add_buffer_updates) {
  std::vector<BufferUpdate> updates;
  std::vector<Tensor> copies;
  const UpdateScaling scaling{.gradient_limit = kInfinity};
  if (!add(variable, gradient, {&slot, 1}, scaling, updates, copies)) return false;
  run(updates);
  finish_buffer_updates(variable);
  return true;
}

TEST(HostMemory, IsWhereTheBytesAreTheElements) {
  const Tensor matrix = at::ones({3, 4});
  EXPECT_TRUE(dense_in_host_memory(matrix));
  EXPECT_TRUE(dense_in_host_memory(matrix.t()));
  EXPECT_TRUE(in_host_memory(matrix.narrow(1, 0, 2)) && !dense_in_host_memory(matrix.narrow(1, 0, 2)));
  EXPECT_FALSE(dense_in_host_memory(at::ones({1}).expand({3})));
  EXPECT_FALSE(in_host_memory(matrix.to_sparse()));
  EXPECT_FALSE(in_host_memory(at::complex(matrix, matrix).conj()));
  EXPECT_FALSE(in_host_memory(at::imag(at::complex(matrix, matrix).conj())));  // a negation that is not yet done
}

TEST(BufferUpdates, ReachEveryBufferOfAValue) {
  for (const bool merge : {true, false}) {
    const Mesh mesh = four_devices(merge);
    const Tensor before = at::rand({7, 3}), gradient = at::rand({7, 3});
    const Tensor variable = rows_on(mesh, before), slot = rows_on(mesh, at::zeros({7, 3}));
    const auto version = variable._version();
    ASSERT_TRUE(update(variable, rows_on(mesh, gradient), slot));
    EXPECT_TRUE(at::equal(gather(variable), before - gradient / 2)) << merge;
    EXPECT_TRUE(at::equal(gather(slot), at::ones({7, 3})));
    EXPECT_GT(variable._version(), version);
  }
}

TEST(BufferUpdates, TakeAGradientInAnotherOrder) {
  const Tensor variable = at::arange(12, at::kDouble).view({3, 4}), slot = at::zeros({3, 4}, at::kDouble);
  const Tensor gradient = at::rand({4, 3}, at::kDouble).t(), expected = variable - gradient / 2;
  ASSERT_TRUE(update(variable, gradient, slot));
  EXPECT_TRUE(at::equal(variable, expected));
}

TEST(BufferUpdates, AreMadeWhereTheGradientIsTheVariable) {
  const Tensor variable = at::full({5}, 4.0), slot = at::zeros({5});
  ASSERT_TRUE(update(variable, variable, slot));
  EXPECT_TRUE(at::equal(variable, at::full({5}, 2.0)));
}

TEST(BufferUpdates, DoNothingToWhatLiesElsewhere) {
  const auto is_left = [](const Tensor& variable, const Tensor& gradient, const Tensor& slot) {
    const auto version = variable._version();
    const Tensor before = variable.clone();
    return !update(variable, gradient, slot) && variable._version() == version && at::equal(variable, before);
  };
  const Tensor some = at::ones({4, 2});
  EXPECT_TRUE(is_left(at::ones({4, 2}, at::kLong), at::ones({4, 2}, at::kLong), at::ones({4, 2}, at::kLong)));
  EXPECT_TRUE(is_left(at::ones({4, 4}).narrow(1, 0, 2), some, some));
  EXPECT_TRUE(is_left(some, at::ones({4, 2}, at::kDouble), some));
  EXPECT_TRUE(is_left(some, at::ones({2, 4}), some));
  EXPECT_TRUE(is_left(some, some, at::ones({2, 4}).t()));  // whose elements lie in another order
  std::vector<BufferUpdate> updates;
  std::vector<Tensor> copies;
  const std::vector<Tensor> too_many(kMaxUpdateSlots + 1, some);
  EXPECT_FALSE(add_buffer_updates(some, some, too_many, {.gradient_limit = kInfinity}, updates, copies));
  EXPECT_TRUE(updates.empty());
}

// Of ones.
Tensor sparse_rows(const std::vector<int64_t>& rows, at::IntArrayRef sizes, at::ScalarType dtype = at::kFloat) {
  std::vector<int64_t> of_values = sizes.vec();
  of_values[0] = static_cast<int64_t>(rows.size());
  return at::sparse_coo_tensor(at::tensor(rows, at::kLong).unsqueeze(0), at::ones(of_values, dtype), sizes).coalesce();
}

bool update_rows(const Tensor& variable, const Tensor& gradient, const Tensor& slot) {
  return update(variable, gradient, slot, add_row_updates);
}

TEST(RowUpdates, LookAtTheRowsOfTheGradientAlone) {
  const Tensor counts = at::tensor({1.0, 0.0, 0.0, 1.0, 0.0}).to(at::kFloat);
  for (const auto& sizes : {std::vector<int64_t>{5, 3}, {5}, {5, 2, 2}, {5, 0}}) {
    std::vector<int64_t> ones(sizes.size(), 1);
    ones[0] = 5;
    const Tensor expected = counts.view(ones).expand(sizes), start = at::rand(sizes);
    const Tensor gradient = sparse_rows({3, 0}, sizes);
    const Tensor plain = start.clone(), slot = at::zeros(sizes);
    ASSERT_TRUE(update_rows(plain, gradient, slot));
    EXPECT_TRUE(at::equal(slot, expected));
    EXPECT_TRUE(at::equal(plain, start - expected / 2));
    const Mesh mesh = four_devices(/*merge=*/false);
    const auto copied = [&](const Tensor& value) {
      return distribute_tensor(value, Layout(std::vector<std::string>(sizes.size(), kUnsharded), mesh));
    };
    const Tensor variable = copied(start), slots = copied(at::zeros(sizes));
    ASSERT_TRUE(update_rows(variable, gradient, slots));
    EXPECT_TRUE(at::equal(gather(slots), expected));
    EXPECT_TRUE(at::equal(gather(variable), start - expected / 2));
  }
  const Tensor none = at::rand({5, 3});
  EXPECT_TRUE(update_rows(none, sparse_rows({}, {5, 3}), at::zeros({5, 3})));
}

TEST(RowUpdates, DoNothingWhereRowsDoNotLieInARow) {
  const auto is_left = [](const Tensor& variable, const Tensor& gradient, const Tensor& slot) {
    const auto version = variable._version();
    return !update_rows(variable, gradient, slot) && variable._version() == version;
  };
  const Tensor some = at::ones({4, 4}), gradient = sparse_rows({1}, {4, 4});
  EXPECT_TRUE(is_left(some.t(), gradient, some.clone().t()));
  EXPECT_TRUE(is_left(some, gradient, some.clone().t()));
  EXPECT_TRUE(is_left(some, sparse_rows({1}, {4, 4}, at::kDouble), some.clone()));
  EXPECT_TRUE(is_left(some.to(at::kLong), gradient, some.clone()));
  const Mesh mesh = four_devices(/*merge=*/false);
  EXPECT_TRUE(is_left(rows_on(mesh, some), gradient, rows_on(mesh, some)));
}

TEST(FusedUpdate, OfSixteenBitNumbersRoundsOnce) {
  for (const at::ScalarType dtype : {at::kHalf, at::kBFloat16}) {
    const Tensor variable = at::rand({5000}).to(dtype), gradient = at::rand({5000}).to(dtype);
    const Tensor expected = (variable.to(at::kFloat) - gradient.to(at::kFloat) / 2).to(dtype);
    ASSERT_TRUE(update(variable, gradient, at::zeros({5000}, dtype)));
    EXPECT_TRUE(at::equal(variable, expected)) << dtype;
  }
}

TEST(FusedUpdate, DoesNotDependOnTheThreads) {
  const int before = at::get_num_threads();
  const Tensor start = at::rand({200000}), gradient = at::rand({200000});
  std::vector<Tensor> results;
  for (const int threads : {1, 3}) {
    at::set_num_threads(threads);
    results.push_back(start.clone());
    ASSERT_TRUE(update(results.back(), gradient, at::zeros({200000})));
  }
  at::set_num_threads(before);
  EXPECT_TRUE(at::equal(results[0], results[1]));
  EXPECT_TRUE(at::equal(results[0], start - gradient / 2));
}

TEST(Measures, FindWhatIsNotFiniteInEveryDtype) {
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16})
    for (const double value : {kInfinity, -kInfinity, std::numeric_limits<double>::quiet_NaN()}) {
      const Tensor tensor = at::ones({40001}, dtype);
      EXPECT_TRUE(all_finite(tensor));
      EXPECT_EQ(sum_of_squares(tensor), 40001);
      tensor[40000] = value;
      EXPECT_FALSE(all_finite(tensor)) << dtype << value;
      EXPECT_FALSE(std::isfinite(sum_of_squares(tensor)));
    }
}

TEST(Measures, OfAMeshTensorAreThoseOfItsValue) {
  for (const bool merge : {true, false}) {
    const Mesh mesh = four_devices(merge);
    const Tensor value = at::arange(21, at::kDouble).view({7, 3});
    EXPECT_EQ(sum_of_squares(rows_on(mesh, value)), value.square().sum().item<double>());
    EXPECT_EQ(sum_of_squares(distribute_tensor(value, Layout::replicated(mesh, 2))),
              value.square().sum().item<double>());
    const Tensor unreduced = rows_on(mesh, value).sum(0);  // its terms may not have been added up yet
    EXPECT_EQ(sum_of_squares(unreduced), value.sum(0).square().sum().item<double>());
  }
}

TEST(SlotBuffers, LieAsTheirVariablesInOneBufferADtype) {
  const Mesh mesh = four_devices(false);
  const std::vector<Tensor> variables{at::rand({3, 5}).t(), rows_on(mesh, at::rand({7, 3})), at::rand({2}, at::kDouble),
                                      at::rand({4, 8}).narrow(1, 0, 3)};
  const std::vector<double> initial{0, 0.5};
  const auto slots = make_slot_buffers(variables, initial);
  ASSERT_EQ(slots.size(), 4);
  for (size_t i = 0; i < slots.size(); ++i)
    for (size_t k = 0; k < initial.size(); ++k) {
      const Tensor& slot = slots[i][k];
      EXPECT_EQ(slot.sizes(), variables[i].sizes());
      EXPECT_EQ(slot.scalar_type(), variables[i].scalar_type());
      EXPECT_TRUE(at::equal(gather(slot), at::full(slot.sizes(), initial[k], slot.scalar_type())));
    }
  EXPECT_EQ(slots[0][0].strides(), variables[0].strides());
  EXPECT_TRUE(slots[0][0].storage().is_alias_of(slots[3][0].storage()));
  EXPECT_FALSE(slots[0][0].storage().is_alias_of(slots[0][1].storage()));
}

}  // namespace
}  // namespace tutti
