#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tutti/data/dataset.h"

namespace tutti::data {

// What a dataset of labelled files says of the class of each.
enum class LabelMode {
  int_,         // its number: int64 []
  categorical,  // 1 at its place, else 0: float32 [classes]
  binary,       // 0 or 1, of two classes: float32 [1]
};

// The part of a directory's files.
enum class Subset { training, validation };

// A dataset that knows the names of its classes, in the order of their numbers.
template <class T>
class LabeledDataset : public Dataset<T> {
 public:
  LabeledDataset(Dataset<T> dataset, std::vector<std::string> names)
      : Dataset<T>(std::move(dataset)), class_names(std::move(names)) {}

  std::vector<std::string> class_names;
};

}  // namespace tutti::data
