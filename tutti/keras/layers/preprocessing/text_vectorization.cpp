#include "tutti/keras/layers/preprocessing/text_vectorization.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <functional>
#include <numeric>
#include <span>

#include "tutti/core/error.h"
#include "tutti/core/function_ref.h"
#include "tutti/core/str.h"
#include "tutti/keras/layers/preprocessing/token_counts_internal.h"
#include "tutti/keras/layers/preprocessing/tokenizer_internal.h"
#include "tutti/keras/layers/preprocessing/vocabulary_internal.h"

namespace tutti::keras::layers {
namespace {

using Tokens = std::span<const std::string_view>;

void check(const TextVectorizationOptions& options) {
  const auto max_tokens = options.max_tokens, length = options.output_sequence_length;
  if (max_tokens && *max_tokens < 2)
    refuse_vectorization(str("max_tokens ", *max_tokens, "; it counts the special tokens and must be at least 2"));
  if (options.pad_to_max_tokens && !max_tokens) refuse_vectorization("pad_to_max_tokens needs max_tokens");
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

std::vector<std::string> read_lines(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream)
    refuse_vectorization(str("cannot open the vocabulary '", path.string(), "': ", std::strerror(errno)),
                         ErrorCode::not_found);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  if (stream.bad())
    refuse_vectorization(str("cannot read the vocabulary '", path.string(), "'"), ErrorCode::unavailable);
  return lines;
}

void write_lines(const std::filesystem::path& path, const std::vector<std::string>& lines) {
  std::ofstream stream(path, std::ios::binary);
  for (const std::string& line : lines) stream << line << '\n';
  if (!stream.flush())
    refuse_vectorization(str("cannot write the vocabulary '", path.string(), "': ", std::strerror(errno)),
                         ErrorCode::unavailable);
}

}  // namespace

class TextVectorization::Impl {
 public:
  explicit Impl(const TextVectorizationOptions& options)
      : options_(options), vocabulary_(options.output_mode, options.max_tokens) {
    check(options_);
    if (options_.vocabulary) vocabulary_.set(*options_.vocabulary, options_.idf_weights);
  }

  Vocabulary& vocabulary() { return vocabulary_; }
  const Vocabulary& known_vocabulary() const;
  OutputMode mode() const { return options_.output_mode; }
  // How wide the rows of multi_hot, count and tf_idf are.
  int64_t num_columns() const { return options_.pad_to_max_tokens ? *options_.max_tokens : vocabulary_.size(); }

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
  if (!vocabulary_.is_known())
    refuse_vectorization("there is no vocabulary; call adapt(), set_vocabulary() or load_vocabulary() first",
                         ErrorCode::failed_precondition);
  return vocabulary_;
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
  at::parallel_for(0, rows.count, rows_worth_a_thread(text, rows), [&](int64_t begin, int64_t end) {
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
                           [&](std::string_view token) { return token.empty() ? 0 : vocabulary.id(token); });
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
  shape.push_back(num_columns());
  return shape;
}

Tensor TextVectorization::Impl::counts(const Strings& text) const {
  const Vocabulary& vocabulary = known_vocabulary();
  const Rows rows = rows_of(text);
  const bool only_whether = mode() == OutputMode::multi_hot;
  const Tensor result = at::empty(shape_of_counts(rows), at::kLong);
  auto* out = result.mutable_data_ptr<int64_t>();
  for_each_row(text, rows, [&](int64_t row, Tokens tokens) {
    int64_t* columns = out + row * num_columns();
    std::fill_n(columns, num_columns(), 0);
    for (const std::string_view token : tokens) {
      if (token.empty()) continue;
      int64_t& count = columns[vocabulary.id(token)];
      count = only_whether ? 1 : count + 1;
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
    float* columns = out + row * num_columns();
    std::fill_n(columns, num_columns(), 0.0F);
    for (const std::string_view token : tokens)
      if (!token.empty()) ++columns[vocabulary.id(token)];
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
  switch (impl_->mode()) {
    case OutputMode::int_: return impl_->ids(text);
    case OutputMode::multi_hot:
    case OutputMode::count: return impl_->counts(text);
    case OutputMode::tf_idf: return impl_->weighted_counts(text);
  }
  refuse_vectorization("the output mode is none of OutputMode's");
}

std::vector<Tensor> TextVectorization::ragged(const Strings& text) const {
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

void TextVectorization::save_vocabulary(const std::filesystem::path& path) const {
  const std::vector<std::string> tokens = impl_->known_vocabulary().tokens(/*include_special_tokens=*/true);
  for (const std::string& token : tokens)
    if (token.find('\n') != std::string::npos)
      refuse_vectorization(str("the token ", to_string(Strings(token)), " has a line feed and cannot be a line of '",
                               path.string(), "'; keep get_vocabulary() in another form"));
  write_lines(path, tokens);
}

void TextVectorization::load_vocabulary(const std::filesystem::path& path, const std::vector<float>& idf_weights) {
  set_vocabulary(read_lines(path), idf_weights);
}

}  // namespace tutti::keras::layers
