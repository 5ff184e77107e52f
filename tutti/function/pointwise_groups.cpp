#include "tutti/function/pointwise_groups.h"

#include <algorithm>
#include <unordered_set>

#include "tutti/function/pointwise_pass.h"

namespace tutti {
namespace {

using Kind = Program::Buffer::Kind;

constexpr size_t kMaxOperands = PointwisePass::kMaxRegisters;  // of a group: results, and operands that are
                                                               // broadcast
constexpr size_t kFarthestJoined = 64;  // calls: what is computed long before it is used takes memory

// Which buffers some calls use.
class Uses {
 public:
  explicit Uses(const Program& program) : program_(program) {}

  void add(const Program::Call& call) {
    for (const int buffer : call.reads) {
      reads_.insert(buffer);
      reads_bound_ |= is_bound(buffer);
      reads_outside_ |= is_outside(buffer);
    }
    for (const int buffer : call.writes) {
      writes_.insert(buffer);
      writes_bound_ |= is_bound(buffer);
      writes_outside_ |= is_outside(buffer);
    }
  }
  // Whether it counts which of them comes first.
  bool depend_on(const Program::Call& call) const {
    return std::any_of(call.reads.begin(), call.reads.end(), [&](int buffer) { return written(buffer); }) ||
           std::any_of(call.writes.begin(), call.writes.end(),
                       [&](int buffer) { return written(buffer) || read(buffer); });
  }
  // The same of different buffers alone: memory of arguments and gradients may be anybody's.
  bool may_overlap(const Program::Call& call) const {
    const auto overlaps = [&](int buffer, bool bound, bool outside) {
      return is_outside(buffer) && (bound || (outside && is_bound(buffer)));
    };
    return std::any_of(call.reads.begin(), call.reads.end(),
                       [&](int buffer) { return overlaps(buffer, writes_bound_, writes_outside_); }) ||
           std::any_of(call.writes.begin(), call.writes.end(), [&](int buffer) {
             return overlaps(buffer, writes_bound_ || reads_bound_, writes_outside_ || reads_outside_);
           });
  }

 private:
  bool is_bound(int buffer) const {
    const Kind kind = program_.buffers[static_cast<size_t>(buffer)].kind;
    return kind == Kind::argument || kind == Kind::gradient || kind == Kind::replica;
  }
  bool is_outside(int buffer) const {
    return is_bound(buffer) || program_.buffers[static_cast<size_t>(buffer)].kind == Kind::captured;
  }
  bool written(int buffer) const { return writes_.count(buffer) > 0; }
  bool read(int buffer) const { return reads_.count(buffer) > 0; }

  const Program& program_;
  std::unordered_set<int> reads_, writes_;
  bool reads_bound_ = false, reads_outside_ = false, writes_bound_ = false, writes_outside_ = false;
};

struct Candidate {
  const Program::Call* call;
  std::optional<PointwiseOp> op;
  bool done = false;
};

class Grouping {
 public:
  Grouping(const Program& program, const std::vector<const Program::Call*>& calls) : program_(program) {
    for (const Program::Call* const call : calls) {
      candidates_.push_back({call, pointwise_op_of(program, *call)});
      if (!is_on_host(program, *call) || overlaps_itself(*call)) candidates_.back().op.reset();
    }
  }

  std::vector<CallGroup> run() {
    std::vector<CallGroup> groups;
    for (size_t i = 0; i < candidates_.size(); ++i) {
      if (candidates_[i].done) continue;
      groups.emplace_back();
      take(candidates_[i], groups.back());
      if (candidates_[i].op) take_others(i, groups.back());
    }
    mark_kept(groups);
    return groups;
  }

 private:
  // Whether it writes memory that may lie across that of another operand, where LibTorch throws.
  bool overlaps_itself(const Program::Call& call) const {
    Uses written(program_);
    Program::Call writes_alone;
    writes_alone.writes = call.writes;
    written.add(writes_alone);
    Program::Call reads_others;
    for (const int buffer : call.reads)
      if (std::find(call.writes.begin(), call.writes.end(), buffer) == call.writes.end())
        reads_others.reads.push_back(buffer);
    return written.may_overlap(reads_others);
  }

