#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/data/graph/element.h"

namespace tutti::data::graph {

// What such leaves are, but for values and devices: "Float [2, 3] Strings []", with the keys of dictionaries.
std::string form_of(const std::vector<Leaf>& leaves, const Keys& keys);

// Checksums of values and of text, each behind `before`'s bytes.
uint32_t checksum_of(const Leaf& leaf, uint32_t before = 0);
uint32_t checksum_of_text(std::string_view text, uint32_t before = 0);

}  // namespace tutti::data::graph
