// Which layouts the operands of a case are given, and what their communication may cost.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "rule_cases.h"
#include "tutti/mesh/layout.h"

namespace tutti::rules {

// A letter for each axis.
struct Notation {
  std::vector<std::string> operands, results;

  // Parses "ik,kj->ij".
  static Notation parse(const std::string& text);
};

// One layout for each operand.
using Layouts = std::vector<Layout>;

struct LayoutChoice {
  std::vector<Layouts> layouts;
  int64_t total = 0;  // how many there are; more than `layouts` where these are a sample
};

// All layouts that operands of these ranks can be given together on a mesh, or, beyond `limit`, a sample: those in
// which equal letters are sharded alike come first, the others are drawn with a fixed seed.
LayoutChoice input_layouts(const Notation& notation, const Mesh& mesh, size_t limit);

// Bytes that may be communicated. In separate buffers the implied communication of a case is held to this.
struct Cost {
  int64_t forward = 0, backward = 0;
};

// `operands`, `results`: the plain tensors of the case.
Cost allowed_cost(const RuleCase& rule_case, const Layouts& layouts, const Tensors& operands, const Tensors& results);

}  // namespace tutti::rules
