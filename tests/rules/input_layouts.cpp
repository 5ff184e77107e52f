#include "input_layouts.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <random>
#include <set>
#include <stdexcept>

namespace tutti::rules {
namespace {

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts{""};
  for (const char c : text)
    if (c == separator)
      parts.emplace_back();
    else
      parts.back() += c;
  return parts;
}

constexpr int kMaxComposedOps = 4;

using Axes = std::vector<int>;  // for each axis a mesh dimension or -1

// All ways to give mesh dimensions to `rank` axes, none twice.
std::vector<Axes> all_axes(size_t rank, int dimensions) {
  std::vector<Axes> all{{}};
  for (size_t axis = 0; axis < rank; ++axis) {
    std::vector<Axes> longer;
    for (const Axes& axes : all)
      for (int d = -1; d < dimensions; ++d) {
        if (d >= 0 && std::find(axes.begin(), axes.end(), d) != axes.end()) continue;
        longer.push_back(axes);
        longer.back().push_back(d);
      }
    all = std::move(longer);
  }
  return all;
}

Layout layout_from(const Axes& axes, const Mesh& mesh) {
  std::vector<std::string> names;
  for (const int d : axes) names.push_back(d < 0 ? kUnsharded : mesh.dimensions()[static_cast<size_t>(d)].name);
  return Layout(names, mesh);
}

// Layouts in which equal letters are sharded alike.
std::vector<Layouts> agreeing_layouts(const Notation& notation, const Mesh& mesh) {
  std::string letters;
  for (const std::string& operand : notation.operands)
    for (const char letter : operand)
      if (letters.find(letter) == std::string::npos) letters += letter;
  std::vector<Layouts> all;
  for (const Axes& of_letters : all_axes(letters.size(), static_cast<int>(mesh.dimensions().size()))) {
    Layouts layouts;
    for (const std::string& operand : notation.operands) {
      Axes axes;
      std::set<char> seen;  // a letter that an operand has twice is sharded once
      for (const char letter : operand)
        axes.push_back(seen.insert(letter).second ? of_letters[letters.find(letter)] : -1);
      layouts.push_back(layout_from(axes, mesh));
    }
    all.push_back(std::move(layouts));
  }
  return all;
}

// What the layouts of the operands say about the letters.
class Letters {
 public:
  Letters(const Notation& notation, const Layouts& layouts, const Tensors& operands, bool first_decides) {
    for (size_t i = 0; i < layouts.size(); ++i)
      for (size_t axis = 0; axis < notation.operands[i].size(); ++axis)
        size_[notation.operands[i][axis]] =
            std::max(size_[notation.operands[i][axis]], operands[i].size(static_cast<int64_t>(axis)));
    for (size_t i = 0; i < layouts.size(); ++i)
      for (size_t axis = 0; axis < notation.operands[i].size(); ++axis) {
        const int dimension = layouts[i].dimension_of(static_cast<int>(axis));
        if (dimension < 0) continue;
        dimensions_[notation.operands[i][axis]].insert(dimension);
        letters_[dimension].insert(notation.operands[i][axis]);
      }
    if (first_decides)
      for (size_t axis = 0; axis < notation.operands[0].size(); ++axis)
        if (layouts[0].dimension_of(static_cast<int>(axis)) < 0) kept_whole_.insert(notation.operands[0][axis]);
  }

  bool sharded(char letter) const { return dimensions_.count(letter) > 0; }
  // Whether the operands that shard the letter agree, no other letter wants the dimension, and none must stay whole.
  bool agreed(char letter) const {
    const auto& dimensions = dimensions_.at(letter);
    return !kept_whole_.count(letter) && dimensions.size() == 1 && letters_.at(*dimensions.begin()).size() == 1;
  }
  bool all_agree() const {
    return std::all_of(dimensions_.begin(), dimensions_.end(), [&](const auto& entry) { return agreed(entry.first); });
  }
  bool known(char letter) const { return size_.count(letter) > 0; }
  int64_t size_of(char letter) const { return size_.at(letter); }
  bool broadcast(char letter, int64_t size) const { return size == 1 && size_.at(letter) != 1; }
  // Whether a value with these letters is only a part of what the whole operands would give.
  bool is_part(const std::string& letters) const {
    return std::any_of(dimensions_.begin(), dimensions_.end(), [&](const auto& entry) {
      return std::islower(entry.first) && letters.find(entry.first) == std::string::npos;
    });
  }

