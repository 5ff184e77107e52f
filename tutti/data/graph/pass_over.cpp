#include "tutti/data/graph/pass_over.h"

#include <exception>

#include "tutti/core/error.h"
#include "tutti/core/log.h"
#include "tutti/core/str.h"
#include "tutti/data/graph/at_element.h"

namespace tutti::data::graph {

bool PassOver::operator()(Iterator& input) {
  if (stop_.stop_requested()) throw Error(ErrorCode::cancelled, str(op_, ": the consumer is gone"));
  Element passed_over;
  try {
    return input.next(passed_over);
  } catch (...) {
    if (stop_.stop_requested()) throw;
    if (!std::exchange(told_, true))
      warn(str(op_, ": an element that is passed over throws, and so may others: ", text_of(std::current_exception())));
    return true;
  }
}

}  // namespace tutti::data::graph