  static void take(Candidate& candidate, CallGroup& group) {
    candidate.done = true;
    group.calls.push_back(candidate.call);
    if (candidate.op) group.ops.push_back(*candidate.op);
  }

  void take_others(size_t first, CallGroup& group) {
    Uses skipped(program_), in_group(program_);
    in_group.add(*candidates_[first].call);
    bool skipped_may_throw = false;
    const size_t end = std::min(candidates_.size(), first + kFarthestJoined);
    for (size_t i = first + 1; i < end; ++i) {
      Candidate& next = candidates_[i];
      if (next.done) continue;
      const Program::Call& call = *next.call;
      const Program::Call& leader = *group.calls[0];
      if (!call.op || call.replica != leader.replica || call.one_thread != leader.one_thread) return;
      const bool joins = next.op && !(skipped_may_throw && writes_outside(*next.op)) && !skipped.depend_on(call) &&
                         !skipped.may_overlap(call) && !in_group.may_overlap(call) && fits(*next.op, group);
      if (joins) {
        take(next, group);
        in_group.add(call);
      } else {
        skipped.add(call);
        skipped_may_throw |= !next.op;
      }
    }
  }

  bool writes_outside(const PointwiseOp& op) const { return buffer_of(op.out).kind != Kind::temporary; }

  // One domain, and of a buffer that the group writes all elements are used where they are written.
  bool fits(const PointwiseOp& op, const CallGroup& group) const {
    const Geometry &own = value(op.out).geometry, &shared = value(group.ops[0].out).geometry;
    if (own.sizes != shared.sizes || own.strides != shared.strides) return false;
    size_t num_operands = num_operands_of(op);
    for (const PointwiseOp& other : group.ops) {
      num_operands += num_operands_of(other);
      if (!goes_with(op, other) || !goes_with(other, op)) return false;
    }
    return num_operands <= kMaxOperands;
  }

  static size_t num_operands_of(const PointwiseOp& op) {
    return 1 + !(op.spread_of_a == Spread{op.count}) + (op.b >= 0 && !(op.spread_of_b == Spread{op.count}));
  }

  // Of what `writer` writes.
  bool goes_with(const PointwiseOp& op, const PointwiseOp& writer) const {
    const int written = value(writer.out).buffer;
    const auto alike = [&](int used, const Spread& spread) {
      return used < 0 || value(used).buffer != written || (used == writer.out && spread == Spread{op.count});
    };
    return alike(op.out, {op.count}) && alike(op.a, op.spread_of_a) && alike(op.b, op.spread_of_b);
  }

  // A temporary that no other group uses stays out of memory.
  void mark_kept(std::vector<CallGroup>& groups) const {
    constexpr int kNone = -1, kSeveral = -2;
    std::vector<int> user(program_.buffers.size(), kNone);
    for (size_t i = 0; i < groups.size(); ++i)
      for (const Program::Call* const call : groups[i].calls)
        for (const auto* buffers : {&call->reads, &call->writes})
          for (const int buffer : *buffers) {
            int& known = user[static_cast<size_t>(buffer)];
            known = known == kNone || known == static_cast<int>(i) ? static_cast<int>(i) : kSeveral;
          }
    const auto goes_out = [&](int result) {
      if (result >= 0) user[static_cast<size_t>(value(result).buffer)] = kSeveral;
    };
    for (const Program::Result& result : program_.results) goes_out(result.value);
    for (const Program::Leaf& leaf : program_.leaves) std::ranges::for_each(leaf.exit_values, goes_out);
    for (CallGroup& group : groups)
      for (const PointwiseOp& op : group.ops)
        group.kept.push_back(writes_outside(op) || user[static_cast<size_t>(value(op.out).buffer)] == kSeveral);
  }

  const Program::Value& value(int number) const { return program_.values[static_cast<size_t>(number)]; }
  const Program::Buffer& buffer_of(int number) const {
    return program_.buffers[static_cast<size_t>(value(number).buffer)];
  }

  const Program& program_;
  std::vector<Candidate> candidates_;
};

}  // namespace

std::vector<CallGroup> group_calls(const Program& program, const std::vector<const Program::Call*>& calls) {
  return Grouping(program, calls).run();
}

}  // namespace tutti
