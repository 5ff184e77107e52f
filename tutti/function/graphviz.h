#pragma once

#include <string>

namespace tutti {

struct Program;

// The picture of a recording, for Graphviz: `dot -Tsvg`. An ellipse is memory from outside, a box a call, an arrow what
// one makes and the other uses, with its dtype and shape; a dashed arrow leads to what a call writes outside. What
// `cond` and `while_loop` may run stands in a frame of its own.
std::string to_graphviz(const Program& program);

}  // namespace tutti
