#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "catalogue.h"
#include "program.h"

namespace tutti::fuzz {

// The program of a seed, in one of these places. LibTorch runs it on plain tensors as it grows, so that its calls fit.
// `note` is told each op before it is called.
Program generate(uint64_t seed, const std::vector<OpFamily>& families, const std::vector<Place>& places,
                 const std::function<void(const std::string&)>& note);

}  // namespace tutti::fuzz
