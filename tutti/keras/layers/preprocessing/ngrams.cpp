#include "tutti/keras/layers/preprocessing/ngrams.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti::keras {
namespace {

std::vector<int64_t> widths_up_to(int64_t widest) {
  if (widest < 1)
    throw Error(ErrorCode::invalid_argument, str("Ngrams: the widest is ", widest, " tokens; it must be positive"));
  std::vector<int64_t> widths(static_cast<size_t>(widest));
  std::iota(widths.begin(), widths.end(), 1);
  return widths;
}

}  // namespace

Ngrams::Ngrams(int64_t widest) : Ngrams(widths_up_to(widest)) {}

Ngrams::Ngrams(std::vector<int64_t> widths) : widths_(std::move(widths)) {
  if (std::ranges::any_of(widths_, [](int64_t width) { return width < 1; }))
    throw Error(ErrorCode::invalid_argument,
                str("Ngrams: the widths are ", str_list(widths_), "; all must be positive"));
}

}  // namespace tutti::keras
