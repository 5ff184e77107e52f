#pragma once

#include <cstdint>
#include <map>

#include "tutti/keras/batches.h"

namespace tutti::keras {

// Returns the weight of each sample's class, [N]; classes that the map leaves out weigh 1. Labels are class numbers [N]
// or [N, 1], rounded to the nearest, half to even; or distributions [N, classes], whose largest entry counts.
// Throws: invalid_argument if the batch has sample weights already or its labels have another shape.
Tensor weigh_classes(const Batch& batch, const std::map<int64_t, double>& class_weight);

}  // namespace tutti::keras
