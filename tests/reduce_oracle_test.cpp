// tests/oracle/reduce.json: reductions and gathers of a strategy, the collectives of its replicas with their gradients,
// the packing of tensors, and what is refused.
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/sparse_coo_tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>

#include "tests/support/oracle_cases.h"
#include "tutti/collectives/packing.h"
#include "tutti/device/logical_devices.h"
#include "tutti/distribute/default_strategy.h"
#include "tutti/distribute/hierarchical_copy_all_reduce.h"
#include "tutti/distribute/mirrored_strategy.h"
#include "tutti/distribute/reduction_to_one_device.h"
#include "tutti/tensor/mesh_tensor.h"

namespace tutti {
namespace {

using oracle::equals, oracle::Json;

// What Python takes and C++ does not: another op than the two, axes that are no integers, values that are no tensors.
template <class Op, class Values, class... Axis>
concept Reduces = requires(const Strategy& strategy, Op op, Values values, Axis... axis) {
  strategy.reduce(op, values, axis...);
};
static_assert(Reduces<ReduceOp, PerReplica<Tensor>, int>);
static_assert(!Reduces<std::nullptr_t, PerReplica<Tensor>>);
static_assert(!Reduces<int, PerReplica<Tensor>>);
static_assert(!Reduces<ReduceOp, PerReplica<Tensor>, const char*>);
static_assert(!Reduces<ReduceOp, PerReplica<Tensor>, double>);
static_assert(!Reduces<ReduceOp, double> && !Reduces<ReduceOp, int64_t>);
static_assert(!std::is_convertible_v<std::string, Tensor>);
template <class Argument>
using RunOfOne = decltype(std::declval<Strategy&>().run([](int value) { return value; }, std::declval<Argument>()));
static_assert(std::is_same_v<RunOfOne<int>, PerReplica<int>>);

// With one more op in each: what a user gives must give the same.
using Check = std::function<bool(MirroredStrategy& strategy)>;
bool under_all_ops(const Json& test, const Check& holds) {
  const auto cpus = configure_logical_cpus(test.at("replicas"));
  MirroredStrategy own({.devices = cpus});
  MirroredStrategy one_device({.devices = cpus, .cross_device_ops = ReductionToOneDevice()});
  MirroredStrategy hierarchical({.devices = cpus, .cross_device_ops = HierarchicalCopyAllReduce({.num_packs = 2})});
  return holds(own) && holds(one_device) && holds(hierarchical);
}

ReduceOp op_of(const Json& test) { return parse_reduce_op(test.at("op").get<std::string>()); }

Axes axes_of(const Json& test) {
  const Json& axis = test.at("axis");
  if (axis.is_null()) return {};
  if (axis.is_array()) return Axes(axis.get<std::vector<int64_t>>());
  return axis.get<int64_t>();
}

PerReplica<Tensor> per_replica(const Json& values) {
  std::vector<Tensor> tensors;
  for (const Json& value : values) tensors.push_back(oracle::tensor(value));
  return PerReplica(std::move(tensors));
}

bool is_tensor(const Json& json) { return json.is_object() && json.contains("dtype"); }

// The tensors of a recorded structure, depth first.
std::vector<Json> recorded_leaves(const Json& structure) {
  if (is_tensor(structure)) return {structure};
  std::vector<Json> leaves;
  for (const Json& part : structure)
    for (const Json& leaf : recorded_leaves(part)) leaves.push_back(leaf);
  return leaves;
}

bool all_equal(const std::vector<Tensor>& actual, const Json& recorded) {
  const auto expected = recorded_leaves(recorded);
  if (actual.size() != expected.size()) return false;
  for (size_t i = 0; i < actual.size(); ++i)
    if (!equals(actual[i], expected[i])) return false;
  return true;
}

bool gives(const Json& test, const Tensor& result) { return equals(result, test.at("expected")); }

bool reduce(const Json& test) {
  return under_all_ops(test, [&](const MirroredStrategy& strategy) {
    return gives(test, strategy.reduce(op_of(test), per_replica(test.at("values")), axes_of(test)));
  });
}

// values: a structure whose leaves are lists of what the replicas hold.
void collect_columns(const Json& values, size_t replicas, std::vector<PerReplica<Tensor>>& columns) {
  if (values.is_array() && values.size() == replicas && is_tensor(values[0]))
    return columns.push_back(per_replica(values));
  for (const Json& part : values) collect_columns(part, replicas, columns);
}

bool reduce_nested(const Json& test) {
  std::vector<PerReplica<Tensor>> columns;
  collect_columns(test.at("values"), test.at("replicas"), columns);
  std::vector<std::vector<Tensor>> replicas(test.at("replicas"));
  for (const auto& column : columns)
    for (size_t r = 0; r < replicas.size(); ++r) replicas[r].push_back(column[r]);
  return under_all_ops(test, [&](const MirroredStrategy& strategy) {
    const auto results = strategy.reduce(op_of(test), PerReplica(replicas), axes_of(test));
    return all_equal(results, test.at("expected"));
  });
}

bool reduce_plain(const Json& test) {
  return under_all_ops(test, [&](const MirroredStrategy& strategy) {
    return gives(test, strategy.reduce(op_of(test), oracle::tensor(test.at("value"))));
  });
}

bool reduce_mirrored_variable(const Json& test) {
  return under_all_ops(test, [&](MirroredStrategy& strategy) {
    const Tensor value = oracle::tensor(test.at("value"));
    const Tensor variable = strategy.build([&] { return at::zeros(value.sizes(), value.options()); });
    variable.copy_(value);
    return gives(test, gather(strategy.reduce(op_of(test), variable)));
  });
}

bool reduce_default(const Json& test) {
  const Tensor value = oracle::tensor(test.at("values").at(0));
  return gives(test, default_strategy().reduce(op_of(test), value, axes_of(test)));
}

bool gather_case(const Json& test) {
  return under_all_ops(test, [&](const MirroredStrategy& strategy) {
    return gives(test, strategy.gather(per_replica(test.at("values")), test.at("axis")));
  });
}

// What a replica's function gives, as a list of tensors, is what was recorded for it.
using Function = std::function<std::vector<Tensor>(const ReplicaContext& context, const Tensor& x)>;
bool in_replicas(const Json& test, const Function& function) {
  return under_all_ops(test, [&](MirroredStrategy& strategy) {
    const auto results = strategy.run([&](const Tensor& x) { return function(get_replica_context(), x); },
                                      per_replica(test.at("values")));
    const Json& expected = test.at("expected");
    for (size_t r = 0; r < results.size(); ++r)  // one result for all is recorded once
      if (!all_equal(results[r], expected.at(expected.size() == 1 ? 0 : r))) return false;
    return true;
  });
}

double id_plus_one(const ReplicaContext& context) { return context.replica_id_in_sync_group() + 1; }

bool all_reduce(const Json& test) {
  const Tensor weight = oracle::tensor(test.at("weight"));
  return in_replicas(test, [&](const ReplicaContext& context, const Tensor& value) {
    const Tensor x = value.detach().set_requires_grad(true);
    const Tensor reduced = context.all_reduce(op_of(test), x);
    (reduced * weight * id_plus_one(context)).sum().backward();
    return std::vector{x.grad(), reduced.detach()};  // "grad", "value": members come sorted
  });
}

struct Nest {
  Tensor p;
  std::vector<Tensor> q;
  auto parts() { return std::tie(p, q); }
};

bool all_reduce_nest(const Json& test) {
  return in_replicas(test, [&](const ReplicaContext& context, const Tensor& x) {
    const Nest nest = context.all_reduce(op_of(test), Nest{x, {x * 2, x.sum()}});
    return std::vector{nest.p, nest.q[0], nest.q[1]};
  });
}

bool all_reduce_int32(const Json& test) {
  return in_replicas(test, [&](const ReplicaContext& context, const Tensor& x) {
    return std::vector{context.all_reduce(op_of(test), (x * 10).to(at::kInt))};
  });
}

bool all_reduce_mixed(const Json& test) {
  return in_replicas(test, [&](const ReplicaContext& context, const Tensor& x) {
    return context.all_reduce(op_of(test), std::vector{x.to(at::kInt), x});
  });
}

bool all_reduce_eager(const Json& test) {
  return in_replicas(test, [&](const ReplicaContext& context, const Tensor& x) {
    return std::vector{context.all_reduce(op_of(test), x)};
  });
}

bool all_reduce_sparse(const Json& test) {
  return in_replicas(test, [&](const ReplicaContext& context, const Tensor& x) {
    const int64_t id = context.replica_id_in_sync_group();
    const Tensor rows = at::arange(id, id + x.size(0), at::kLong).view({1, -1});
    const Tensor sum = context.all_reduce(op_of(test), at::sparse_coo_tensor(rows, x, {8, 2}));
    return std::vector{sum.to_dense(), sum._indices().view(-1).to(at::kInt), sum._values()};
  });
}

bool all_gather(const Json& test) {
  return in_replicas(test, [&](const ReplicaContext& context, const Tensor& value) {
    const Tensor x = value.detach().set_requires_grad(true);
    const Tensor gathered = context.all_gather(x, test.at("axis"));
    (gathered * gathered * id_plus_one(context)).sum().backward();
    return std::vector{x.grad(), gathered.detach()};
  });
}

bool all_gather_uneven(const Json& test) {
  return in_replicas(test, [&](const ReplicaContext& context, const Tensor& x) {
    return std::vector{context.all_gather(x, test.at("axis"))};
  });
}

bool merge_call(const Json& test) {
  return in_replicas(test, [&](const ReplicaContext& context, const Tensor& x) {
    return std::vector{
        context.merge_call([](const Strategy& strategy,
                              const PerReplica<Tensor>& values) { return strategy.reduce(ReduceOp::sum, values) * 10; },
                           x)};
  });
}

bool replica_id(const Json& test) {
  return in_replicas(test, [&](const ReplicaContext& context, const Tensor& x) {
    const auto scalar = [](int64_t value) { return at::full({}, value, at::kInt); };
    return std::vector{scalar(context.replica_id_in_sync_group()), scalar(context.num_replicas_in_sync()),
                       x * id_plus_one(context)};
  });
}

bool packs(const Json& test) {
  return Json(group_by_size(test.at("tensor_bytes").get<std::vector<int64_t>>(), test.at("bytes_per_pack"))) ==
         test.at("expected");
}

// --- single calls, told in words -------------------------------------------------------------------------------------

class Calls {
 public:
  bool holds(const Json& test) {
    const auto call = calls_.find(test.at("name"));
    if (call == calls_.end()) throw std::runtime_error("no such call: " + test.dump());
    const auto results = call->second();
    return all_equal(results, test.at("expected"));
  }

