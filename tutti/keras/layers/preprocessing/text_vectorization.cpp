#include "tutti/keras/layers/preprocessing/text_vectorization.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <span>

#include "tutti/core/error.h"
#include "tutti/core/function_ref.h"
#include "tutti/core/str.h"
#include "tutti/keras/layers/preprocessing/encode_ids_internal.h"
#include "tutti/keras/layers/preprocessing/step_recorder.h"
#include "tutti/keras/layers/preprocessing/token_counts_internal.h"
#include "tutti/keras/layers/preprocessing/tokenizer_internal.h"
#include "tutti/keras/layers/preprocessing/vocabulary_internal.h"
#include "tutti/tensor/parallel_ranges.h"

namespace tutti::keras::layers {
namespace {

using Tokens = std::span<const std::string_view>;

[[noreturn]] void refuse_vectorization(const std::string& message, ErrorCode code = ErrorCode::invalid_argument) {
  throw Error(code, "TextVectorization: " + message);
}

void check(const TextVectorizationOptions& options) {
  const auto length = options.output_sequence_length;
  if (options.output_mode == OutputMode::one_hot)
    refuse_vectorization("OutputMode::one_hot is for layers whose input is ids or tokens; StringLookup has it");
  if (length && options.output_mode != OutputMode::int_)
    refuse_vectorization(
        "output_sequence_length is for OutputMode::int_; the other modes have a column for each token");
  if (length && *length < 0) refuse_vectorization(str("output_sequence_length ", *length, "; it must not be negative"));
  if (!options.idf_weights.empty() && !options.vocabulary)
    refuse_vectorization("idf_weights without a vocabulary; give both, or neither and call adapt()");
}

// How texts stand in rows of tokens.
struct Rows {
  std::vector<int64_t> shape;  // of the rows: of the result without its last axis
  int64_t count;
  size_t width;  // texts in a row

  std::span<const std::string> texts(const Strings& text, int64_t row) const {
    return text.values().subspan(static_cast<size_t>(row) * width, width);
  }
};

// Some milliseconds of work: less is done sooner on the caller's thread, whose batch is one of many for other threads.
int64_t rows_worth_a_thread(const Strings& text, const Rows& rows) {
  constexpr int64_t kBytes = 256 * 1024;
  int64_t num_bytes = 1;
  for (const std::string& value : text.values()) num_bytes += static_cast<int64_t>(value.size());
  return 1 + rows.count * kBytes / num_bytes;
}

VocabularyOptions vocabulary_options(const TextVectorizationOptions& options) {
  return {.layer = "TextVectorization",
          .mode = options.output_mode,
          .max_tokens = options.max_tokens,
          .pad_to_max_tokens = options.pad_to_max_tokens,
          .mask_token = ""};
}

}  // namespace

class TextVectorization::Impl {
 public:
  explicit Impl(const TextVectorizationOptions& options) : options_(options), vocabulary_(vocabulary_options(options)) {
    check(options_);
    if (options_.vocabulary) vocabulary_.set(*options_.vocabulary, options_.idf_weights);
  }

  Vocabulary& vocabulary() { return vocabulary_; }
  const Vocabulary& known_vocabulary() const;
  OutputMode mode() const { return options_.output_mode; }
  TextVectorizationOptions options_as_they_are() const;

  void reset() { counts_ = {}; }
  void update(const Strings& batch);
  void finalize();

  // The ids of each row.
  std::vector<std::vector<int64_t>> id_rows(const Strings& text) const;
  Tensor ids(const Strings& text) const;
  Tensor counts(const Strings& text) const;
  Tensor weighted_counts(const Strings& text) const;

 private:
  bool texts_are_tokens() const;
  Rows rows_of(const Strings& text) const;
  // The shape of counts, one row of columns for each of `rows`.
  std::vector<int64_t> shape_of_counts(const Rows& rows) const;
  // Calls f for each row, for many on several threads.
  void for_each_row(const Strings& text, const Rows& rows, FunctionRef<void(int64_t row, Tokens tokens)> f) const;

