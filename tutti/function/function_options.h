#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "tutti/core/error.h"

namespace tutti {

class ReplayMemory;

// What FunctionOptions::gpu_graphs is where it is not given, of functions that are made from now on, Keras's steps
// among them.
void use_gpu_graphs(bool use);
bool gpu_graphs_are_used();

struct FunctionOptions {
  std::string name = "function";  // in errors
  // What the function looks at besides its arguments: a module's training flag, a switch. Another number means another
  // recording. Called at each call.
  std::function<int64_t()> depends_on = {};
  int max_traces = 32;  // recordings for different arguments; one more is an error
  // What happens where the function cannot be recorded. Unless given, the error is thrown. Else this is called with it,
  // once, and the function runs as it is from then on; a recording that fails midway changes nothing of what the
  // function does, but that an argument whose shape it changes in place keeps its shape. Then C++ that reads memory by
  // const_data_ptr() alone is not found out.
  std::function<void(const Error& why)> if_unrecordable = {};
  // Where replays keep what they need while they run; null: memory of the function's own. Functions that are called one
  // after the other need no more than one of them with the same.
  std::shared_ptr<ReplayMemory> memory = {};
  // Whether what one GPU computes in a row is given to it at once, as a graph of CUDA's, from the fifth call on. That
  // takes memory: what is computed on the way stays, and arguments and results are copied to and from there. Throws,
  // where there is a GPU: failed_precondition without libtutti_cuda.so, the module that knows CUDA's graphs.
  bool gpu_graphs = gpu_graphs_are_used();
};

// Whether functions run as plain C++ from now on, in all threads: to debug one. TF: tf.config.run_functions_eagerly.
void run_functions_eagerly(bool eagerly);
bool functions_run_eagerly();

}  // namespace tutti
