#include "tutti/function/pointwise_pass.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <unordered_map>

#include "tutti/core/error.h"
#include "tutti/tensor/parallel_ranges.h"

namespace tutti {
namespace {

constexpr int64_t kBlock = 1024;  // elements
constexpr int64_t kElementsWorthAThread = 32768;

// The elements [begin, begin + count) of what a broadcast operand is.
void broadcast(const float* operand, const Spread& spread, int64_t begin, int64_t count, float* to) {
  if (spread.count == 1) {
    std::fill_n(to, count, *operand);
    return;
  }
  if (spread.repeats == 1) {
    const auto copy = [](const float* from, int64_t size, float* place) {
      std::memcpy(place, from, static_cast<size_t>(size) * sizeof(float));
    };
    const int64_t from = begin % spread.count, first = std::min(count, spread.count - from);
    copy(operand + from, first, to);
    copy(operand, std::min(count - first, from), to + first);
    for (int64_t done = spread.count; done < count; done *= 2) copy(to, std::min(done, count - done), to + done);
    return;
  }
  for (int64_t done = 0; done < count;) {
    const int64_t at = begin + done, size = std::min(count - done, spread.repeats - at % spread.repeats);
    std::fill_n(to + done, size, operand[at / spread.repeats % spread.count]);
    done += size;
  }
}

}  // namespace

// Which scratch blocks are in use, and what lies where.
class PointwisePass::Registers {
 public:
  size_t take() {
    const auto free = std::find(used_.begin(), used_.end(), false);
    if (free == used_.end()) throw Error(ErrorCode::internal, "PointwisePass: too many values at once");
    *free = true;
    return static_cast<size_t>(free - used_.begin());
  }
  // One that no result has at any time.
  size_t take_for_good() {
    const auto last = std::find(used_.rbegin(), used_.rend(), false);
    *last = true;
    return static_cast<size_t>(used_.rend() - last) - 1;
  }
  void give_back(size_t number) { used_[number] = false; }

  std::unordered_map<int, Place> places = {};  // of values that are used whole

 private:
  std::array<bool, kMaxRegisters> used_{};
};

PointwisePass::PointwisePass(const std::vector<PointwiseOp>& ops, const std::vector<bool>& kept)
    : count_(ops[0].count), block_(kBlock) {
  std::unordered_map<int, size_t> last_use;
  for (size_t i = 0; i < ops.size(); ++i)
    for (const int value : {ops[i].out, ops[i].a, ops[i].b}) last_use[value] = i;
  Registers registers;
  for (size_t i = 0; i < ops.size(); ++i) {
    const PointwiseOp& op = ops[i];
    Instruction instruction{.what = op.what, .numbers = op.numbers};
    instruction.a = operand(registers, op.a, op.spread_of_a);
    if (op.b >= 0) instruction.b = operand(registers, op.b, op.spread_of_b);
    if (kept[i]) {
      instruction.out = {Place::Kind::memory, value_number(op.out)};
      is_written_[instruction.out.number] = true;
    } else if (const auto known = registers.places.find(op.out);
               known != registers.places.end() && known->second.kind == Place::Kind::scratch) {
      instruction.out = known->second;
    } else {
      instruction.out = {Place::Kind::scratch, registers.take()};
    }
    registers.places[op.out] = instruction.out;
    instructions_.push_back(instruction);
    for (const int value : {op.out, op.a, op.b}) {
      const auto place = registers.places.find(value);
      if (last_use[value] != i || place == registers.places.end()) continue;
      if (place->second.kind == Place::Kind::scratch) registers.give_back(place->second.number);
      registers.places.erase(place);
    }
  }
  const auto period = [](const Broadcast& operand) { return operand.spread.count * operand.spread.repeats; };
  int64_t shared = 1;
  for (const Broadcast& operand : broadcasts_)
    if (operand.spread.count > 1) shared = std::max(shared, period(operand));
  repeats_with_blocks_ =
      shared <= kBlock && std::all_of(broadcasts_.begin(), broadcasts_.end(), [&](const Broadcast& one) {
        return one.spread.count == 1 || shared % period(one) == 0;
      });
  if (repeats_with_blocks_) block_ = kBlock / shared * shared;
  if (ops.size() == 1 && broadcasts_.empty()) block_ = count_;
}

size_t PointwisePass::value_number(int value) {
  const auto found = std::find(values_.begin(), values_.end(), value);
  if (found != values_.end()) return static_cast<size_t>(found - values_.begin());
  values_.push_back(value);
  is_written_.push_back(false);
  return values_.size() - 1;
}

PointwisePass::Place PointwisePass::operand(Registers& registers, int value, const Spread& spread) {
  if (spread != Spread{count_}) {
    broadcasts_.push_back({value_number(value), registers.take_for_good(), spread});
    return {Place::Kind::scratch, broadcasts_.back().scratch};
  }
  const auto known = registers.places.find(value);
  return known != registers.places.end() ? known->second : Place{Place::Kind::memory, value_number(value)};
}

void PointwisePass::run(at::ArrayRef<float*> first_elements) const {
  parallel_ranges(count_, kElementsWorthAThread,
                  [&](int64_t begin, int64_t end) { run_range(first_elements, begin, end); });
}

void PointwisePass::run_range(at::ArrayRef<float*> first_elements, int64_t range_begin, int64_t range_end) const {
  alignas(64) float scratch[kMaxRegisters][kBlock];
  for (int64_t begin = range_begin; begin < range_end; begin += block_) {
    const int64_t count = std::min(block_, range_end - begin);
    if (begin == range_begin || !repeats_with_blocks_)
      for (const Broadcast& operand : broadcasts_)
        broadcast(first_elements[operand.value], operand.spread, begin, count, scratch[operand.scratch]);
    const auto at = [&](const Place& place) -> float* {
      switch (place.kind) {
        case Place::Kind::memory: return first_elements[place.number] + begin;
        case Place::Kind::scratch: return scratch[place.number];
        case Place::Kind::none: break;
      }
      return nullptr;
    };
    for (const Instruction& one : instructions_)
      compute_pointwise(one.what, at(one.out), at(one.a), at(one.b), count, one.numbers);
  }
}

}  // namespace tutti
