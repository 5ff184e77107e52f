#include "tutti/tensor/sum_buffers.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

namespace tutti {
namespace {

TEST(SumBuffers, AddsInOrderAndDivides) {
  BufferSum items[] = {{{at::ones({3}), at::full({3}, 2.0), at::full({3}, 6.0)}, 3}, {{at::ones({2}), at::ones({2})}}};
  sum_buffers(items);
  EXPECT_TRUE(at::equal(items[0].result, at::full({3}, 3.0)));
  EXPECT_TRUE(at::equal(items[1].result, at::full({2}, 2.0)));
}

TEST(SumBuffers, LeavesAValueThatSomebodyHoldsAsItIs) {
  const Tensor held = at::ones({4});
  BufferSum items[] = {{{held, at::ones({4})}}};
  sum_buffers(items);
  EXPECT_TRUE(at::equal(held, at::ones({4})));
  EXPECT_TRUE(at::equal(items[0].result, at::full({4}, 2.0)));
}

TEST(SumBuffers, LeavesAViewOfALargerBufferAsItIs) {
  const Tensor whole = at::ones({8});
  BufferSum items[] = {{{whole.narrow(0, 0, 4), at::ones({4})}}};
  sum_buffers(items);
  EXPECT_TRUE(at::equal(whole, at::ones({8})));
}

TEST(SumBuffers, TakesValuesOfDifferentStrides) {
  const Tensor a = at::arange(6, at::kDouble).view({2, 3});
  BufferSum items[] = {{{a.t(), at::ones({3, 2}, at::kDouble)}}};
  sum_buffers(items);
  EXPECT_TRUE(at::equal(items[0].result, a.t() + 1));
}

TEST(SumBuffers, AsksForHelpWithMuchDataOnly) {
  int calls = 0;
  const ParallelCall parallel = [&](FunctionRef<void()> function) {
    ++calls;
    function();
  };
  BufferSum small[] = {{{at::ones({100}), at::ones({100})}}};
  sum_buffers(small, parallel);
  EXPECT_EQ(calls, 0);
  BufferSum large[] = {{{at::ones({4 << 20}), at::ones({4 << 20})}}};
  sum_buffers(large, parallel);
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(large[0].result.sum().item<double>(), 2.0 * (4 << 20));
}

}  // namespace
}  // namespace tutti
