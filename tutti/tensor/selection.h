#pragma once

namespace tutti {

// Gradients of ops that select elements along an axis: max, min, median, mode, kthvalue, topk, sort.
void register_selections();

}  // namespace tutti
