#pragma once

#include <memory>

#include "tutti/function/call_elements.h"
#include "tutti/function/flat_arguments.h"

namespace tutti {

// Takes the next element of an iterator over a dataset, or over what a strategy distributes. A recorded function takes
// it of an iterator that is an argument of its call, as often as it likes; each call then takes as many, which it
// fetches before it does anything else, and elements of other shapes mean another recording.
//
//   const auto train_step = function([&](auto& iterator) { strategy.run(replica_step, next(iterator)); });
//   auto iterator = distributed.begin();
//   for (int i = 0; i < 100; ++i) train_step(iterator);
//
// Throws: out_of_range at the end of the data; what the element throws; failed_precondition in a recorded function for
// an iterator that is no argument, and in run or a branch of cond there. TF: next(iterator).
template <ElementIterator Iterator>
typename Iterator::value_type next(Iterator& iterator) {
  const TakenElement element = CallElements::next(source_of(iterator));
  auto value = *std::static_pointer_cast<typename Iterator::value_type>(element.value);
  ReplaceTensors replace{element.parts.tensors};
  structure::visit(value, replace);
  return value;
}

}  // namespace tutti
