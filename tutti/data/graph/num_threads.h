#pragma once

namespace tutti::data::graph {

// How many threads num_parallel_calls of an operation asks for: kAutotune is one for each processor.
// Throws: invalid_argument unless it is that, or at least 1.
int num_threads(const char* op, int num_parallel_calls);

}  // namespace tutti::data::graph
