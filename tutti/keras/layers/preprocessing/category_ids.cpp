#include "tutti/keras/layers/preprocessing/category_ids.h"

#include <ATen/ops/full.h>

#include <algorithm>
#include <utility>

#include "tutti/core/error.h"
#include "tutti/core/fingerprint64.h"
#include "tutti/core/str.h"
#include "tutti/tensor/call_recorder.h"

namespace tutti::keras::layers {
namespace {

constexpr int64_t kMaxCrossed = int64_t{1} << 27;

[[noreturn]] void refuse_column(const std::string& column, const std::string& what,
                                ErrorCode code = ErrorCode::invalid_argument) {
  throw Error(code, str("feature column '", column, "': ", what));
}

int64_t bucket_of(std::string_view text, int64_t num_buckets) {
  return static_cast<int64_t>(fingerprint64(text) % static_cast<uint64_t>(num_buckets));
}

// One hash of two. TF: FingerprintCat64.
uint64_t joined(uint64_t first, uint64_t second) {
  constexpr uint64_t kMultiplier = 0xc6a4a7935bd1e995;
  const auto shift_mix = [](uint64_t value) { return value ^ (value >> 47); };
  uint64_t hash = first ^ kMultiplier;
  hash ^= shift_mix(second * kMultiplier) * kMultiplier;
  hash *= kMultiplier;
  return shift_mix(shift_mix(hash) * kMultiplier);
}

Tensor host_integers(const Tensor& integers, const std::string& column) {
  if (!integers.defined() || !at::isIntegralType(integers.scalar_type(), /*includeBool=*/false))
    refuse_column(column, "its input is no integers");
  reads_memory("a feature column");
  return integers.detach().cpu().to(at::kLong).contiguous();
}

// The values of a feature by examples.
class CategoryValues {
 public:
  CategoryValues(const TensorOrText& given, const TensorOrText* lengths, const std::string& column) {
    at::IntArrayRef shape;
    if (const auto* const text = std::get_if<Strings>(&given)) {
      text_ = *text;
      shape = text_.shape();
    } else {
      integers_ = host_integers(std::get<Tensor>(given), column);
      shape = integers_.sizes();
    }
    if (shape.empty()) refuse_column(column, "a feature is a scalar; a batch has the shape [batch] or [batch, n]");
    for (const int64_t size : shape.slice(1)) num_places_ *= size;
    lengths_.assign(static_cast<size_t>(shape[0]), num_places_);
    if (lengths) take_lengths(*lengths, column);
  }

  bool is_text() const { return !integers_.defined(); }
  int64_t num_rows() const { return static_cast<int64_t>(lengths_.size()); }
  int64_t num_places() const { return num_places_; }
  // f(row, place, value) of each value within the lengths.
  template <class F>
  void for_each(const F& f) const {
    const std::string* const text = is_text() ? text_.values().data() : nullptr;
    const int64_t* const integers = is_text() ? nullptr : integers_.const_data_ptr<int64_t>();
    for (int64_t row = 0; row < num_rows(); ++row)
      for (int64_t place = 0; place < lengths_[static_cast<size_t>(row)]; ++place) {
        const int64_t at = row * num_places_ + place;
        if (text)
          f(row, place, std::string_view(text[at]));
        else
          f(row, place, integers[at]);
      }
  }

 private:
  void take_lengths(const TensorOrText& given, const std::string& column) {
    if (!std::holds_alternative<Tensor>(given)) refuse_column(column, "the lengths of its feature are text");
    const Tensor host = host_integers(std::get<Tensor>(given), column);
    if (host.numel() != num_rows())
      refuse_column(column, str("its feature has ", num_rows(), " rows and ", host.numel(), " lengths"));
    std::copy_n(host.const_data_ptr<int64_t>(), lengths_.size(), lengths_.begin());
    for (const int64_t length : lengths_)
      if (length < 0 || length > num_places_)
        refuse_column(column, str("a row of its feature has the length ", length, "; there are ", num_places_,
                                  " places in each"));
  }

