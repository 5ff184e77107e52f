#pragma once

namespace tutti {

// Kernels for products of tensors with more than two axes.
void register_contractions();

}  // namespace tutti
