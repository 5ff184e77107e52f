#pragma once

namespace tutti {

// Registers what stands in front of autograd: replica view, the scope, and the replicas' random numbers.
void register_front();

}  // namespace tutti
