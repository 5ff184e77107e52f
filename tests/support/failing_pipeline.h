#pragma once

#include <ATen/TensorOperators.h>
#include <ATen/ops/scalar_tensor.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <random>
#include <set>
#include <stdexcept>
#include <vector>

#include "tests/support/dataset_values.h"
#include "tutti/data/csv_dataset.h"
#include "tutti/data/dataset.h"
#include "tutti/data/graph/random.h"
#include "tutti/data/tfrecord.h"

namespace tutti::data {

// What a pass gives, place by place: numbers, or an error.
using Place = std::optional<std::vector<double>>;
using Places = std::vector<Place>;
inline Place place_of(double number) { return std::vector<double>{number}; }

// Files in which some records are damaged, and what they hold.
struct FailingFiles {
  std::filesystem::path csv, records;
  Places in_csv, in_records;
};

// Not inferred: the damaged fields would make all of them text.
inline CsvOptions csv_options() { return {.record_defaults = {CsvType::int64, CsvType::string}}; }

// Datasets made of random operations on functions and files that fail here and there, each with what it must give by
// the rule that an error takes the place of one element. The same seed makes the same.
class FailingPipeline {
 public:
  FailingPipeline(uint64_t seed, const FailingFiles& files) : random_(seed), files_(files) {
    source();
    for (int64_t left = 1 + below(5); left > 0; --left) operation();
  }

  const Dataset<Tensor>& dataset() const { return dataset_; }
  const Places& places() const { return places_; }

 private:
  static constexpr size_t kMost = 40;

  int64_t below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }
  bool coin() { return below(2) == 0; }
  static double sum(const std::vector<double>& values) {
    double total = 0;
    for (const double value : values) total += value;
    return total;
  }
  static bool is_one_of_eight(double sum, uint64_t salt) {
    return graph::SplitMix64(static_cast<uint64_t>(static_cast<int64_t>(sum)) ^ salt).next() % 8 == 0;
  }
  static Tensor checked(const Tensor& x, uint64_t salt) {
    if (is_one_of_eight(x.sum().item<double>(), salt)) throw std::domain_error("one of eight");
    return x;
  }

