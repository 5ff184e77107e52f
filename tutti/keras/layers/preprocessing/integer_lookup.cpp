#include "tutti/keras/layers/preprocessing/integer_lookup.h"

#include <ATen/ops/empty.h>

#include <array>
#include <bit>
#include <cstring>
#include <span>

#include "tutti/keras/layers/preprocessing/hash_bucket_internal.h"
#include "tutti/keras/layers/preprocessing/index_lookup_internal.h"
#include "tutti/keras/layers/preprocessing/input_dtype_internal.h"
#include "tutti/keras/layers/preprocessing/step_recorder.h"
#include "tutti/tensor/call_recorder.h"

namespace tutti::keras::layers {
namespace {

static_assert(std::endian::native == std::endian::little);

// An integer as a token: 8 bytes whose order, as bytes, is that of the numbers. So one index serves text and integers.
class IntegerToken {
 public:
  explicit IntegerToken(int64_t value) {
    const uint64_t ordered = __builtin_bswap64(static_cast<uint64_t>(value) ^ kSign);
    std::memcpy(bytes_.data(), &ordered, sizeof ordered);
  }
  operator std::string_view() const { return {bytes_.data(), bytes_.size()}; }
  std::string text() const { return std::string(std::string_view(*this)); }

  static int64_t value(std::string_view token) {
    uint64_t ordered;
    std::memcpy(&ordered, token.data(), sizeof ordered);
    return static_cast<int64_t>(__builtin_bswap64(ordered) ^ kSign);
  }

 private:
  static constexpr uint64_t kSign = uint64_t{1} << 63;
  std::array<char, 8> bytes_;
};

std::vector<std::string> tokens_of(std::span<const int64_t> values) {
  std::vector<std::string> tokens;
  for (const int64_t value : values) tokens.push_back(IntegerToken(value).text());
  return tokens;
}

int64_t floormod(int64_t value, int64_t divisor) { return (value % divisor + divisor) % divisor; }

VocabularyOptions vocabulary_options(const IntegerLookupOptions& options, const std::string& name) {
  const auto bucket = [method = options.oov_method, salt = options.salt](std::string_view token, int64_t count) {
    const int64_t value = IntegerToken::value(token);
    return method == OovMethod::floormod ? floormod(value, count) : hash_bucket(value, count, salt);
  };
  std::optional<std::string> mask_token;
  if (options.mask_token) mask_token = IntegerToken(*options.mask_token).text();
  return {.layer = name,
          .mode = options.output_mode,
          .max_tokens = options.max_tokens,
          .pad_to_max_tokens = options.pad_to_max_tokens,
          .mask_token = mask_token,
          .oov_token = IntegerToken(options.oov_token).text(),
          .num_oov_indices = options.num_oov_indices,
          .invert = options.invert,
          .oov_bucket = bucket,
          .text = [](std::string_view token) { return std::to_string(IntegerToken::value(token)); }};
}

}  // namespace

class IntegerLookup::Impl : public LayerImpl {
 public:
  InputCast input_cast() const override { return InputCast::none; }

  explicit Impl(const IntegerLookupOptions& options)
      : LayerImpl("IntegerLookup", options.name),
        options_(options),
        lookup_(vocabulary_options(options, name()), options.vocabulary.has_value()) {
    if (options.salt && options.oov_method != OovMethod::farmhash) refuse("salt is for OovMethod::farmhash only");
    if (options.vocabulary)
      lookup_.vocabulary().set(tokens_of(*options.vocabulary), options.idf_weights);
    else if (!options.idf_weights.empty())
      refuse("idf_weights without a vocabulary; give both, or neither and call adapt()");
    tell_options();
  }

  // What files of models say of it, which changes with the vocabulary.
  void tell_options() { tell_made_from(lookup_.vocabulary().is_known() ? options_as_they_are() : options_); }

  IndexLookup& lookup() { return lookup_; }
  Vocabulary& vocabulary() { return lookup_.vocabulary(); }

  Tensor call(const Tensor& x, const CallOptions&) const override {
    if (StepRecorder* const recorder = StepRecorder::current())
      return std::get<Tensor>(recorder->step(options_as_they_are(), {x}));
    const Tensor input = integers(x, name()).cpu().contiguous();
    reads_memory(name().c_str());
    const auto* const values = input.const_data_ptr<int64_t>();
    lookup_.require_direction(options_.invert);
    const Vocabulary& vocabulary = lookup_.vocabulary();
    return lookup_.encode(x.sizes().vec(), [&](int64_t i) {
      return options_.invert ? IntegerToken::value(vocabulary.token(values[i]))
                             : vocabulary.id(IntegerToken(values[i]));
    });
  }

  Shape compute_output_shape(const Shape& input_shape) const override { return lookup_.output_shape(input_shape); }

 private:
  IntegerLookupOptions options_as_they_are() const {
    lookup_.vocabulary().require_known();
    IntegerLookupOptions options = options_;
    options.vocabulary.emplace();
    for (const std::string& token : lookup_.vocabulary().tokens(/*include_special_tokens=*/true))
      options.vocabulary->push_back(IntegerToken::value(token));
    options.idf_weights = lookup_.vocabulary().idf_weights();
    return options;
  }

  IntegerLookupOptions options_;
  IndexLookup lookup_;
};

IntegerLookup::IntegerLookup(const IntegerLookupOptions& options) : Layer(std::make_shared<Impl>(options)) {}

IntegerLookup::Impl& IntegerLookup::state() const { return static_cast<Impl&>(*impl()); }

void IntegerLookup::adapt(const Tensor& integers) {
  reset_state();
  update_state(integers.dim() == 1 ? integers.unsqueeze(1) : integers);
  finalize_state();
}

void IntegerLookup::reset_state() { state().lookup().reset_state(); }

void IntegerLookup::finalize_state() {
  state().lookup().finalize_state();
  state().tell_options();
}

void IntegerLookup::update_state(const Tensor& batch) {
  const Tensor input = integers(batch, name()).cpu().contiguous();
  const std::span values(input.const_data_ptr<int64_t>(), static_cast<size_t>(input.numel()));
  const std::vector<std::string> tokens = tokens_of(values);
  state().lookup().update_state(batch.sizes().vec(),
                                [&](int64_t i) { return std::string_view(tokens[static_cast<size_t>(i)]); });
}

std::vector<int64_t> IntegerLookup::get_vocabulary(bool include_special_tokens) const {
  std::vector<int64_t> values;
  for (const std::string& token : state().vocabulary().tokens(include_special_tokens))
    values.push_back(IntegerToken::value(token));
  return values;
}

int64_t IntegerLookup::vocabulary_size() const { return state().vocabulary().size(); }

std::vector<float> IntegerLookup::idf_weights() const { return state().vocabulary().idf_weights(); }

void IntegerLookup::set_vocabulary(const std::vector<int64_t>& vocabulary, const std::vector<float>& idf_weights) {
  state().vocabulary().set(tokens_of(vocabulary), idf_weights);
  state().tell_options();
}

}  // namespace tutti::keras::layers
