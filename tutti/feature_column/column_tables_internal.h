#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tutti/feature_column/feature_column.h"

namespace tutti::feature_column {

// The columns in the order of their names, as layers take them.
// Throws: invalid_argument, in the layer's name, for two of one name.
std::vector<FeatureColumn> sorted_columns(std::vector<FeatureColumn> columns, const std::string& layer);

// The tables of columns that have one, those with one name once.
class ColumnTables {
 public:
  // `make` makes the variable "name/embedding_weights".
  void build(const std::vector<FeatureColumn>& columns,
             const std::function<Tensor(const std::string& name, const EmbeddingTable& table)>& make);
  // Undefined for a column without one.
  Tensor of(const FeatureColumn& column) const;

 private:
  std::map<std::string, Tensor> tables_;
};

}  // namespace tutti::feature_column
