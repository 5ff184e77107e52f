#pragma once

#include <ATen/core/Generator.h>

namespace tutti {

// The generator for one draw on the CPU by who has a GPU's: it follows from that one's seed and place, and moves it on.
// So nothing else is to be kept, saved or seeded. Threads: any.
at::Generator host_draw(at::Generator& of_gpu);

}  // namespace tutti
