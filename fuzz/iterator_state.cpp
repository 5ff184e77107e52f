// States of iterators: whatever the bytes are, they are restored or refused as damaged or of another dataset, and
// what was restored gives elements or an error. The first byte chooses the dataset.
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/from_blob.h>

#include <array>
#include <functional>

#include "tutti/core/error.h"
#include "tutti/data/dataset.h"

namespace tutti::data {
namespace {

constexpr int kMaxElements = 100;

Dataset<Tensor> rows() { return from_tensor_slices(at::arange(12).view({6, 2})); }
Tensor increased(const Tensor& x) { return x + 1; }

const std::array<std::function<Dataset<Tensor>()>, 6> kDatasets{
    [] { return rows().shuffle(4, {.seed = 1}).repeat(2).batch(3).skip(1); },
    [] { return rows().cache().shuffle(3, {.seed = 1}).prefetch(2).unbatch(); },
    [] {
      return rows().map(increased, {.num_parallel_calls = 2}).rebatch({1, 0, 2}).padded_batch(2);
    },
    [] { return rows().interleave([](const Tensor& x) { return from_tensor_slices(x).repeat(2); }).shard(2, 1); },
    [] {
      return zip(rows(), range(9).concatenate(range(3)).take(8)).map([](const Tensor& x, const Tensor& y) {
        return x + y;
      });
    },
    [] {
      const auto texts = from_tensor_slices(Strings({"a", "bc", "", "d"}, {4})).shuffle(2, {.seed = 1}).enumerate();
      return texts.cache().batch(3).map([](const Tensor& i, const Strings& text) { return i + text.size(); });
    },
};

}  // namespace
}  // namespace tutti::data

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tutti;
  if (size == 0) return 0;
  auto iterator = data::kDatasets.at(data[0] % data::kDatasets.size())().begin();
  const Tensor state = at::from_blob(const_cast<uint8_t*>(data + 1), {static_cast<int64_t>(size) - 1}, at::kByte);
  try {
    iterator.restore_state(state.clone());
  } catch (const Error& error) {
    if (error.code() != ErrorCode::data_loss && error.code() != ErrorCode::failed_precondition) throw;
    return 0;
  }
  try {
    for (int i = 0; i < data::kMaxElements && iterator != std::default_sentinel; ++i) ++iterator;
  } catch (const std::exception&) {
    // batches of values that do not belong together
  }
  return 0;
}
