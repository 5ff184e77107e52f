#include "tutti/feature_column/feature_values.h"

#include <ATen/TensorOperators.h>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/keras/layers/preprocessing/category_ids_options.h"

namespace tutti::feature_column {

std::vector<keras::layers::TensorOrText> feature_values(const data::Columns& features, const std::string& key,
                                                        const FeatureColumnImpl& column) {
  if (!features.contains(key))
    column.refuse(
        str("reads the feature '", key, "', and the input has none of that name, but ", str_list(features.names())));
  std::vector<keras::layers::TensorOrText> inputs;
  const auto number = features.numbers.find(key);
  if (number != features.numbers.end() && !at::isIntegralType(number->second.scalar_type(), /*includeBool=*/false))
    column.refuse(str("the feature '", key, "' has dtype ", c10::toString(number->second.scalar_type()),
                      "; categories are text or integers"));
  if (number != features.numbers.end())
    inputs.emplace_back(number->second);
  else
    inputs.emplace_back(features.strings.at(key));
  const bool is_scalar =
      number != features.numbers.end() ? number->second.dim() == 0 : features.strings.at(key).rank() == 0;
  if (is_scalar) column.refuse(str("the feature '", key, "' is a scalar; a batch has the shape [batch] or [batch, n]"));
  if (const auto lengths = features.lengths.find(key); lengths != features.lengths.end())
    inputs.emplace_back(lengths->second);
  return inputs;
}

SparseIds sparse_ids_of(const Tensor& category_ids) {
  const Tensor is_there = category_ids != keras::layers::kNoCategory;
  return {.indices = is_there.nonzero(),
          .ids = category_ids.masked_select(is_there),
          .num_rows = category_ids.size(0),
          .num_places = category_ids.size(1)};
}

Tensor numeric_feature(const data::Columns& features, const std::string& key, const FeatureColumnImpl& column) {
  if (features.strings.contains(key))
    column.refuse(str("the feature '", key, "' is text, and the column is of numbers"), ErrorCode::unimplemented);
  const auto found = features.numbers.find(key);
  if (found == features.numbers.end())
    column.refuse(
        str("reads the feature '", key, "', and the input has none of that name, but ", str_list(features.names())));
  if (found->second.is_complex())
    column.refuse(str("the feature '", key, "' has dtype ", c10::toString(found->second.scalar_type()),
                      "; the column is of real numbers"));
  if (found->second.dim() == 0)
    column.refuse(str("the feature '", key, "' is a scalar; a batch has the shape [batch] or [batch, n]"));
  const Tensor numbers = found->second.dim() == 1 ? found->second.unsqueeze(1) : found->second;
  return numbers.is_floating_point() ? numbers : numbers.to(at::kFloat);
}

}  // namespace tutti::feature_column
