#include "tutti/function/sub_program.h"

#include <algorithm>
#include <unordered_map>

namespace tutti {
namespace {

using Buffer = Program::Buffer;

// Numbers the values of a program anew, in the order in which they are asked for.
class Renumbered {
 public:
  // `buffer`: the new number of a buffer.
  Renumbered(const std::vector<Program::Value>& values, FunctionRef<int(int buffer)> buffer)
      : old_(values), buffer_(buffer) {}

  int value(int number) {
    if (number < 0) return number;
    const auto [known, is_new] = numbers_.try_emplace(number, static_cast<int>(values_.size()));
    if (is_new) {
      const Program::Value& old = old_[static_cast<size_t>(number)];
      values_.push_back({buffer_(old.buffer), old.geometry});
    }
    return known->second;
  }

  Program::Call call(Program::Call call) {
    for (auto* operands : {&call.arguments, &call.results})
      for (Program::Operand& operand : *operands)
        for (int& number : operand.values) number = value(number);
    for (auto* buffers : {&call.reads, &call.writes})
      for (int& number : *buffers) number = buffer_(number);
    return call;
  }

  std::vector<Program::Value> take_values() { return std::move(values_); }

 private:
  const std::vector<Program::Value>& old_;
  FunctionRef<int(int buffer)> buffer_;
  std::unordered_map<int, int> numbers_;
  std::vector<Program::Value> values_;
};

}  // namespace

SubProgram sub_program(const Program& whole, const std::vector<Program::Call>& calls, const std::vector<int>& results,
                       FunctionRef<bool(int buffer)> is_made_inside, std::vector<int> inputs) {
  SubProgram sub{.program = {.name = whole.name}, .inputs = std::move(inputs)};
  Program& program = sub.program;
  std::unordered_map<int, int> numbers;
  const auto add_argument = [&](int number) {
    const int index = static_cast<int>(numbers.size());
    numbers.emplace(number, static_cast<int>(program.buffers.size()));
    const Buffer& buffer = whole.buffers[static_cast<size_t>(number)];
    program.buffers.push_back(
        {.kind = Buffer::Kind::argument, .bytes = buffer.bytes, .device = buffer.device, .index = index});
  };
  for (const int number : sub.inputs) add_argument(number);
  const auto buffer_of = [&](int number) {
    const auto [known, is_new] = numbers.try_emplace(number, static_cast<int>(program.buffers.size()));
    if (!is_new) return known->second;
    Buffer buffer = whole.buffers[static_cast<size_t>(number)];
    if (!is_made_inside(number)) {
      buffer = {.kind = Buffer::Kind::argument,
                .bytes = buffer.bytes,
                .device = buffer.device,
                .index = static_cast<int>(sub.inputs.size())};
      sub.inputs.push_back(number);
    }
    buffer.written = false;
    program.buffers.push_back(std::move(buffer));
    return known->second;
  };
  Renumbered renumbered(whole.values, buffer_of);
  for (const Program::Call& call : calls) {
    program.calls.push_back(renumbered.call(call));
    for (const int written : program.calls.back().writes) program.buffers[static_cast<size_t>(written)].written = true;
  }
  for (const int result : results) program.results.push_back({.value = renumbered.value(result)});
  program.values = renumbered.take_values();
  return sub;
}

void leave_out(Program& program, FunctionRef<bool(int buffer)> is_left_out) {
  std::vector<int> numbers;
  std::vector<Buffer> buffers;
  for (size_t i = 0; i < program.buffers.size(); ++i) {
    numbers.push_back(static_cast<int>(buffers.size()));
    if (!is_left_out(static_cast<int>(i))) buffers.push_back(std::move(program.buffers[i]));
  }
  program.buffers = std::move(buffers);
  const auto new_number = [&](int number) { return numbers[static_cast<size_t>(number)]; };
  Renumbered renumbered(program.values, new_number);
  for (Program::Call& call : program.calls) call = renumbered.call(std::move(call));
  for (Program::Result& result : program.results) result.value = renumbered.value(result.value);
  for (Program::Leaf& leaf : program.leaves) {
    for (int& number : leaf.exit_values) number = renumbered.value(number);
    for (int& number : leaf.entry_buffers) number = new_number(number);
  }
  program.values = renumbered.take_values();
}

}  // namespace tutti
