#include "tutti/distribute/axes.h"

#include <algorithm>

#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti {

std::vector<int64_t> Axes::of_rank(int64_t rank) const {
  std::vector<int64_t> axes;
  for (const int64_t axis : axes_) {
    if (axis < -rank || axis >= rank)
      throw Error(ErrorCode::out_of_range, str("reduce: axis ", axis, " of a value of rank ", rank, "; it must be in [",
                                               -rank, ", ", rank, ")"));
    const int64_t positive = axis < 0 ? axis + rank : axis;
    if (std::ranges::count(axes, positive) > 0)
      throw Error(ErrorCode::invalid_argument,
                  str("reduce: axes ", str_list(axes_), " name axis ", positive, " twice; name each once"));
    axes.push_back(positive);
  }
  return axes;
}

}  // namespace tutti
