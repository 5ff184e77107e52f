#pragma once

#include <string>

namespace tutti::keras::callbacks {

// The number as Python writes it: the fewest digits that read back as it, "0.001", "1.0", "1e-05", "nan", "-inf".
std::string number_text(double value);

}  // namespace tutti::keras::callbacks
