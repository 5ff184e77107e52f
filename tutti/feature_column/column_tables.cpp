#include <algorithm>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/feature_column/column_tables_internal.h"

namespace tutti::feature_column {

std::vector<FeatureColumn> sorted_columns(std::vector<FeatureColumn> columns, const std::string& layer) {
  std::ranges::stable_sort(columns, {}, &FeatureColumn::name);
  const auto twice = std::ranges::adjacent_find(columns, {}, &FeatureColumn::name);
  if (twice != columns.end())
    throw Error(ErrorCode::invalid_argument,
                str(layer, ": two feature columns are called '", twice->name(), "'; each has a name of its own"));
  return columns;
}

void ColumnTables::build(const std::vector<FeatureColumn>& columns,
                         const std::function<Tensor(const std::string& name, const EmbeddingTable& table)>& make) {
  for (const FeatureColumn& column : columns) {
    const auto table = column->table();
    if (table && !tables_.contains(table->name))
      tables_[table->name] = make(table->name + "/embedding_weights", *table);
  }
}

Tensor ColumnTables::of(const FeatureColumn& column) const {
  const auto table = column->table();
  return table ? tables_.at(table->name) : Tensor();
}

}  // namespace tutti::feature_column
