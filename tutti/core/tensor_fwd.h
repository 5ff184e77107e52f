#pragma once

// Names at::Tensor for headers that must not read LibTorch's.
namespace at {
class Tensor;
}

namespace tutti {
using Tensor = at::Tensor;
}