 private:
  std::map<char, int64_t> size_;
  std::map<char, std::set<int>> dimensions_;
  std::map<int, std::set<char>> letters_;
  std::set<char> kept_whole_;
};

int64_t bytes(const Tensor& tensor) { return static_cast<int64_t>(tensor.nbytes()); }

}  // namespace

Notation Notation::parse(const std::string& text) {
  const size_t arrow = text.find("->");
  if (arrow == std::string::npos) throw std::invalid_argument("no -> in " + text);
  return {split(text.substr(0, arrow), ','), split(text.substr(arrow + 2), ',')};
}

LayoutChoice input_layouts(const Notation& notation, const Mesh& mesh, size_t limit) {
  std::vector<std::vector<Axes>> of_operand;
  LayoutChoice choice{{}, 1};
  for (const std::string& operand : notation.operands) {
    of_operand.push_back(all_axes(operand.size(), static_cast<int>(mesh.dimensions().size())));
    choice.total *= static_cast<int64_t>(of_operand.back().size());
  }
  const auto at = [&](int64_t index) {
    Layouts layouts;
    for (const auto& axes : of_operand) {
      const auto count = static_cast<int64_t>(axes.size());
      layouts.push_back(layout_from(axes[static_cast<size_t>(index % count)], mesh));
      index /= count;
    }
    return layouts;
  };
  if (choice.total <= static_cast<int64_t>(limit)) {
    for (int64_t i = 0; i < choice.total; ++i) choice.layouts.push_back(at(i));
    return choice;
  }
  std::mt19937_64 random(1);
  choice.layouts = agreeing_layouts(notation, mesh);
  std::shuffle(choice.layouts.begin() + 1, choice.layouts.end(), random);
  choice.layouts.resize(std::min(choice.layouts.size(), limit / 2), choice.layouts[0]);
  while (choice.layouts.size() < limit)
    choice.layouts.push_back(at(static_cast<int64_t>(random() % static_cast<uint64_t>(choice.total))));
  return choice;
}

Cost allowed_cost(const RuleCase& rule_case, const Layouts& layouts, const Tensors& operands, const Tensors& results) {
  const Notation notation = Notation::parse(rule_case.notation);
  const Letters letters(notation, layouts, operands, rule_case.first_decides);
  Cost cost;
  // Operands that are sharded where the op needs them whole, or otherwise than another operand. Backward reads what
  // forward was given, and moves it again.
  for (size_t i = 0; i < operands.size(); ++i)
    for (size_t axis = 0; axis < notation.operands[i].size(); ++axis) {
      const char letter = notation.operands[i][axis];
      const int64_t size = operands[i].size(static_cast<int64_t>(axis));
      if (layouts[i].dimension_of(static_cast<int>(axis)) < 0) continue;
      if (std::isupper(letter) || !letters.agreed(letter) || letters.broadcast(letter, size)) {
        cost.forward += bytes(operands[i]);
        cost.backward += bytes(operands[i]);
      }
    }
  for (size_t i = 0; i < results.size(); ++i) {
    if (letters.is_part(notation.results[i])) cost.forward += bytes(results[i]);
    if (!letters.all_agree()) cost.backward += bytes(results[i]);
  }
  for (size_t i = 0; i < operands.size(); ++i) {
    std::string kept;
    for (size_t axis = 0; axis < notation.operands[i].size(); ++axis)
      if (const char letter = notation.operands[i][axis];
          !letters.broadcast(letter, operands[i].size(static_cast<int64_t>(axis))))
        kept += letter;
    if (operands[i].requires_grad() && (letters.is_part(kept) || !letters.all_agree()))
      cost.backward += bytes(operands[i]);
  }
  const auto on_the_way = [&](const std::string& values) {
    int64_t sum = 0;
    if (values.empty()) return sum;
    for (const std::string& value : split(values, ',')) {
      int64_t size = sizeof(double), gathers = 0;
      for (const char letter : value) {
        const bool whole = std::isupper(letter);
        const char name = letters.known(letter) ? letter : static_cast<char>(std::tolower(letter));
        size *= letters.size_of(name);
        gathers += whole && letters.sharded(name);
      }
      sum += size * (letters.is_part(value) && !gathers ? 1 : gathers);
    }
    return sum;
  };
  cost.forward += on_the_way(rule_case.forward);
  cost.backward += on_the_way(rule_case.backward);
  if (!letters.all_agree()) {  // each op of a function that is composed of several moves its operands
    cost.forward *= kMaxComposedOps;
    cost.backward *= kMaxComposedOps;
  }
  return cost;
}

}  // namespace tutti::rules