 private:
  using Results = std::vector<Tensor>;

  static Tensor row(double value) { return at::full({1}, value); }
  static Tensor truth(bool value) { return at::full({}, value, at::kBool); }
  Results reduce(const char* op) { return {two_.reduce(parse_reduce_op(op), rows_)}; }
  Results reduce(const PerReplica<Tensor>& values, const Axes& axes = {}) {
    return {two_.reduce(ReduceOp::sum, values, axes)};
  }
  Results gather(const PerReplica<Tensor>& values, int64_t axis) { return {two_.gather(values, axis)}; }
  template <class F>
  Results in_replica(F function) {
    two_.run(function);
    return {};
  }

  Results in_a_scope() {
    bool none = false, in_cross = false, has = false;
    two_.build([&] {
      in_cross = in_cross_replica_context();
      has = has_strategy();
      try {
        get_replica_context();
      } catch (const Error& error) {
        none = error.code() == ErrorCode::failed_precondition;
      }
    });
    return {truth(has), truth(in_cross), truth(none)};  // the recorded members, sorted
  }
  Results other_scope() {
    MirroredStrategy other({.devices = configure_logical_cpus(1)});
    const auto outer = two_.scope();
    const auto inner = other.scope();
    return {};
  }
  Results different_structures() {
    const auto results = two_.run([] {
      const bool first = get_replica_context().replica_id_in_sync_group() == 0;
      return std::map<std::string, Tensor>{{first ? "a" : "b", at::ones({1})}};
    });
    two_.reduce(ReduceOp::sum, results);
    return {};
  }
  Results unequal_merge_calls() {
    return in_replica([] {
      if (get_replica_context().replica_id_in_sync_group() == 0) get_replica_context().merge_call([](Strategy&) {});
    });
  }
  Results gather_slices() {
    const Tensor slice = at::sparse_coo_tensor(at::zeros({1, 1}, at::kLong), at::ones({1, 1}), {4, 1});
    return gather({slice, slice}, 0);
  }

