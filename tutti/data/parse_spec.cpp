#include "tutti/data/parse_spec.h"

#include <tuple>
#include <utility>

#include "tutti/core/str.h"

namespace tutti::data {
namespace {

parse_example_internal::Column column_of(const std::string& name, const FeatureSpec& spec) {
  auto column = std::visit([](const auto& feature) { return parse_example_internal::column(feature); }, spec);
  column.name = name;
  return column;
}

Column as_column(graph::Leaf leaf) {
  if (auto* text = std::get_if<Strings>(&leaf)) return std::move(*text);
  return std::get<Tensor>(std::move(leaf));
}

}  // namespace

std::string to_string(const FeatureSpec& spec) {
  const auto column = column_of("", spec);
  const char* const type = std::holds_alternative<FloatList>(column.fill)   ? "<float>"
                           : std::holds_alternative<Int64List>(column.fill) ? "<int64>"
                                                                            : "<string>";
  if (column.variable) return str("VarLenFeature", type);
  const bool has_default = std::visit(
      [](const auto& feature) {
        if constexpr (requires { feature.default_value; }) return !feature.default_value.empty();
        return false;
      },
      spec);
  return str("FixedLenFeature", type, '(', str_list(column.shape), has_default ? ", with a default)" : ")");
}

bool operator==(const FeatureSpec& a, const FeatureSpec& b) {
  const auto first = column_of("", a), second = column_of("", b);
  return std::tie(first.variable, first.shape, first.fill) == std::tie(second.variable, second.shape, second.fill);
}

Columns parse_example(const Strings& batch, const ParseSpec& spec) {
  std::vector<parse_example_internal::Column> wanted;
  for (const auto& [name, feature] : spec) wanted.push_back(column_of(name, feature));
  std::vector<graph::Leaf> leaves = parse_example_internal::parse_batch(batch, wanted);
  Columns columns;
  auto leaf = leaves.begin();
  for (const auto& column : wanted) {
    columns.set(column.name, as_column(std::move(*leaf++)));
    if (column.variable) columns.lengths[column.name] = std::get<Tensor>(std::move(*leaf++));
  }
  return columns;
}

}  // namespace tutti::data