  void source() {
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

  void operation() {
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

  MapOptions on_threads() { return {.num_parallel_calls = coin() ? 0 : 1 + static_cast<int>(below(3))}; }

  void fail() {
    const uint64_t salt = random_();
    dataset_ = dataset_.map([salt](const Tensor& x) { return checked(x, salt) + 1; }, on_threads());
    for (Place& place : places_) {
      if (place && is_one_of_eight(sum(*place), salt)) place.reset();
      if (place)
        for (double& value : *place) ++value;
    }
  }

  void filter() {
    const uint64_t salt = random_();
    dataset_ = dataset_.filter(
        [salt](const Tensor& x) { return !is_one_of_eight(checked(x, salt).sum().item<double>(), salt + 1); });
    for (Place& place : places_)
      if (place && is_one_of_eight(sum(*place), salt)) place.reset();
    std::erase_if(places_, [&](const Place& place) { return place && is_one_of_eight(sum(*place), salt + 1); });
  }

  void shard() {
    const int64_t count = 1 + below(3), index = below(count);
    dataset_ = dataset_.shard(count, index);
    Places own;
    for (auto i = static_cast<size_t>(index); i < places_.size(); i += static_cast<size_t>(count))
      own.push_back(places_[i]);
    places_ = std::move(own);
  }

  void skip_or_take() {
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

  void limit() {
    dataset_ = dataset_.take(kMost);
    if (places_.size() > kMost) places_.resize(kMost);
  }

  // Rows, cut into batches of these sizes; errors come at once.
  static Places cut(const Places& rows, const std::vector<size_t>& sizes, bool drop_remainder) {
    Places batches;
    std::vector<double> batch;
    size_t slot = 0;
    for (const Place& place : rows) {
      if (!place) batches.emplace_back();
      if (!place) continue;
      for (const double row : *place) {
        batch.push_back(row);
        if (batch.size() < sizes[slot]) continue;
        batches.emplace_back(std::exchange(batch, {}));
        slot = (slot + 1) % sizes.size();
      }
    }
    if (!batch.empty() && !drop_remainder) batches.emplace_back(batch);
    return batches;
  }

  void batch() {
    const int64_t size = 1 + below(4);
    const bool drop = coin();
    const auto options = on_threads();
    dataset_ = coin()
                   ? dataset_.padded_batch(size, {.drop_remainder = drop})
                   : dataset_.batch(size, {.drop_remainder = drop, .num_parallel_calls = options.num_parallel_calls});
    places_ = cut(places_, {static_cast<size_t>(size)}, drop);
    batched_ = true;
  }

  void rebatch() {
    const int64_t one = 1 + below(4), two = 1 + below(4);
    const bool drop = coin();
    dataset_ = dataset_.rebatch({one, two}, {.drop_remainder = drop});
    places_ = cut(places_, {static_cast<size_t>(one), static_cast<size_t>(two)}, drop);
  }

  void unbatch() {
    dataset_ = dataset_.unbatch();
    places_ = cut(places_, {1}, false);
    batched_ = false;
  }

  void window() {
    const int64_t size = 1 + below(3), shift = 1 + below(5), stride = 1 + below(2);
    const bool drop = coin();
    dataset_ = dataset_.window(size, {.shift = shift, .stride = stride, .drop_remainder = drop})
                   .flat_map([](const Dataset<Tensor>& window) { return window.batch(100); });
    const size_t span = static_cast<size_t>((size - 1) * stride + 1);
    Places windows;
    std::vector<double> kept;
    size_t to_skip = 0, at = 0;
    while (true) {
      at = std::min(at + to_skip, places_.size());
      for (; kept.size() < span && at < places_.size(); ++at) {
        if (places_[at])
          kept.push_back(places_[at]->front());
        else
          windows.emplace_back();
      }
      if (kept.empty() || (drop && kept.size() < span)) break;
      std::vector<double> one;
      for (size_t i = 0; i < kept.size(); i += static_cast<size_t>(stride)) one.push_back(kept[i]);
      windows.emplace_back(one);
      const size_t done = std::min(static_cast<size_t>(shift), kept.size());
      kept.erase(kept.begin(), kept.begin() + static_cast<std::ptrdiff_t>(done));
      to_skip = static_cast<size_t>(shift) - done;
    }
    places_ = std::move(windows);
    batched_ = true;
    limit();
  }

  void zip() {
    const FailingPipeline other(random_(), files_);
    dataset_ = data::zip(dataset_, other.dataset_).map([](const Tensor& x, const Tensor& y) { return x + y.sum(); });
    Places pairs;
    for (size_t i = 0; i < places_.size(); ++i) {
      const bool ends = i >= other.places_.size();
      if (ends && places_[i]) break;
      pairs.emplace_back();
      if (ends) break;
      if (!places_[i] || !other.places_[i]) continue;
      pairs.back() = places_[i];
      for (double& value : *pairs.back()) value += sum(*other.places_[i]);
    }
    places_ = std::move(pairs);
  }

  void enumerate() {
    const int64_t start = below(5);
    dataset_ = dataset_.enumerate(start).map([](const Tensor& index, const Tensor& x) { return x + index; });
    for (size_t i = 0; i < places_.size(); ++i)
      if (places_[i])
        for (double& value : *places_[i]) value += static_cast<double>(static_cast<size_t>(start) + i);
  }

  // The function fails for some elements, and the datasets that it makes at some of theirs.
  void interleave() {
    const InterleaveOptions options{.cycle_length = 1 + below(3),
                                    .block_length = 1 + below(2),
                                    .num_parallel_calls = on_threads().num_parallel_calls};
    const uint64_t salt = random_();
    const auto make = [salt](const Tensor& x) {
      const auto total = checked(x, salt).sum().item<int64_t>();
      return range(total, total + (total & 3)).map([salt](const Tensor& y) {
        return checked(y, salt + 1).to(at::kDouble);
      });
    };
    const auto made = [salt](const std::vector<double>& values) {
      Places inner;
      const auto total = static_cast<int64_t>(sum(values));
      for (int64_t i = total; i < total + (total & 3); ++i) {
        inner.push_back(place_of(static_cast<double>(i)));
        if (is_one_of_eight(static_cast<double>(i), salt + 1)) inner.back().reset();
      }
      return inner;
    };
    dataset_ = dataset_.interleave(make, options);
    places_ = in_turn(options, made, salt);
    batched_ = false;
    limit();
  }

  template <class Make>
  Places in_turn(const InterleaveOptions& options, const Make& made, uint64_t salt) const {
    struct Open {
      Places places;
      size_t next = 0;
    };
    std::vector<std::optional<Open>> cycle(static_cast<size_t>(options.cycle_length));
    Places out;
    size_t slot = 0, next = 0;
    int64_t taken = 0;
    const auto move_on = [&] {
      slot = (slot + 1) % cycle.size();
      taken = 0;
    };
    for (size_t empty = 0; empty < cycle.size();) {
      auto& open = cycle[slot];
      if (!open && next < places_.size()) {
        const Place& place = places_[next++];
        empty = 0;
        if (!place || is_one_of_eight(sum(*place), salt)) {
          out.emplace_back();
          continue;
        }
        open = Open{made(*place)};
      }
      if (!open) {
        ++empty;
        move_on();
      } else if (open->next < open->places.size()) {
        out.push_back(open->places[open->next++]);
        if (out.back() && ++taken == options.block_length) move_on();
        empty = 0;
      } else {
        open.reset();
        empty = 0;
        move_on();
      }
    }
    return out;
  }

  void repeat() {
    const int64_t count = 1 + below(3);
    dataset_ = dataset_.repeat(count);
    const Places once = places_;
    for (int64_t i = 1; i < count; ++i) places_.insert(places_.end(), once.begin(), once.end());
    limit();
  }

  void concatenate() {
    const FailingPipeline other(random_(), files_);
    if (other.batched_ != batched_) return;
    dataset_ = dataset_.concatenate(other.dataset_);
    places_.insert(places_.end(), other.places_.begin(), other.places_.end());
    limit();
  }

  void unique() {
    dataset_ = dataset_.unique();
    std::set<std::vector<double>> seen;
    std::erase_if(places_, [&](const Place& place) { return place && !seen.insert(*place).second; });
  }

  // Sums, up to elements that fail.
  void scan() {
    const uint64_t salt = random_();
    dataset_ = dataset_.scan(at::scalar_tensor(0, at::kDouble), [salt](const Tensor& state, const Tensor& x) {
      const Tensor total = state + checked(x, salt).sum();
      return std::pair(total, x + total);
    });
    double total = 0;
    for (Place& place : places_) {
      if (place && is_one_of_eight(sum(*place), salt)) place.reset();
      if (!place) continue;
      total += sum(*place);
      for (double& value : *place) value += total;
    }
  }

  std::mt19937_64 random_;
  const FailingFiles& files_;
  Dataset<Tensor> dataset_;
  Places places_;
  bool batched_ = false;
};

}  // namespace tutti::data
