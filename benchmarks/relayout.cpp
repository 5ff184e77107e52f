// Redistribution of a [1024, columns] float32 value over 8 logical CPUs, each piece in a buffer of its own, over one
// memcpy of the bytes that change places into memory that is as new. Both on one thread.
//
//   ./dev bench relayout
//
// What changes places where memory is shared: the value, in an all_gather (one buffer holds the result) and an
// all_to_all; seven of eight terms, in a reduce_scatter and an all_reduce. Read `ratio`.
#include <cstring>

#include "paired.h"
#include "tutti/tensor/mesh_tensor.h"
#include "tutti/tutti.h"

namespace tutti::benchmarks {
namespace {

constexpr int64_t kRows = 1024;

struct Value {
  Mesh mesh{{{"device", 8}}, configure_logical_cpus(8), {.merge = false}};
  Layout rows{{"device", kUnsharded}, mesh}, columns{{kUnsharded, "device"}, mesh};
  Layout whole = Layout::replicated(mesh, 2);
  Tensor plain;

  explicit Value(const benchmark::State& state) : plain(torch::rand({kRows, state.range(0)})) {}

  Tensor sharded() const { return distribute_tensor(plain, rows); }
  Tensor terms() const {
    Components components;
    for (int i = 0; i < 8; ++i) components.push_back(plain.clone());
    return make_mesh_tensor(intern(MeshShape::of(mesh), unsharded(2), 1, plain.sizes()), components);
  }
};

void compare_to_memcpy(benchmark::State& state, const Tensor& value, const Layout& layout, int64_t bytes) {
  const Tensor source = torch::ones({bytes}, torch::kByte);
  const auto raw = [&] {
    const Tensor target = torch::empty({bytes}, torch::kByte);
    std::memcpy(target.data_ptr(), source.const_data_ptr(), static_cast<size_t>(bytes));
  };
  at::set_num_threads(1);
  compare(state, 5, raw, [&] { relayout(value, layout); });
}

int64_t bytes_of(const Value& value) { return static_cast<int64_t>(value.plain.nbytes()); }

void AllGather(benchmark::State& state) {
  const Value value(state);
  compare_to_memcpy(state, value.sharded(), value.whole, bytes_of(value));
}
void AllToAll(benchmark::State& state) {
  const Value value(state);
  compare_to_memcpy(state, value.sharded(), value.columns, bytes_of(value));
}
void ReduceScatterOfRows(benchmark::State& state) {
  const Value value(state);
  compare_to_memcpy(state, value.terms(), value.rows, 7 * bytes_of(value));
}
void ReduceScatterOfColumns(benchmark::State& state) {
  const Value value(state);
  compare_to_memcpy(state, value.terms(), value.columns, 7 * bytes_of(value));
}
void AllReduce(benchmark::State& state) {
  const Value value(state);
  compare_to_memcpy(state, value.terms(), value.whole, 7 * bytes_of(value));
}

#define TUTTI_RELAYOUT(name) \
  BENCHMARK(name)->ArgName("columns")->Arg(64)->Arg(1024)->Arg(4096)->Iterations(51)->UseManualTime()
TUTTI_RELAYOUT(AllGather);
TUTTI_RELAYOUT(AllToAll);
TUTTI_RELAYOUT(ReduceScatterOfRows);
TUTTI_RELAYOUT(ReduceScatterOfColumns);
TUTTI_RELAYOUT(AllReduce);

}  // namespace
}  // namespace tutti::benchmarks

int main(int argc, char** argv) { tutti::benchmarks::run(argc, argv); }
