#include "tests/support/failing_pipeline.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/scalar_tensor.h>

#include <optional>
#include <vector>

#include "tutti/data/tfrecord.h"

namespace tutti::data {

void FailingPipeline::source() {
  switch (below(4)) {
    case 0:
      dataset_ = csv_dataset({files_.csv}, csv_options()).map([](const CsvRow& row) {
        return row.numbers.at("id").to(at::kDouble);
      });
      places_ = files_.in_csv;
      break;
    case 1:
      dataset_ = tfrecord_dataset({files_.records, files_.records}).map([](const Strings& record) {
        return at::scalar_tensor(std::stoll(record.item()), at::kDouble);
      });
      places_ = files_.in_records;
      places_.insert(places_.end(), files_.in_records.begin(), files_.in_records.end());
      break;
    default: {
      const int64_t size = below(24);
      dataset_ = range(size).map([](const Tensor& x) { return x.to(at::kDouble); });
      for (int64_t i = 0; i < size; ++i) places_.push_back(place_of(static_cast<double>(i)));
      fail();
    }
  }
}

void FailingPipeline::operation() {
  switch (below(20)) {
    case 0:
    case 1: return fail();
    case 2: return filter();
    case 3: return shard();
    case 4: return skip_or_take();
    case 5:
    case 6: return batched_ ? rebatch() : batch();
    case 7: return batched_ ? unbatch() : window();
    case 8:
    case 9: return zip();
    case 10: return enumerate();
    case 11:
    case 12: return interleave();
    case 13: return repeat();
    case 14: return concatenate();
    case 15: return unique();
    case 16: return scan();
    case 17:
      std::erase(places_, std::nullopt);
      dataset_ = dataset_.ignore_errors();
      return;
    case 18: dataset_ = coin() ? dataset_.cache() : dataset_.shuffle(1); return;
    default: dataset_ = dataset_.prefetch(1 + below(4));
  }
}

MapOptions FailingPipeline::on_threads() {
  const int num_threads = coin() ? 0 : 1 + static_cast<int>(below(3));
  return {.num_parallel_calls = num_threads, .seed = coin() ? std::optional(random_()) : std::nullopt};
}

void FailingPipeline::fail() {
  const uint64_t salt = random_();
  const auto function = [salt](const Tensor& x) { return at::rand({}).floor() + checked(x, salt) + 1; };
  dataset_ = dataset_.map(function, on_threads());
  fail_one_of_eight(places_, salt);
  for (Place& place : places_)
    if (place)
      for (double& value : *place) ++value;
}

void FailingPipeline::filter() {
  const uint64_t salt = random_();
  dataset_ = dataset_.filter(
      [salt](const Tensor& x) { return !is_one_of_eight(checked(x, salt).sum().item<double>(), salt + 1); });
  fail_one_of_eight(places_, salt);
  std::erase_if(places_, [&](const Place& place) { return place && is_one_of_eight(total_of(*place), salt + 1); });
}

void FailingPipeline::shard() {
  const int64_t count = 1 + below(3), index = below(count);
  dataset_ = dataset_.shard(count, index);
  places_ = shard_of(places_, count, index);
}

void FailingPipeline::skip_or_take() {
  const int64_t count = below(8);
  const auto middle = places_.begin() + std::min<std::ptrdiff_t>(count, std::ssize(places_));
  if (coin()) {
    dataset_ = dataset_.skip(count);
    places_.erase(places_.begin(), middle);
  } else {
    dataset_ = dataset_.take(count);
    places_.erase(middle, places_.end());
  }
}

void FailingPipeline::limit() {
  dataset_ = dataset_.take(kMost);
  if (places_.size() > kMost) places_.resize(kMost);
}

void FailingPipeline::batch() {
  const int64_t size = 1 + below(4);
  const bool drop = coin();
  const auto options = on_threads();
  dataset_ = coin() ? dataset_.padded_batch(size, {.drop_remainder = drop})
                    : dataset_.batch(size, {.drop_remainder = drop, .num_parallel_calls = options.num_parallel_calls});
  places_ = batches_of(places_, {static_cast<size_t>(size)}, drop);
  batched_ = true;
}

void FailingPipeline::rebatch() {
  const int64_t one = 1 + below(4), two = 1 + below(4);
  const bool drop = coin();
  dataset_ = dataset_.rebatch({one, two}, {.drop_remainder = drop});
  places_ = batches_of(places_, {static_cast<size_t>(one), static_cast<size_t>(two)}, drop);
}

void FailingPipeline::unbatch() {
  dataset_ = dataset_.unbatch();
  places_ = batches_of(places_, {1}, false);
  batched_ = false;
}

void FailingPipeline::window() {
  const int64_t size = 1 + below(3), shift = 1 + below(5), stride = 1 + below(2);
  const bool drop = coin();
  dataset_ = dataset_.window(size, {.shift = shift, .stride = stride, .drop_remainder = drop})
                 .flat_map([](const Dataset<Tensor>& window) { return window.batch(100); });
  places_ = windows_of(places_, size, shift, stride, drop);
  batched_ = true;
  limit();
}

void FailingPipeline::zip() {
  const FailingPipeline other(random_(), files_);
  dataset_ = data::zip(dataset_, other.dataset_).map([](const Tensor& x, const Tensor& y) { return x + y.sum(); });
  places_ = sums_of_pairs(places_, other.places_);
}

void FailingPipeline::enumerate() {
  const int64_t start = below(5);
  dataset_ = dataset_.enumerate(start).map([](const Tensor& index, const Tensor& x) { return x + index; });
  add_numbers(places_, start);
}

void FailingPipeline::interleave() {
  const InterleaveOptions options{.cycle_length = 1 + below(3),
                                  .block_length = 1 + below(2),
                                  .num_parallel_calls = on_threads().num_parallel_calls};
  const uint64_t salt = random_();
  const auto make = [salt](const Tensor& x) {
    const auto total = checked(x, salt).sum().item<int64_t>();
    return range(total, end_of_made(total)).map([salt](const Tensor& y) {
      return checked(y, salt + 1).to(at::kDouble);
    });
  };
  dataset_ = dataset_.interleave(make, options);
  places_ = in_turn(places_, static_cast<size_t>(options.cycle_length), options.block_length, salt);
  batched_ = false;
  limit();
}

void FailingPipeline::repeat() {
  const int64_t count = 1 + below(3);
  dataset_ = dataset_.repeat(count);
  const Places once = places_;
  for (int64_t i = 1; i < count; ++i) places_.insert(places_.end(), once.begin(), once.end());
  limit();
}

void FailingPipeline::concatenate() {
  const FailingPipeline other(random_(), files_);
  if (other.batched_ != batched_) return;
  dataset_ = dataset_.concatenate(other.dataset_);
  places_.insert(places_.end(), other.places_.begin(), other.places_.end());
  limit();
}

void FailingPipeline::unique() {
  dataset_ = dataset_.unique();
  keep_first_of_equal(places_);
}

void FailingPipeline::scan() {
  const uint64_t salt = random_();
  dataset_ = dataset_.scan(at::scalar_tensor(0, at::kDouble), [salt](const Tensor& state, const Tensor& x) {
    const Tensor total = state + checked(x, salt).sum();
    return std::pair(total, x + total);
  });
  fail_one_of_eight(places_, salt);
  add_running_total(places_);
}

}  // namespace tutti::data
