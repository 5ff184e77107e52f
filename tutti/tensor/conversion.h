#pragma once

namespace tutti {

// Registers the ops that turn mesh tensors into plain ones: to() with a device outside a scope gathers, and set_data()
// takes plain tensors; and those that are not to.
void register_conversions();

}  // namespace tutti
