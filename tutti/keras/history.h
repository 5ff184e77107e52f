#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace tutti::keras {

// "loss" and each metric by name; in fit also "val_…".
using Logs = std::map<std::string, double>;

// What fit saw. TF: tf.keras.callbacks.History
struct History {
  std::vector<int64_t> epoch;                          // numbers of the epochs, from 0
  std::map<std::string, std::vector<double>> history;  // by name, one value per epoch
};

}  // namespace tutti::keras
