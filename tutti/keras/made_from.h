#pragma once

#include <any>
#include <string>

namespace tutti::keras {

// What files of models say of a loss, a metric or an optimizer.
struct MadeFrom {
  std::string class_name = {};  // Keras's; empty: it is a function of this program
  std::any options = {};        // the struct that the class was made from; empty: what Keras knows by that name alone
};

}  // namespace tutti::keras
