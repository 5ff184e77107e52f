#include "tutti/tpu/fold_replicas.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/function/compare.h"

namespace tutti::tpu {
namespace {

using Kind = Program::Buffer::Kind;
using OperandKind = Program::Operand::Kind;
using Call = Program::Call;

constexpr int kNobodys = -2;  // not used yet
constexpr int kAll = -1;      // every replica has the same one

// Checks of data on the host that give nothing, which compiled programs do without.
bool is_check(const Call& call) { return !call.op && call.name.starts_with("check_") && call.writes.empty(); }

// One that the program made. Else replicas draw from those of the strategy.
bool draws_from_own_generator(const Call& call, const Call* other) {
  for (size_t k = 0; k < call.arguments.size(); ++k) {
    const at::IValue& own = call.arguments[k].constant;
    if (own.isGenerator() && (!other || own.toGenerator() == other->arguments[k].constant.toGenerator())) return true;
  }
  return false;
}

// What C++ makes of values, and of which no tensor of the program comes.
bool is_report(const Call& call) { return !call.op && call.writes.empty() && !call.reads.empty(); }

class Folding {
 public:
  Folding(const Program& recorded, int replicas)
      : recorded_(recorded), waiting_(static_cast<size_t>(replicas)), whose_(recorded.buffers.size(), kNobodys) {
    folded_.program.name = recorded.name;
    folded_.program.buffers = recorded.buffers;
    folded_.program.values = recorded.values;
  }

  FoldedProgram run() {
    refuse_gradients();
    for (const Call& call : recorded_.calls) {
      if (call.replica >= 0) {
        waiting_[static_cast<size_t>(call.replica)].push_back(&call);
        continue;
      }
      fold_waiting();
      take_global(call);
    }
    fold_waiting();
    for (const Program::Result& result : recorded_.results) take_result(result);
    take_leaves();
    return std::move(folded_);
  }

 private:
  size_t replicas() const { return waiting_.size(); }
  const Program::Value& value(int number) const { return folded_.program.values[static_cast<size_t>(number)]; }
  const Program::Buffer& buffer(int number) const { return folded_.program.buffers[static_cast<size_t>(number)]; }
  int& whose(int buffer) { return whose_[static_cast<size_t>(buffer)]; }

  [[noreturn]] void refuse(const std::string& why) const {
    throw Error(ErrorCode::unimplemented, str(recorded_.name, ": ", why));
  }

  void refuse_gradients() const {
    for (const Program::Leaf& leaf : recorded_.leaves) {
      if (leaf.exit_values.size() > 1)
        refuse(str("leaves a gradient in grad() of a variable of shape ", str_list(leaf.tensor.sizes()),
                   " that lies in several buffers; call zero_grad() at the end, or compute with gradients(loss, "
                   "variables)"));
      if (!leaf.entry_buffers.empty())
        refuse(str("adds to the gradient that a variable of shape ", str_list(leaf.tensor.sizes()),
                   " has in grad() when the function begins; call zero_grad() first, or compute with gradients(loss, "
                   "variables)"));
    }
  }

  // The calls that replicas made since they last met.
  void fold_waiting() {
    for (size_t r = 1; r < replicas(); ++r)
      if (waiting_[r].size() != waiting_[0].size())
        refuse(str("replica 0 makes ", waiting_[0].size(), " calls where replica ", r, " makes ", waiting_[r].size(),
                   "; compiled replicas make the same calls"));
    for (size_t i = 0; i < waiting_[0].size(); ++i) take_row_at(i);
    for (auto& calls : waiting_) calls.clear();
  }

  void take_row_at(size_t i) {
    try {
      take_row(i);
    } catch (const Error& error) {
      const std::string line = line_of(waiting_[0][i]->place);
      if (line.empty()) throw;
      throw Error(error.code(), str(error.what(), ". Replica 0 made its call at ", line));
    }
  }

  void take_row(size_t i) {
    const Call& first = *waiting_[0][i];
    for (size_t r = 1; r < replicas(); ++r) compare(first, *waiting_[r][i], r);
    if (first.draws) refuse_own_generator(first, replicas() > 1 ? waiting_[1][i] : nullptr);
    if (is_check(first)) return;
    for (const auto operands : {&Call::arguments, &Call::results})
      for (size_t k = 0; k < (first.*operands).size(); ++k)
        for (size_t v = 0; v < (first.*operands)[k].values.size(); ++v) {
          std::vector<int> row;
          for (const auto& calls : waiting_) row.push_back(((*calls[i]).*operands)[k].values[v]);
          pair(row, first.name);
        }
    if (is_report(first)) {
      const std::vector<int> places = keep_inputs(first);
      for (size_t r = 0; r < replicas(); ++r) take_report(*waiting_[r][i], places, static_cast<int>(r));
      return;
    }
    if (replicas() > 1)
      for (const int written : first.writes)
        if (whose(written) == kAll)
          refuse(str(first.name,
                     " writes in each replica to a tensor that all have, from outside; write it where they "
                     "meet, or make it a variable"));
    folded_.program.calls.push_back(first);
  }

