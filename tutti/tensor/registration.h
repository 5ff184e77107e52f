#pragma once

namespace tutti {

// Registers the kernels of mesh tensors with LibTorch's dispatcher, once per process (10 to 30 ms). Whatever makes a
// mesh tensor calls it first.
void ensure_registered();

}  // namespace tutti
