#include "tutti/feature_column/feature_column.h"

#include <ATen/TensorOperators.h>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/feature_column/feature_values.h"

namespace tutti::feature_column {

void FeatureColumnImpl::refuse(const std::string& message, ErrorCode code) const {
  throw Error(code, str("feature column '", name_, "': ", message));
}

SparseIds FeatureColumnImpl::sparse_ids(const data::Columns& features) const {
  return sparse_ids_of(category_ids(features));
}

void add_feature(data::ParseSpec& spec, const std::string& name, const data::FeatureSpec& feature) {
  const auto [place, is_new] = spec.try_emplace(name, feature);
  if (!is_new && !(place->second == feature))
    throw Error(ErrorCode::invalid_argument,
                str("feature columns read the feature '", name, "' in two ways, as ", data::to_string(place->second),
                    " and as ", data::to_string(feature), "; give one of them another key"));
}

}  // namespace tutti::feature_column
