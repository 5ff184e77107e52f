#include "tutti/export/pt2/size_arithmetic.h"

#include <algorithm>

namespace tutti::saved_model::pt2 {
namespace {

constexpr size_t kMaxTerms = 1000;

// Adds `factor` times the product of the sizes; of none, a constant.
bool add_product(Integer& to, int64_t factor, std::vector<int> sizes) {
  if (sizes.empty()) return !__builtin_add_overflow(to.constant, factor, &to.constant);
  if (sizes.size() > 2 || to.terms.size() >= kMaxTerms) return false;
  std::ranges::sort(sizes);
  const auto found = std::ranges::find(to.terms, sizes, &Integer::Term::sizes);
  if (found == to.terms.end()) {
    if (factor != 0) to.terms.push_back({factor, std::move(sizes)});
    return true;
  }
  if (__builtin_add_overflow(found->factor, factor, &found->factor)) return false;
  if (found->factor == 0) to.terms.erase(found);
  return true;
}

std::vector<Integer::Term> summands_of(const Integer& integer) {
  std::vector<Integer::Term> summands = integer.terms;
  if (integer.constant != 0) summands.push_back({integer.constant, {}});
  return summands;
}

bool add_multiple(Integer& to, const Integer& integer, int64_t factor) {
  for (const auto& [own, sizes] : summands_of(integer)) {
    int64_t product = 0;
    if (__builtin_mul_overflow(own, factor, &product) || !add_product(to, product, sizes)) return false;
  }
  return true;
}

bool add_products_of(Integer& to, const Integer& a, const Integer& b) {
  for (const auto& [factor, sizes] : summands_of(a))
    for (const auto& [other, other_sizes] : summands_of(b)) {
      std::vector<int> all = sizes;
      all.insert(all.end(), other_sizes.begin(), other_sizes.end());
      int64_t product = 0;
      if (__builtin_mul_overflow(factor, other, &product) || !add_product(to, product, std::move(all))) return false;
    }
  return true;
}

}  // namespace

std::optional<std::string> symbol_of(std::string_view expression) {
  constexpr std::string_view kBegin = "Symbol('";
  const auto is_name = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; };
  if (!expression.starts_with(kBegin) || !expression.ends_with(')')) return {};
  expression.remove_prefix(kBegin.size());
  const std::string_view name = expression.substr(0, expression.find('\''));
  if (name.empty() || name.size() == expression.size() || !std::ranges::all_of(name, is_name)) return {};
  if (expression.find('(') != std::string_view::npos) return {};  // it goes on with more than assumptions
  return std::string(name);
}

std::optional<Integer> computed(std::string_view target, const Integer& a, const Integer& b) {
  Integer made;
  bool is_made = false;
  if (target == "_operator.add") is_made = add_multiple(made, a, 1) && add_multiple(made, b, 1);
  if (target == "_operator.sub") is_made = add_multiple(made, a, 1) && add_multiple(made, b, -1);
  if (target == "_operator.mul") is_made = add_products_of(made, a, b);
  if (!is_made) return {};
  return made;
}

}  // namespace tutti::saved_model::pt2
