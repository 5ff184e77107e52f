#include "tutti/tensor/rules/notation.h"

#include <c10/core/WrapDimMinimal.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "tutti/tensor/operator_info.h"

namespace tutti {
namespace {

struct Operand {
  const Term* term;
  const Spec* spec;
  bool written;
};

std::vector<Operand> present(const Planner& planner, const std::vector<Term>& terms) {
  std::vector<Operand> operands;
  for (const Term& term : terms) {
    if (term.argument >= planner.num_arguments()) continue;
    const Spec* spec =
        term.item < 0 ? planner.spec(term.argument) : planner.specs(term.argument)[static_cast<size_t>(term.item)];
    if (!spec) continue;
    if (term.letters.size() != spec->sizes.size()) throw NoShardedForm();
    operands.push_back({&term, spec, planner.info().writes[static_cast<size_t>(term.argument)]});
  }
  return operands;
}

// The mesh dimension and the size that each letter has got.
class Letters {
 public:
  explicit Letters(const std::vector<Operand>& operands) {
    dimension_.fill(-1);
    size_.fill(-1);
    for (const Operand& operand : operands)
      for (size_t axis = 0; axis < operand.spec->sizes.size(); ++axis) {
        int64_t& size = size_[at(operand, axis)];
        if (size == -1 || size == 1) size = operand.spec->sizes[axis];
      }
    for (const Operand& operand : operands) check_sizes(operand);
  }

  void take(const Operand& operand) {
    for (size_t axis = 0; axis < operand.spec->sizes.size(); ++axis) {
      const size_t letter = at(operand, axis);
      const int8_t dimension = operand.spec->axes[axis];
      if (std::isupper(static_cast<int>(letter)) || broadcast(operand, axis) || frozen_[letter]) continue;
      frozen_[letter] = operand.written;  // what is written keeps its layout, also where it is whole
      if (dimension < 0 || dimension_[letter] >= 0 || used_ >> dimension & 1) continue;
      dimension_[letter] = dimension;
      used_ |= DimensionMask{1} << dimension;
    }
  }

  AxisMap axes(const Operand& operand) const {
    AxisMap axes;
    for (size_t axis = 0; axis < operand.spec->sizes.size(); ++axis)
      axes.push_back(broadcast(operand, axis) ? int8_t{-1} : dimension_[at(operand, axis)]);
    return axes;
  }

  AxisMap axes(const std::string& result) const {
    AxisMap axes;
    for (const char letter : result) axes.push_back(dimension_[static_cast<unsigned char>(letter)]);
    return axes;
  }

  at::DimVector sizes(const std::string& result) const {
    at::DimVector sizes;
    for (const char letter : result) sizes.push_back(size_[static_cast<unsigned char>(letter)]);
    return sizes;
  }

  // The mesh dimensions of letters that a result lacks.
  DimensionMask missing(const std::string& result) const {
    DimensionMask mask = used_;
    for (const char letter : result)
      if (dimension_[static_cast<unsigned char>(letter)] >= 0)
        mask &= ~(DimensionMask{1} << dimension_[static_cast<unsigned char>(letter)]);
    return mask;
  }

 private:
  void check_sizes(const Operand& operand) const {
    for (size_t axis = 0; axis < operand.spec->sizes.size(); ++axis) {
      const size_t letter = at(operand, axis);
      if (!std::islower(static_cast<int>(letter)) || operand.spec->sizes[axis] == size_[letter]) continue;
      const bool may_broadcast = operand.term->broadcasts && !operand.written;
      if (!broadcast(operand, axis) || !may_broadcast) throw NoShardedForm();
    }
  }

  static size_t at(const Operand& operand, size_t axis) {
    return static_cast<unsigned char>(operand.term->letters[axis]);
  }
  bool broadcast(const Operand& operand, size_t axis) const {
    return operand.spec->sizes[axis] == 1 && size_[at(operand, axis)] != 1;
  }

  std::array<int8_t, 128> dimension_;
  std::array<int64_t, 128> size_;
  std::array<bool, 128> frozen_{};
  DimensionMask used_ = 0;
};

}  // namespace

std::vector<AxisMap> shard(Planner& planner, const std::vector<Term>& terms, const std::vector<std::string>& results,
                           Combination combination) {
  std::vector<Operand> operands = present(planner, terms);
  std::stable_sort(operands.begin(), operands.end(), [](const Operand& a, const Operand& b) {
    return a.written != b.written ? a.written : a.spec->numel > b.spec->numel;
  });
  Letters letters(operands);
  for (const Operand& operand : operands) letters.take(operand);
  for (const Operand& operand : operands)
    planner.item(operand.term->argument, operand.term->item, letters.axes(operand));
  std::vector<AxisMap> axes;
  for (const std::string& result : results) {
    axes.push_back(letters.axes(result));
    planner.result(axes.back(), letters.sizes(result), letters.missing(result), combination);
  }
  return axes;
}

std::string letters(int64_t count, char first) {
  const char last = first >= 'a' ? 'y' : 'Z';  // 'z' is for an axis that the rule adds
  if (count < 0 || count > last + 1 - first) throw NoShardedForm();
  std::string text;
  for (int64_t i = 0; i < count; ++i) text += static_cast<char>(first + i);
  return text;
}

std::string whole_at(std::string letters, at::IntArrayRef axes) {
  if (letters.empty() && !axes.empty()) throw NoShardedForm();
  for (const int64_t axis : axes) {
    char& letter = letters[static_cast<size_t>(c10::maybe_wrap_dim(axis, static_cast<int64_t>(letters.size())))];
    letter = static_cast<char>(std::toupper(letter));
  }
  return letters;
}

}  // namespace tutti
