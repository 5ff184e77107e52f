#pragma once

namespace tutti {

// Tensor's methods that come by LibTorch's VariableHooks and not by its dispatcher: in replica view they are those of
// the replica's own component. register_hook() and requires_grad_() of one replica leave the others alone, data() is
// plain, and set_data() writes the replica's own value. Called once per process.
void register_variable_methods();

}  // namespace tutti
