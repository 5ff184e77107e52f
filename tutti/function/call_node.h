#pragma once

#include "tutti/function/function_graph.h"
#include "tutti/function/laid_out.h"
#include "tutti/function/program.h"

namespace tutti {

// The results of a call, without those of `made` behind them that were saved for the backward pass. Those that need a
// gradient are of one node, whose edges go to the arguments and to the variables outside.
// `made`: what a run of the program gave; `arguments`: what it was given.
Tensors connect(const FunctionGraph& graph, const Program& program, at::ArrayRef<Tensor> arguments, Tensors made);

// Whether result i gets its graph from the node of a call.
bool is_of_node(const Program::Result& result);

}  // namespace tutti
