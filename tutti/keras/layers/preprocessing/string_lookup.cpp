#include "tutti/keras/layers/preprocessing/string_lookup.h"

#include <span>
#include <utility>

#include "tutti/keras/layers/preprocessing/hash_bucket_internal.h"
#include "tutti/keras/layers/preprocessing/index_lookup_internal.h"
#include "tutti/keras/layers/preprocessing/input_dtype_internal.h"
#include "tutti/keras/layers/preprocessing/step_recorder.h"

namespace tutti::keras::layers {
namespace {

VocabularyOptions vocabulary_options(const StringLookupOptions& options) {
  return {.layer = options.name,
          .mode = options.output_mode,
          .max_tokens = options.max_tokens,
          .pad_to_max_tokens = options.pad_to_max_tokens,
          .mask_token = options.mask_token,
          .oov_token = options.oov_token,
          .num_oov_indices = options.num_oov_indices,
          .invert = options.invert,
          .oov_bucket = [salt = options.salt](std::string_view token, int64_t count) {
            return hash_bucket(token, count, salt);
          }};
}

}  // namespace

class StringLookup::Impl : public IndexLookup {
 public:
  explicit Impl(const StringLookupOptions& options)
      : IndexLookup(vocabulary_options(options), options.vocabulary.has_value()), options_(options) {
    if (options.vocabulary)
      vocabulary().set(*options.vocabulary, options.idf_weights);
    else if (!options.idf_weights.empty())
      vocabulary().refuse("idf_weights without a vocabulary; give both, or neither and call adapt()");
  }

  const std::string& name() const { return options_.name; }
  StringLookupOptions options_as_they_are() {
    vocabulary().require_known();
    StringLookupOptions options = options_;
    options.vocabulary = vocabulary().tokens(/*include_special_tokens=*/true);
    options.idf_weights = vocabulary().idf_weights();
    return options;
  }

 private:
  StringLookupOptions options_;
};

StringLookup::StringLookup(const StringLookupOptions& options) : impl_(std::make_shared<Impl>(options)) {}

void StringLookup::adapt(const Strings& tokens) {
  reset_state();
  update_state(tokens.rank() == 1 ? tokens.reshape({tokens.size(), 1}) : tokens);
  finalize_state();
}

void StringLookup::reset_state() { impl_->reset_state(); }
void StringLookup::finalize_state() { impl_->finalize_state(); }

void StringLookup::update_state(const Strings& batch) {
  impl_->update_state(batch.shape(), [&](int64_t i) { return std::string_view(batch[i]); });
}

Tensor StringLookup::operator()(const Strings& tokens) const {
  impl_->require_direction(/*invert=*/false);
  if (StepRecorder* const recorder = StepRecorder::current())
    return std::get<Tensor>(recorder->step(impl_->options_as_they_are(), {tokens}));
  const Vocabulary& vocabulary = impl_->vocabulary();
  return impl_->encode(tokens.shape(), [&](int64_t i) { return vocabulary.id(tokens[i]); });
}

Strings StringLookup::operator()(const Tensor& ids) const {
  impl_->require_direction(/*invert=*/true);
  if (StepRecorder* const recorder = StepRecorder::current())
    return std::get<Strings>(recorder->step(impl_->options_as_they_are(), {ids}));
  const Vocabulary& vocabulary = impl_->vocabulary();
  const Tensor values = integers(ids, impl_->name()).cpu().contiguous();
  std::vector<std::string> tokens;
  tokens.reserve(static_cast<size_t>(values.numel()));
  for (const int64_t id : std::span(values.const_data_ptr<int64_t>(), static_cast<size_t>(values.numel())))
    tokens.emplace_back(vocabulary.token(id));
  return Strings(std::move(tokens), ids.sizes().vec());
}

std::vector<std::string> StringLookup::get_vocabulary(bool include_special_tokens) const {
  return impl_->vocabulary().tokens(include_special_tokens);
}

int64_t StringLookup::vocabulary_size() const { return impl_->vocabulary().size(); }

std::vector<float> StringLookup::idf_weights() const { return impl_->vocabulary().idf_weights(); }

void StringLookup::set_vocabulary(const std::vector<std::string>& vocabulary, const std::vector<float>& idf_weights) {
  impl_->vocabulary().set(vocabulary, idf_weights);
}

void StringLookup::save_vocabulary(const std::filesystem::path& path) const { impl_->vocabulary().save(path); }

void StringLookup::load_vocabulary(const std::filesystem::path& path, const std::vector<float>& idf_weights) {
  impl_->vocabulary().load(path, idf_weights);
}

}  // namespace tutti::keras::layers
