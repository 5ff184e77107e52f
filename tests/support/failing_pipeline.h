#pragma once

#include <cstdint>
#include <filesystem>
#include <random>
#include <stdexcept>

#include "tests/support/failing_places.h"
#include "tutti/data/csv_dataset.h"
#include "tutti/data/dataset.h"

namespace tutti::data {

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
  static Tensor checked(const Tensor& x, uint64_t salt) {
    if (is_one_of_eight(x.sum().item<double>(), salt)) throw std::domain_error("one of eight");
    return x;
  }

  void source();
  void operation();
  MapOptions on_threads();
  void fail();
  void filter();
  void shard();
  void skip_or_take();
  void limit();
  void batch();
  void rebatch();
  void unbatch();
  void window();
  void zip();
  void enumerate();
  // The function fails for some elements, and the datasets that it makes at some of theirs.
  void interleave();
  void repeat();
  void concatenate();
  void unique();
  // Sums, up to elements that fail.
  void scan();

  std::mt19937_64 random_;
  const FailingFiles& files_;
  Dataset<Tensor> dataset_;
  Places places_;
  bool batched_ = false;
};

}  // namespace tutti::data
