#include "tutti/collectives/reduce_op.h"

#include <algorithm>

#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti {
namespace {

bool equal_ignoring_case(char a, char b) { return a == (b >= 'A' && b <= 'Z' ? b - 'A' + 'a' : b); }

}  // namespace

std::string_view to_string(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum: return "sum";
    case ReduceOp::mean: return "mean";
  }
  return "unknown";
}

ReduceOp parse_reduce_op(std::string_view text) {
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::mean})
    if (std::ranges::equal(to_string(op), text, equal_ignoring_case)) return op;
  throw Error(ErrorCode::invalid_argument,
              str("ReduceOp: \"", text.substr(0, 40), "\" is neither \"sum\" nor \"mean\""));
}

}  // namespace tutti