  void refuse_own_generator(const Call& call, const Call* other) const {
    if (draws_from_own_generator(call, other))
      refuse(str(call.name,
                 " draws from a generator of the program's own, which compiled functions do not have; leave "
                 "it out, and call set_random_seed()"));
  }

  void compare(const Call& first, const Call& other, size_t r) const {
    const auto differ = [&](const char* what) {
      refuse(str(first.name, " in replica 0 and ", other.name, " in replica ", r, " differ in ", what,
                 "; compiled replicas make the same calls on values of the same shapes: batches must be of one size "
                 "(drop_remainder)"));
    };
    if (first.name != other.name) differ("their name");
    for (const auto operands : {&Call::arguments, &Call::results}) {
      const auto &own = first.*operands, &others = other.*operands;
      if (own.size() != others.size()) differ("their arguments");
      for (size_t k = 0; k < own.size(); ++k) {
        if (own[k].kind != others[k].kind || own[k].values.size() != others[k].values.size()) differ("their arguments");
        const bool constant = own[k].kind == OperandKind::constant;
        const bool generators = own[k].constant.isGenerator() && others[k].constant.isGenerator();
        if (constant && !generators && !same_constant(own[k].constant, others[k].constant)) differ("a number");
      }
    }
  }

  // Values of which each replica has one. They are one value of the folded program.
  void pair(const std::vector<int>& row, const std::string& call) {
    if (row[0] < 0) {
      if (std::ranges::any_of(row, [](int number) { return number >= 0; })) refuse(str(call, " lacks a tensor"));
      return;
    }
    std::vector<int> buffers;
    for (const int number : row) {
      if (number < 0 || value(number).geometry != value(row[0]).geometry)
        refuse(str(call, " gets ", to_string(value(row[0]).geometry), " in replica 0 and ",
                   number < 0 ? "nothing" : to_string(value(number).geometry),
                   " in another; the shapes of compiled replicas are one: give batches of one size (drop_remainder)"));
      buffers.push_back(value(number).buffer);
    }
    if (std::ranges::all_of(buffers, [&](int number) { return number == buffers[0]; })) return take_shared(buffers[0]);
    if (const auto known = folded_.rows.find(buffers[0]); known != folded_.rows.end()) {
      if (known->second != buffers) refuse(str(call, " mixes the values of replicas"));
      return;
    }
    for (size_t r = 0; r < buffers.size(); ++r) {
      if (whose(buffers[r]) != kNobodys) refuse(str(call, " mixes what a replica has with what all have"));
      whose(buffers[r]) = static_cast<int>(r);
      check_member(buffers[0], buffers[r], call);
    }
    folded_.rows.emplace(buffers[0], std::move(buffers));
  }

  void check_member(int first, int other, const std::string& call) const {
    const Program::Buffer &a = buffer(first), &b = buffer(other);
    const bool constant = a.kind == Kind::constant && a.kind == b.kind;
    if (a.kind != b.kind || a.bytes != b.bytes) refuse(str(call, " gets tensors of other origins in each replica"));
    if (constant && std::memcmp(a.storage.data(), b.storage.data(), static_cast<size_t>(a.bytes)) != 0)
      refuse(str(call, " gets a tensor that C++ fills with other numbers in each replica; pass it as a PerReplica"));
  }

  void take_shared(int number) {
    if (replicas() > 1 && whose(number) >= 0)
      refuse(str("a value of replica ", whose(number),
                 " is used in another replica or in global view; what replicas "
                 "have of their own meets by sums and means over all of them"));
    whose(number) = kAll;
  }

  // What all replicas do once, where they have met, or what is done outside of the run.
  void take_global(const Call& call) {
    if (is_check(call)) return;
    if (!call.op && (call.name == "sum" || call.name == "mean")) return take_sum(call);
    if (!call.op && call.reads.empty()) return take_host_step(call);
    if (call.draws) refuse_own_generator(call, nullptr);
    if (!call.is_view && !call.gives_fresh_memory)
      for (const auto* operands : {&call.arguments, &call.results})
        for (const Program::Operand& operand : *operands)
          for (const int number : operand.values)
            if (number >= 0) take_shared(value(number).buffer);
    if (is_report(call)) return take_report(call, keep_inputs(call), 0);
    folded_.program.calls.push_back(call);
  }

  // The values as they are now, for later calls may write there. Their places in the results of the folded program.
  std::vector<int> keep_inputs(const Call& call) {
    std::vector<int> places;
    for (const Program::Operand& operand : call.arguments)
      for (const int number : operand.values) places.push_back(kept(number));
    return places;
  }

