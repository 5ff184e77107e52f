#include "tutti/checkpoint/module_state.h"

#include <torch/nn/module.h>

namespace tutti::checkpoint {

void ModuleState::visit_state(StateVisitor& visitor) {
  for (const auto& parameter : module_.named_parameters()) visitor.tensor(parameter.key(), parameter.value());
  for (const auto& buffer : module_.named_buffers())
    if (buffer.value().defined()) visitor.tensor(buffer.key(), buffer.value());
}

}  // namespace tutti::checkpoint
