#pragma once

#include <gtest/gtest.h>

#include "tests/support/dataset_values.h"
#include "tutti/data/graph/state.h"

namespace tutti {

// Where a pass is after `count` elements.
inline Tensor saved_after(int64_t count, const data::Dataset<Tensor>& dataset) {
  const auto pass = dataset.node()->iterate({});
  data::graph::Element element;
  for (int64_t i = 0; i < count; ++i) pass->next(element);
  data::graph::StateWriter writer({});
  writer.graph(*dataset.node());
  pass->save(writer);
  return writer.finish();
}

// What a new pass gives that begins there.
inline Numbers rest_of(const data::Dataset<Tensor>& dataset, const Tensor& state) {
  const auto pass = dataset.node()->iterate({});
  data::graph::StateReader reader(state, {});
  reader.graph(*dataset.node());
  pass->restore(reader);
  reader.finish();
  reader.restored();
  Numbers rest;
  for (data::graph::Element element; pass->next(element);)
    rest.push_back(numbers(data::from_element<Tensor>(std::move(element))));
  return rest;
}

// A pass that is saved, at any element, and restored gives what it would have given.
inline void expect_resumes(const data::Dataset<Tensor>& dataset) {
  const Numbers all = numbers(dataset);
  for (size_t count = 0; count <= all.size(); ++count) {
    const Tensor state = saved_after(static_cast<int64_t>(count), dataset);
    EXPECT_EQ(rest_of(dataset, state), Numbers(all.begin() + static_cast<std::ptrdiff_t>(count), all.end())) << count;
  }
}

}  // namespace tutti
