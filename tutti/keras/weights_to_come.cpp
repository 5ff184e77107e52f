#include "tutti/keras/weights_to_come.h"

#include <utility>

namespace tutti::keras {
namespace {

thread_local bool weights_are_to_come = false;

}  // namespace

WeightsToCome::WeightsToCome() : before_(std::exchange(weights_are_to_come, true)) {}

WeightsToCome::~WeightsToCome() { weights_are_to_come = before_; }

bool WeightsToCome::in_force() { return weights_are_to_come; }

}  // namespace tutti::keras
