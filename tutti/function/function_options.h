#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace tutti {

struct FunctionOptions {
  std::string name = "function";  // in errors
  // What the function looks at besides its arguments: a module's training flag, a switch. Another number means another
  // recording. Called at each call.
  std::function<int64_t()> depends_on = {};
  int max_traces = 32;  // recordings for different arguments; one more is an error
};

// Whether functions run as plain C++ from now on, in all threads: to debug one. TF: tf.config.run_functions_eagerly.
void run_functions_eagerly(bool eagerly);
bool functions_run_eagerly();

}  // namespace tutti