  TextVectorizationOptions options_;
  Vocabulary vocabulary_;
  TokenCounts counts_;  // of the adaptation under way
};

const Vocabulary& TextVectorization::Impl::known_vocabulary() const {
  vocabulary_.require_known();
  return vocabulary_;
}

TextVectorizationOptions TextVectorization::Impl::options_as_they_are() const {
  TextVectorizationOptions options = options_;
  options.vocabulary = known_vocabulary().tokens(/*include_special_tokens=*/true);
  options.idf_weights = known_vocabulary().idf_weights();
  return options;
}

bool TextVectorization::Impl::texts_are_tokens() const {
  const auto* split = std::get_if<Split>(&options_.split);
  return split && *split == Split::none;
}

// A text that is split is a row; texts that are tokens stand in rows along the last axis.
Rows TextVectorization::Impl::rows_of(const Strings& text) const {
  Rows rows{.shape = text.shape(), .count = 0, .width = 1};
  if (text.rank() > (texts_are_tokens() ? 0 : 1)) {
    rows.width = static_cast<size_t>(rows.shape.back());
    rows.shape.pop_back();
    if (!texts_are_tokens() && rows.width != 1)
      refuse_vectorization(
          str("text of shape ", str_list(text.shape()), "; with more than one axis the last must be of size 1"));
  }
  if (mode() != OutputMode::int_ && rows.shape.size() > 1)
    refuse_vectorization(str("text of shape ", str_list(text.shape()),
                             " has rows along more than one axis, which only ", "OutputMode::int_ takes; reshape it"));
  rows.count = std::accumulate(rows.shape.begin(), rows.shape.end(), int64_t{1}, std::multiplies());
  return rows;
}

void TextVectorization::Impl::update(const Strings& batch) {
  if (options_.vocabulary)
    refuse_vectorization("adapt() would replace the vocabulary of the options; give none, or call set_vocabulary()");
  const Rows rows = rows_of(batch);
  Tokenizer tokenizer(options_);
  for (int64_t row = 0; row < rows.count; ++row) counts_.add_document(tokenizer(rows.texts(batch, row)));
}

void TextVectorization::Impl::finalize() {
  vocabulary_.learn(counts_);
  reset();
}

void TextVectorization::Impl::for_each_row(const Strings& text, const Rows& rows,
                                           FunctionRef<void(int64_t row, Tokens tokens)> f) const {
  parallel_ranges(rows.count, rows_worth_a_thread(text, rows), [&](int64_t begin, int64_t end) {
    Tokenizer tokenizer(options_);
    for (int64_t row = begin; row < end; ++row) f(row, tokenizer(rows.texts(text, row)));
  });
}

std::vector<std::vector<int64_t>> TextVectorization::Impl::id_rows(const Strings& text) const {
  const Vocabulary& vocabulary = known_vocabulary();
  const Rows rows = rows_of(text);
  const auto longest = static_cast<size_t>(options_.output_sequence_length.value_or(INT64_MAX));
  std::vector<std::vector<int64_t>> ids(static_cast<size_t>(rows.count));
  for_each_row(text, rows, [&](int64_t row, Tokens tokens) {
    const Tokens kept = tokens.first(std::min(longest, tokens.size()));
    std::ranges::transform(kept, std::back_inserter(ids[static_cast<size_t>(row)]),
                           [&](std::string_view token) { return vocabulary.id(token); });
  });
  return ids;
}

Tensor TextVectorization::Impl::ids(const Strings& text) const {
  const auto rows = id_rows(text);
  size_t longest = 0;
  for (const auto& row : rows) longest = std::max(longest, row.size());
  const int64_t length = options_.output_sequence_length.value_or(static_cast<int64_t>(longest));
  std::vector<int64_t> shape = rows_of(text).shape;
  shape.push_back(length);
  const Tensor result = at::empty(shape, at::kLong);
  auto* out = result.mutable_data_ptr<int64_t>();
  for (const auto& row : rows)
    out = std::fill_n(std::ranges::copy(row, out).out, length - static_cast<int64_t>(row.size()), 0);
  const bool is_one_token = text.rank() == 0 && texts_are_tokens() && options_.ngrams.widths().empty();
  return is_one_token && !options_.output_sequence_length ? result[0] : result;
}

std::vector<int64_t> TextVectorization::Impl::shape_of_counts(const Rows& rows) const {
  std::vector<int64_t> shape = rows.shape;
  shape.push_back(vocabulary_.num_columns());
  return shape;
}

Tensor TextVectorization::Impl::counts(const Strings& text) const {
  const Vocabulary& vocabulary = known_vocabulary();
  const Rows rows = rows_of(text);
  const bool only_whether = mode() == OutputMode::multi_hot;
  const Tensor result = at::empty(shape_of_counts(rows), at::kLong);
  auto* out = result.mutable_data_ptr<int64_t>();
  for_each_row(text, rows, [&](int64_t row, Tokens tokens) {
    int64_t* columns = out + row * vocabulary_.num_columns();
    std::fill_n(columns, vocabulary_.num_columns(), 0);
    for (const std::string_view token : tokens) {
      const int64_t id = vocabulary.id(token);
      if (id != kNoId) columns[id] = only_whether ? 1 : columns[id] + 1;
    }
  });
  return result;
}

Tensor TextVectorization::Impl::weighted_counts(const Strings& text) const {
  const Vocabulary& vocabulary = known_vocabulary();
  const std::vector<float>& weights = vocabulary.idf_weights();
  const Rows rows = rows_of(text);
  const Tensor result = at::empty(shape_of_counts(rows), at::kFloat);
  auto* out = result.mutable_data_ptr<float>();
  for_each_row(text, rows, [&](int64_t row, Tokens tokens) {
    float* columns = out + row * vocabulary_.num_columns();
    std::fill_n(columns, vocabulary_.num_columns(), 0.0F);
    for (const std::string_view token : tokens)
      if (const int64_t id = vocabulary.id(token); id != kNoId) ++columns[id];
    for (size_t id = 0; id < weights.size(); ++id) columns[id] *= weights[id];
  });
  return result;
}

TextVectorization::TextVectorization(const TextVectorizationOptions& options)
    : impl_(std::make_shared<Impl>(options)) {}

void TextVectorization::adapt(const Strings& documents) {
  reset_state();
  update_state(documents.rank() == 1 ? documents.reshape({documents.size(), 1}) : documents);
  finalize_state();
}

void TextVectorization::reset_state() { impl_->reset(); }
void TextVectorization::update_state(const Strings& batch) { impl_->update(batch); }
void TextVectorization::finalize_state() { impl_->finalize(); }

Tensor TextVectorization::operator()(const Strings& text) const {
  if (StepRecorder* const recorder = StepRecorder::current())
    return std::get<Tensor>(recorder->step(impl_->options_as_they_are(), {text}));
  switch (impl_->mode()) {
    case OutputMode::int_: return impl_->ids(text);
    case OutputMode::multi_hot:
    case OutputMode::count: return impl_->counts(text);
    case OutputMode::tf_idf: return impl_->weighted_counts(text);
    case OutputMode::one_hot: break;  // refused when the layer was made
  }
  refuse_vectorization("the output mode is none of OutputMode's");
}

std::vector<Tensor> TextVectorization::ragged(const Strings& text) const {
  if (StepRecorder::current())
    refuse_vectorization("ragged() cannot be saved; call the layer", ErrorCode::unimplemented);
  if (impl_->mode() != OutputMode::int_)
    refuse_vectorization("ragged() is for OutputMode::int_; the rows of the other modes are equally long");
  std::vector<Tensor> result;
  for (const auto& row : impl_->id_rows(text)) {
    result.push_back(at::empty({static_cast<int64_t>(row.size())}, at::kLong));
    std::ranges::copy(row, result.back().mutable_data_ptr<int64_t>());
  }
  return result;
}

std::vector<std::string> TextVectorization::get_vocabulary(bool include_special_tokens) const {
  return impl_->vocabulary().tokens(include_special_tokens);
}

int64_t TextVectorization::vocabulary_size() const { return impl_->vocabulary().size(); }

std::vector<float> TextVectorization::idf_weights() const { return impl_->vocabulary().idf_weights(); }

void TextVectorization::set_vocabulary(const std::vector<std::string>& vocabulary,
                                       const std::vector<float>& idf_weights) {
  impl_->vocabulary().set(vocabulary, idf_weights);
}

void TextVectorization::save_vocabulary(const std::filesystem::path& path) const { impl_->vocabulary().save(path); }

void TextVectorization::load_vocabulary(const std::filesystem::path& path, const std::vector<float>& idf_weights) {
  impl_->vocabulary().load(path, idf_weights);
}

}  // namespace tutti::keras::layers
