#include "tutti/feature_column/make_parse_example_spec.h"

namespace tutti::feature_column {

data::ParseSpec make_parse_example_spec(const std::vector<FeatureColumn>& feature_columns) {
  data::ParseSpec spec;
  for (const FeatureColumn& column : feature_columns) column->add_to(spec);
  return spec;
}

}  // namespace tutti::feature_column
