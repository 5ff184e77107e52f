#include <ATen/core/Tensor.h>
#include <ATen/ops/tensor.h>

#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "tutti/core/json.h"
#include "tutti/core/str.h"
#include "tutti/keras/layers/preprocessing/category_encoding.h"
#include "tutti/keras/layers/preprocessing/discretization.h"
#include "tutti/keras/layers/preprocessing/hashing.h"
#include "tutti/keras/layers/preprocessing/integer_lookup.h"
#include "tutti/keras/layers/preprocessing/normalization.h"
#include "tutti/keras/layers/preprocessing/rescaling.h"
#include "tutti/keras/saving/builtin_layer_internal.h"

namespace tutti::keras {
namespace {

void list_output_mode(LayerConfig& config, OutputMode& mode) {
  using enum OutputMode;
  config.require({{"sparse", "false"}});
  config.option("output_mode", mode,
                {{"int", int_}, {"one_hot", one_hot}, {"multi_hot", multi_hot}, {"count", count}, {"tf_idf", tf_idf}});
}

void list_floats(LayerConfig& config, const std::string& name, std::vector<float>& values) {
  std::vector<double> numbers(values.begin(), values.end());
  config.numbers(name, numbers);
  values.assign(numbers.begin(), numbers.end());
}

// Both halves, or one number for both.
void list_salt(LayerConfig& config, std::optional<HashSalt>& salt) {
  if (config.is_written()) return config.put("salt", salt ? json_array({str(salt->first), str(salt->second)}) : "null");
  if (!config.has("salt")) return config.skip({"salt"});
  std::vector<int64_t> halves;
  config.axes("salt", halves);
  if (halves.empty() || halves.size() > 2)
    config.refuse(str("has a salt of ", halves.size(), " numbers; 1 or 2 are expected"));
  salt = HashSalt(static_cast<uint64_t>(halves.front()), static_cast<uint64_t>(halves.back()));
}

void list_options(LayerConfig& config, layers::CategoryEncodingOptions& options) {
  config.option("num_tokens", options.num_tokens);
  list_output_mode(config, options.output_mode);
}

// Keras keeps how many bins adapt() was to find beside the boundaries that it found.
void list_options(LayerConfig& config, layers::DiscretizationOptions& options) {
  config.option("num_bins", options.num_bins);
  std::vector<float> boundaries = options.bin_boundaries.value_or(std::vector<float>());
  if (config.is_written() && options.bin_boundaries && boundaries.empty())
    config.put("bin_boundaries", "[]");
  else
    list_floats(config, "bin_boundaries", boundaries);
  if (!config.is_written() && config.has("bin_boundaries")) {
    options.bin_boundaries = boundaries;
    options.num_bins.reset();
  }
  config.option("epsilon", options.epsilon);
  list_output_mode(config, options.output_mode);
}

void list_mask(LayerConfig& config, std::variant<std::monostate, std::string, int64_t>& mask) {
  constexpr const char* kName = "mask_value";
  if (config.is_written()) {
    if (auto* const text = std::get_if<std::string>(&mask)) return config.option(kName, *text);
    if (auto* const number = std::get_if<int64_t>(&mask)) return config.option(kName, *number);
    return config.put(kName, "null");
  }
  if (!config.has(kName)) return config.skip({kName});
  if (config.json(kName).starts_with('"'))
    mask = config.text(kName);
  else
    mask = config.integer(kName);
}

// Python wants bins of an integer dtype.
void list_options(LayerConfig& config, layers::HashingOptions& options) {
  config.option("num_bins", options.num_bins);
  list_mask(config, options.mask_value);
  list_salt(config, options.salt);
  list_output_mode(config, options.output_mode);
  if (config.is_written()) config.put("dtype", options.output_mode == OutputMode::int_ ? "\"int64\"" : "\"float32\"");
}

void list_options(LayerConfig& config, layers::IntegerLookupOptions& options) {
  using enum layers::OovMethod;
  config.require({{"vocabulary_dtype", "\"int64\""}});
  config.skip({"vocabulary_size"});
  config.option("max_tokens", options.max_tokens);
  config.option("num_oov_indices", options.num_oov_indices);
  config.option("mask_token", options.mask_token);
  config.option("oov_token", options.oov_token);
  config.option("invert", options.invert);
  config.option("pad_to_max_tokens", options.pad_to_max_tokens);
  config.option("oov_method", options.oov_method, {{"floormod", floormod}, {"farmhash", farmhash}});
  list_salt(config, options.salt);
  list_output_mode(config, options.output_mode);
  std::vector<int64_t> vocabulary = options.vocabulary.value_or(std::vector<int64_t>());
  if (config.is_written() ? options.vocabulary.has_value() : config.has("vocabulary")) {
    config.integers("vocabulary", vocabulary);
    options.vocabulary = vocabulary;
  }
  list_floats(config, "idf_weights", options.idf_weights);
}

// A number, or one for each index along the axis.
void list_moment(LayerConfig& config, const std::string& name, std::optional<Tensor>& value) {
  std::vector<double> numbers;
  if (config.is_written()) {
    if (!value) return config.put(name, "null");
    if (value->dim() > 1)
      config.refuse(str("has a ", name, " of ", value->dim(), " axes; these files have at most one"));
    const Tensor flat = value->detach().to(at::kCPU, at::kDouble).reshape({-1}).contiguous();
    numbers.assign(flat.const_data_ptr<double>(), flat.const_data_ptr<double>() + flat.numel());
    return value->dim() == 0 ? config.put(name, json_number(numbers[0])) : config.numbers(name, numbers);
  }
  config.numbers(name, numbers);
  if (!config.has(name)) return;
  const Tensor all = at::tensor(numbers, at::kDouble).to(at::kFloat);
  value = config.json(name).starts_with('[') ? all : all.reshape({});
}

void list_options(LayerConfig& config, layers::NormalizationOptions& options) {
  list_moment(config, "mean", options.mean);
  list_moment(config, "variance", options.variance);
  config.option("invert", options.invert);
  if (config.is_written() && options.axis.empty())
    config.put("axis", "null");
  else if (config.is_written() || config.has("axis"))
    config.axes("axis", options.axis);
  else
    options.axis.clear();
}

void list_options(LayerConfig& config, layers::RescalingOptions& options) {
  config.option("scale", options.scale);
  config.option("offset", options.offset);
}

}  // namespace

const BuiltinLayers& preprocessing_layers() {
  using namespace layers;
  static const BuiltinLayers all{
      {"CategoryEncoding", plain<CategoryEncoding, CategoryEncodingOptions, list_options>()},
      {"Discretization", plain<Discretization, DiscretizationOptions, list_options>()},
      {"Hashing", plain<Hashing, HashingOptions, list_options>()},
      {"IntegerLookup", plain<IntegerLookup, IntegerLookupOptions, list_options>()},
      {"Normalization", plain<Normalization, NormalizationOptions, list_options>()},
      {"Rescaling", plain<Rescaling, RescalingOptions, list_options>()},
  };
  return all;
}

}  // namespace tutti::keras
