#include "tutti/core/error.h"
#include "tutti/data/graph/at_element.h"
#include "tutti/data/graph/ops.h"
#include "tutti/data/graph/pipeline_scope.h"

namespace tutti::data::graph {

void for_each(const NodePtr& input, const std::function<void(Element)>& function, const char* op) {
  const PipelineScope scope;
  Pass pass(input);
  Element element;
  for (int64_t index = 0; pass.next(element); ++index) at_element(op, index, [&] { function(std::move(element)); });
}

Element single_element(const NodePtr& input) {
  Pass pass(input);
  Element element;
  Element another;
  if (!pass.next(element))
    throw Error(ErrorCode::invalid_argument, "get_single_element: the dataset is empty; it must have one element");
  if (pass.next(another))
    throw Error(ErrorCode::invalid_argument,
                "get_single_element: the dataset has more than one element; take(1) gives the first");
  return element;
}

}  // namespace tutti::data::graph
