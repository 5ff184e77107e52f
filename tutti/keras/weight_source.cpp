#include "tutti/keras/weight_source.h"

#include <utility>

namespace tutti::keras {
namespace {

thread_local WeightSource* source_in_force = nullptr;

}  // namespace

WeightSource* WeightSource::current() { return source_in_force; }

WeightSourceGuard::WeightSourceGuard(WeightSource& source) : outer_(std::exchange(source_in_force, &source)) {}

WeightSourceGuard::~WeightSourceGuard() { source_in_force = outer_; }

}  // namespace tutti::keras
