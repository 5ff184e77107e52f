#include "tutti/export/step_samples.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>

#include <charconv>
#include <type_traits>

#include "tutti/data/parse_spec.h"
#include "tutti/export/steps.h"

namespace tutti::saved_model {
namespace {

using keras::layers::CategoryIdsOptions;
using keras::layers::CrossedIdsOptions;
using keras::layers::ParseFeatureOptions;
using keras::layers::TensorOrText;

const std::string& word(const Words& words, size_t i) { return (*words)[i % words->size()]; }

// Ids of which each example has one: other sizes of other features shall not meet in them.
Tensor sample_ids(const TensorOrText& values, bool are_crossed) {
  const auto* const text = std::get_if<Strings>(&values);
  const std::vector<int64_t> shape = text ? text->shape() : std::get<Tensor>(values).sizes().vec();
  int64_t places = 1;
  for (size_t axis = 1; axis < shape.size() && !are_crossed; ++axis) places *= shape[axis];
  Tensor ids = at::full({shape.at(0), places}, keras::layers::kNoCategory, at::kLong);
  if (places > 0) ids.select(1, 0).zero_();
  return ids;
}

// Other values in each place and example; of those that are known, if any are.
template <class T>
data::Feature sample_values(size_t count, size_t example, const Words* words) {
  std::vector<T> values;
  for (size_t i = example; i < example + count; ++i)
    if constexpr (std::is_same_v<T, float>) {
      values.push_back(0.25F * static_cast<float>(i % 5) - 0.5F);
    } else if constexpr (std::is_same_v<T, int64_t>) {
      auto value = static_cast<int64_t>(i % 2);
      if (words) (void)std::from_chars(word(*words, i).data(), word(*words, i).data() + word(*words, i).size(), value);
      values.push_back(value);
    } else {
      values.push_back(words ? word(*words, i) : i % 2 ? "b" : "a");
    }
  return values;
}

template <class T>
data::Feature sample_feature(const data::FixedLenFeature<T>& feature, size_t example, size_t, const Words* words) {
  size_t count = 1;
  for (const int64_t size : feature.shape) count *= static_cast<size_t>(size);
  return sample_values<T>(count, example, words);
}

template <class T>
data::Feature sample_feature(const data::VarLenFeature<T>&, size_t example, size_t most_values, const Words* words) {
  return sample_values<T>(1 + example % most_values, example, words);
}

}  // namespace

Value sample_step(const keras::layers::PreprocessingOptions& layer, const std::vector<TensorOrText>& inputs) {
  const bool is_crossed = std::holds_alternative<CrossedIdsOptions>(layer);
  if (is_crossed || std::holds_alternative<CategoryIdsOptions>(layer)) return sample_ids(inputs[0], is_crossed);
  const auto* const text = std::get_if<Strings>(&inputs[0]);
  // Each example has one value, as sample_ids has it, for columns of sequences compare their lengths.
  const auto* const parsed = std::get_if<ParseFeatureOptions>(&layer);
  if (parsed && parsed->lengths) return at::ones({text->shape().at(0)}, at::kLong);
  return make_step(layer)({text ? Value(sample_text({layer}, text->shape())) : Value(std::get<Tensor>(inputs[0]))});
}

// Of tokens that the last layer knows, as far as it has a vocabulary: those at its end are no special ones.
Strings sample_text(const std::vector<keras::layers::PreprocessingOptions>& layers, const std::vector<int64_t>& shape,
                    const std::map<std::string, Words>& words, size_t most_values) {
  size_t count = 1;
  for (const int64_t size : shape) count *= static_cast<size_t>(size);
  std::vector<std::string> tokens = {"a", "b"};
  std::visit(
      [&](const auto& options) {
        if constexpr (requires { std::optional<std::vector<std::string>>(options.vocabulary); })
          if (options.vocabulary)
            tokens.assign(options.vocabulary->end() - static_cast<std::ptrdiff_t>((options.vocabulary->size() + 1) / 2),
                          options.vocabulary->end());
      },
      layers.back());
  std::vector<std::string> texts;
  for (size_t i = 0; i < count; ++i) {
    data::Example example;
    for (const keras::layers::PreprocessingOptions& layer : layers) {
      const auto* const parse = std::get_if<ParseFeatureOptions>(&layer);
      if (!parse) continue;
      const auto known = words.find(parse->key);
      example.features[parse->key] = std::visit(
          [&](const auto& feature) {
            return sample_feature(feature, i, most_values, known == words.end() ? nullptr : &known->second);
          },
          parse->feature);
    }
    texts.push_back(example.features.empty() ? tokens[i % tokens.size()] : example.serialize());
  }
  return Strings(std::move(texts), shape);
}

}  // namespace tutti::saved_model
