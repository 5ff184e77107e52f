#include "tutti/export/pt2/schema_codes.h"

#include <c10/core/Layout.h>
#include <c10/core/MemoryFormat.h>

#include <algorithm>
#include <array>
#include <utility>

namespace tutti::saved_model::pt2 {
namespace {

constexpr std::array<std::pair<at::ScalarType, int>, 20> kDtypeCodes = {{{at::kByte, 1},
                                                                         {at::kChar, 2},
                                                                         {at::kShort, 3},
                                                                         {at::kInt, 4},
                                                                         {at::kLong, 5},
                                                                         {at::kHalf, 6},
                                                                         {at::kFloat, 7},
                                                                         {at::kDouble, 8},
                                                                         {at::kComplexHalf, 9},
                                                                         {at::kComplexFloat, 10},
                                                                         {at::kComplexDouble, 11},
                                                                         {at::kBool, 12},
                                                                         {at::kBFloat16, 13},
                                                                         {at::kUInt16, 28},
                                                                         {at::kFloat8_e4m3fn, 29},
                                                                         {at::kFloat8_e5m2, 30},
                                                                         {at::kFloat8_e4m3fnuz, 31},
                                                                         {at::kFloat8_e5m2fnuz, 32},
                                                                         {at::kUInt32, 34},
                                                                         {at::kUInt64, 35}}};

constexpr std::array<std::pair<at::MemoryFormat, int>, 4> kMemoryFormatCodes = {{{at::MemoryFormat::Contiguous, 1},
                                                                                 {at::MemoryFormat::ChannelsLast, 2},
                                                                                 {at::MemoryFormat::ChannelsLast3d, 3},
                                                                                 {at::MemoryFormat::Preserve, 4}}};

constexpr std::array<std::pair<at::Layout, int>, 1> kLayoutCodes = {{{at::kStrided, 7}}};

template <class Table, class Value>
std::optional<int> find_code(const Table& table, Value value) {
  const auto found = std::ranges::find(table, value, [](const auto& entry) { return entry.first; });
  if (found == table.end()) return {};
  return found->second;
}

template <class Table>
auto find_meaning(const Table& table, int64_t code) -> std::optional<decltype(table[0].first)> {
  const auto found = std::ranges::find(table, code, [](const auto& entry) { return int64_t{entry.second}; });
  if (found == table.end()) return {};
  return found->first;
}

template <class Table>
std::optional<int64_t> find_number(const Table& table, int64_t code) {
  const auto found = find_meaning(table, code);
  if (!found) return {};
  return static_cast<int64_t>(*found);
}

}  // namespace

std::optional<int> code_of_dtype(at::ScalarType dtype) { return find_code(kDtypeCodes, dtype); }

std::optional<at::ScalarType> dtype_of_code(int64_t code) { return find_meaning(kDtypeCodes, code); }

std::optional<int> code_of_memory_format(int64_t format) {
  return find_code(kMemoryFormatCodes, static_cast<at::MemoryFormat>(format));
}

std::optional<int64_t> memory_format_of_code(int64_t code) { return find_number(kMemoryFormatCodes, code); }

std::optional<int> code_of_layout(int64_t layout) { return find_code(kLayoutCodes, static_cast<at::Layout>(layout)); }

std::optional<int64_t> layout_of_code(int64_t code) { return find_number(kLayoutCodes, code); }

}  // namespace tutti::saved_model::pt2