  void take_report(const Call& call, const std::vector<int>& places, int replica) {
    FoldedProgram::HostCall report{call.host_step, {}};
    for (const int place : places) report.inputs.push_back({place, replica});
    folded_.after.push_back(std::move(report));
  }

  int kept(int number) {
    if (number < 0) return -1;
    const int copy = static_cast<int>(folded_.program.values.size());
    Geometry geometry = value(number).geometry;
    geometry.strides.resize(geometry.sizes.size());
    int64_t elements = 1;
    for (size_t axis = geometry.sizes.size(); axis-- > 0; elements *= std::max<int64_t>(1, geometry.sizes[axis]))
      geometry.strides[axis] = elements;
    geometry.offset = 0;
    const auto bytes = extent_bytes(geometry);
    folded_.program.values.push_back({static_cast<int>(folded_.program.buffers.size()), std::move(geometry)});
    folded_.program.buffers.push_back({.kind = Kind::temporary, .bytes = bytes});
    whose_.push_back(kAll);
    Call keep{.name = "keep"};
    keep.arguments = {{.kind = OperandKind::tensor, .values = {number}}};
    keep.results = {{.kind = OperandKind::tensor, .values = {copy}}};
    folded_.program.calls.push_back(std::move(keep));
    folded_.program.results.push_back({.value = copy});
    return static_cast<int>(folded_.program.results.size()) - 1;
  }

  // The results come first among its arguments, which are all of one list.
  void take_sum(const Call& call) {
    const auto& values = call.arguments[0].values;
    const size_t num_results = call.writes.size();
    const std::vector<int> row(values.begin() + static_cast<std::ptrdiff_t>(num_results), values.end());
    if (row.size() != replicas())
      refuse(str("a sum of ", row.size(), " values, with ", replicas(),
                 " replicas; in a compiled function each has a value of every sum"));
    pair(row, call.name);
    Call reduce{.name = "all_reduce"};
    reduce.arguments = {{.kind = OperandKind::tensor, .values = {row[0]}}, {.constant = call.name == "mean"}};
    for (size_t i = 0; i < num_results; ++i) {
      reduce.results.push_back({.kind = OperandKind::tensor, .values = {values[i]}});
      if (num_results == 1) take_shared(value(values[i]).buffer);
    }
    reduce.writes = call.writes;
    folded_.program.calls.push_back(std::move(reduce));
  }

  // It gives numbers of C++ to tensors from outside.
  void take_host_step(const Call& call) {
    for (const int written : call.writes) {
      if (whose(written) != kNobodys || buffer(written).kind != Kind::captured)
        refuse(str("the native step ", call.name, " writes to what the function has computed with"));
      whose(written) = kAll;
    }
    folded_.before.push_back(call.host_step);
  }

  // The same elements of replica 0's buffer.
  int of_first_replica(int number) {
    const Program::Value seen = value(number);
    for (const auto& [first, row] : folded_.rows) {
      if (std::ranges::find(row, seen.buffer) == row.end()) continue;
      auto& values = folded_.program.values;
      for (size_t i = 0; i < values.size(); ++i)
        if (values[i].buffer == first && values[i].geometry == seen.geometry) return static_cast<int>(i);
      values.push_back({first, seen.geometry});
      return static_cast<int>(values.size()) - 1;
    }
    return number;
  }

  void take_result(const Program::Result& result) {
    if (result.value < 0 || buffer(value(result.value).buffer).kind != Kind::temporary) {
      folded_.results.push_back({-1, 0});
      return;
    }
    const int replica = std::max(0, whose(value(result.value).buffer));
    const int number = of_first_replica(result.value);
    auto& given = folded_.program.results;
    const auto known = std::ranges::find(given, number, &Program::Result::value);
    folded_.results.push_back({static_cast<int>(known - given.begin()), replica});
    if (known == given.end()) given.push_back({.value = number});
  }

  // The gradients that are there afterwards, of which global view has one.
  void take_leaves() {
    folded_.program.leaves = recorded_.leaves;
    for (const Program::Leaf& leaf : recorded_.leaves)
      if (leaf.changes && leaf.exit_value() >= 0) take_shared(value(leaf.exit_value()).buffer);
  }

  const Program& recorded_;
  FoldedProgram folded_;
  std::vector<std::vector<const Call*>> waiting_;  // [replica]
  std::vector<int> whose_;                         // of buffers: a replica, kAll or kNobodys
};

}  // namespace

std::vector<int> FoldedProgram::members(int buffer, int replicas) const {
  const auto row = rows.find(buffer);
  return row == rows.end() ? std::vector<int>(static_cast<size_t>(replicas), buffer) : row->second;
}

FoldedProgram fold_replicas(const Program& recorded, int replicas) { return Folding(recorded, replicas).run(); }

}  // namespace tutti::tpu