  Strings text_;
  Tensor integers_;
  int64_t num_places_ = 1;
  std::vector<int64_t> lengths_;  // how many values each row has
};

bool is_missing(std::string_view value) { return value.empty(); }
bool is_missing(int64_t value) { return value == -1; }

uint64_t key_hash(std::string_view text) { return fingerprint64(text); }
uint64_t key_hash(int64_t number) { return static_cast<uint64_t>(number); }

// The hashes of one key's values, example by example.
using HashRows = std::vector<std::vector<uint64_t>>;

HashRows hash_rows(const CategoryValues& values, bool are_ids) {
  HashRows rows(static_cast<size_t>(values.num_rows()));
  values.for_each([&](int64_t row, int64_t, const auto& value) {
    if constexpr (std::is_same_v<std::decay_t<decltype(value)>, int64_t>)
      if (are_ids && value == kNoCategory) return;
    rows[static_cast<size_t>(row)].push_back(key_hash(value));
  });
  return rows;
}

// How many ids the example with the most of them has.
int64_t most_combinations(const std::vector<HashRows>& keys, const std::string& column) {
  int64_t most = 0;
  const auto num_rows = static_cast<int64_t>(keys[0].size());
  for (int64_t row = 0; row < num_rows; ++row) {
    int64_t count = 1, cells = 0;
    for (const HashRows& key : keys)
      if (__builtin_mul_overflow(count, static_cast<int64_t>(key[static_cast<size_t>(row)].size()), &count) ||
          __builtin_mul_overflow(count, num_rows, &cells) || cells > kMaxCrossed)
        refuse_column(column,
                      str("example ", row, " of ", num_rows, " has more combinations than ", kMaxCrossed,
                          " over the number of examples; cross features of fewer values"),
                      ErrorCode::resource_exhausted);
    most = std::max(most, count);
  }
  return most;
}

}  // namespace

CategoryIds::CategoryIds(CategoryIdsOptions options) : options_(std::move(options)) {
  const auto refuse = [this](const std::string& what) { refuse_column(options_.column, what); };
  const int64_t buckets = options_.num_buckets;
  if (options_.kind == CategoryIdsOptions::Kind::vocabulary) {
    if (!options_.vocabulary || options_.vocabulary->empty()) refuse("the vocabulary is empty");
    for (const std::string& word : *options_.vocabulary)
      if (!words_.try_emplace(word, static_cast<int64_t>(words_.size())).second)
        refuse(str("the vocabulary has '", word, "' twice"));
    const int64_t default_value = options_.default_value.value_or(-1);
    const auto num_words = static_cast<int64_t>(words_.size());
    if (buckets < 0) refuse(str("num_oov_buckets is ", buckets, ", below 0"));
    if (buckets > 0 && default_value != -1)
      refuse("num_oov_buckets and default_value are given, and only one of them can say what an unknown value is");
    if (default_value < -1 || default_value >= num_words)
      refuse(str("default_value is ", default_value, "; it is -1 or the id of one of ", num_words, " values"));
    return;
  }
  const bool is_hash = options_.kind == CategoryIdsOptions::Kind::hash;
  if (buckets < 1) refuse(str(is_hash ? "hash_bucket_size" : "num_buckets", " is ", buckets, "; it is at least 1"));
  if (!is_hash && options_.is_text) refuse("text cannot be ids; give the column integers");
  if (options_.default_value && (*options_.default_value < 0 || *options_.default_value >= buckets))
    refuse(str("default_value is ", *options_.default_value, ", not one of [0, ", buckets, ')'));
}

int64_t CategoryIds::num_buckets() const { return static_cast<int64_t>(words_.size()) + options_.num_buckets; }

int64_t CategoryIds::id_of(std::string_view value) const {
  if (options_.kind == CategoryIdsOptions::Kind::hash) return bucket_of(value, options_.num_buckets);
  if (const auto found = words_.find(value); found != words_.end()) return found->second;
  if (options_.num_buckets == 0) return options_.default_value.value_or(-1);
  return static_cast<int64_t>(words_.size()) + bucket_of(value, options_.num_buckets);
}

int64_t CategoryIds::id_of(int64_t value) const {
  if (options_.kind != CategoryIdsOptions::Kind::identity) return id_of(std::to_string(value));
  if (options_.default_value && (value < 0 || value >= options_.num_buckets)) return *options_.default_value;
  return value;
}

Tensor CategoryIds::operator()(const std::vector<TensorOrText>& inputs) const {
  if (const bool is_text = std::holds_alternative<Strings>(inputs.at(0)); is_text != options_.is_text)
    refuse_column(options_.column, str("the feature '", options_.feature, "' is ", is_text ? "text" : "integers",
                                       ", and the column is of ", is_text ? "integers" : "text"));
  if (StepRecorder* const recorder = StepRecorder::current()) {
    CategoryIdsOptions options = options_;
    options.has_lengths = inputs.size() == 2;
    return std::get<Tensor>(recorder->step(std::move(options), inputs));
  }
  const CategoryValues values(inputs.at(0), inputs.size() > 1 ? &inputs[1] : nullptr, options_.column);
  Tensor ids = at::full({values.num_rows(), values.num_places()}, kNoCategory, at::kLong);
  auto* const made = ids.mutable_data_ptr<int64_t>();
  values.for_each([&](int64_t row, int64_t place, const auto& value) {
    if (is_missing(value)) return;
    const int64_t id = id_of(value);
    if (options_.refused_from && id >= *options_.refused_from)
      refuse_column(options_.column, str("category ", id, " is not one of [0, ", *options_.refused_from, ')'),
                    ErrorCode::out_of_range);
    made[row * values.num_places() + place] = id;
  });
  return ids;
}

CrossedIds::CrossedIds(CrossedIdsOptions options) : options_(std::move(options)) {
  if (options_.keys.size() < 2)
    refuse_column(options_.column,
                  str("there ", options_.keys.empty() ? "are 0 keys" : "is 1 key", "; two or more are crossed"));
  if (options_.hash_bucket_size < 1)
    refuse_column(options_.column, str("hash_bucket_size is ", options_.hash_bucket_size, "; it is at least 1"));
}

size_t CrossedIds::num_inputs() const {
  return options_.keys.size() +
         static_cast<size_t>(std::ranges::count(options_.keys, CrossedIdsOptions::Key::feature_with_lengths));
}

Tensor CrossedIds::operator()(const std::vector<TensorOrText>& inputs) const {
  if (StepRecorder* const recorder = StepRecorder::current()) return std::get<Tensor>(recorder->step(options_, inputs));
  std::vector<HashRows> keys;
  size_t next = 0;
  for (const auto key : options_.keys) {
    const TensorOrText& given = inputs.at(next++);
    const bool has_lengths = key == CrossedIdsOptions::Key::feature_with_lengths;
    const CategoryValues values(given, has_lengths ? &inputs.at(next++) : nullptr, options_.column);
    keys.push_back(hash_rows(values, key == CrossedIdsOptions::Key::ids));
    if (keys.back().size() != keys[0].size())
      refuse_column(options_.column,
                    str("its keys have ", keys[0].size(), " and ", keys.back().size(), " examples in one batch"));
  }
  const int64_t num_places = most_combinations(keys, options_.column);
  Tensor ids = at::full({static_cast<int64_t>(keys[0].size()), num_places}, kNoCategory, at::kLong);
  auto* const made = ids.mutable_data_ptr<int64_t>();
  for (size_t row = 0; row < keys[0].size(); ++row) {
    std::vector<uint64_t> hashes{options_.hash_key};
    for (const HashRows& key : keys) {
      std::vector<uint64_t> longer;
      longer.reserve(hashes.size() * key[row].size());
      for (const uint64_t hash : hashes)
        for (const uint64_t value : key[row]) longer.push_back(joined(hash, value));
      hashes = std::move(longer);
    }
    for (size_t i = 0; i < hashes.size(); ++i)
      made[static_cast<int64_t>(row) * num_places + static_cast<int64_t>(i)] =
          static_cast<int64_t>(hashes[i] % static_cast<uint64_t>(options_.hash_bucket_size));
  }
  return ids;
}

}  // namespace tutti::keras::layers