  MirroredStrategy two_{{.devices = configure_logical_cpus(2)}};
  const PerReplica<Tensor> rows_{row(1), row(2)};
  const PerReplica<Tensor> scalars_{at::ones({}), at::ones({})};
  const std::map<std::string, std::function<Results()>> calls_{
      {"call op MAX string", [&] { return reduce("MAX"); }},
      {"call op lower case sum", [&] { return reduce("sum"); }},
      {"call op lower case mean", [&] { return reduce("mean"); }},
      {"call axis 5", [&] { return reduce(rows_, 5); }},
      {"call axis -2 of rank 1", [&] { return reduce(rows_, -2); }},
      {"call scalar axis 0", [&] { return reduce(scalars_, 0); }},
      {"call reduce inside replica", [&] { return in_replica([&] { reduce(rows_); }); }},
      {"call nested scope other strategy", [&] { return other_scope(); }},
      {"call gather scalar", [&] { return gather(scalars_, 0); }},
      {"call gather axis 3", [&] { return gather(rows_, 3); }},
      {"call gather axis -1", [&] { return gather(rows_, -1); }},
      {"call gather inside replica", [&] { return in_replica([&] { gather(rows_, 0); }); }},
      {"call all_reduce outside",
       [] { return Results{get_replica_context().all_reduce(ReduceOp::sum, at::ones({}))}; }},
      {"call scope then get_replica_context is none", [&] { return in_a_scope(); }},
      {"call distribute same device twice",
       [] {
         MirroredStrategy({.devices = {"CPU:0", "CPU:0"}});
         return Results();
       }},
      {"call different structures returned", [&] { return different_structures(); }},
      {"call pack size negative",
       [] {
         group_by_size({}, -1);
         return Results();
       }},
      {"call num_packs negative",
       [] {
         HierarchicalCopyAllReduce({.num_packs = -1});
         return Results();
       }},
      {"call different shapes axis none SUM",
       [&] {
         return reduce({at::ones({2}), at::ones({3})});
       }},
      {"call different shapes broadcastable 1 and 2",
       [&] {
         return reduce({at::ones({1}), at::ones({2})});
       }},
      {"call gather rank mismatch",
       [&] {
         return gather({at::ones({1}), at::ones({1, 1})}, 0);
       }},
      {"call gather other dim mismatch",
       [&] {
         return gather({at::ones({1, 2}), at::ones({1, 3})}, 0);
       }},
      {"call gather indexed slices", [&] { return gather_slices(); }},
      {"call merge_call count differs", [&] { return unequal_merge_calls(); }},
  };
};

bool call(const Json& test) {
  static Calls calls;
  return calls.holds(test);
}

bool holds(const Json& test) {
  static const std::map<std::string, bool (*)(const Json&)> kinds{
      {"reduce", reduce},
      {"reduce_nested", reduce_nested},
      {"reduce_plain", reduce_plain},
      {"reduce_mirrored_variable", reduce_mirrored_variable},
      {"reduce_default", reduce_default},
      {"gather", gather_case},
      {"all_reduce", all_reduce},
      {"all_reduce_nest", all_reduce_nest},
      {"all_reduce_int32", all_reduce_int32},
      {"all_reduce_mixed", all_reduce_mixed},
      {"all_reduce_eager", all_reduce_eager},
      {"all_reduce_sparse", all_reduce_sparse},
      {"all_gather", all_gather},
      {"all_gather_uneven", all_gather_uneven},
      {"merge_call", merge_call},
      {"replica_id", replica_id},
      {"group_by_size", packs},
      {"call", call},
  };
  return kinds.at(test.at("kind"))(test);
}

TEST(ReduceOracle, EveryCaseHolds) {
  oracle::run_cases("reduce.json", [](const Json& test) {
    try {
      return holds(test);
    } catch (const Json::exception&) {  // a case without what is expected did not fail
      return false;
    }
  });
}

}  // namespace
}  // namespace tutti
