#include "tutti/tpu/program_text.h"

#include <algorithm>
#include <cctype>
#include <set>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/stablehlo/lowerings.h"
#include "tutti/stablehlo/memory.h"

namespace tutti::tpu {
namespace {

using stablehlo::Dims;
using stablehlo::Type;
using stablehlo::Value;
using stablehlo::View;
using Kind = Program::Buffer::Kind;

Dims dims_of(const at::DimVector& numbers) { return {numbers.begin(), numbers.end()}; }

View view_of(const Geometry& geometry) {
  if (geometry.conjugate || geometry.negative)
    throw Error(ErrorCode::unimplemented,
                str("a lazily negated or conjugated value in a compiled program: ", to_string(geometry)));
  return {geometry.dtype, dims_of(geometry.sizes), dims_of(geometry.strides), geometry.offset};
}

// A name that the text can have: letters, digits and underscores, of which the first is no digit.
std::string symbol_of(const std::string& name) {
  std::string symbol = name.empty() || std::isdigit(static_cast<unsigned char>(name[0])) ? "_" + name : name;
  std::ranges::replace_if(
      symbol, [](unsigned char c) { return c >= 128 || !std::isalnum(c); }, '_');
  return symbol;
}

class Writer {
 public:
  Writer(const Program& program, const ProgramTextOptions& options)
      : program_(program), options_(options), builder_(options.precision), memory_(builder_) {}

  ProgramText write() {
    const bool several = std::ranges::any_of(program_.calls, [](const auto& call) { return call.replica > 0; });
    if (!program_.meshes.empty() || several)
      throw Error(ErrorCode::unimplemented,
                  str("the function ", options_.name,
                      " uses values of a mesh or runs replicas, and compiled functions are of "
                      "plain tensors"));
    for (const Program::Buffer& buffer : program_.buffers) memory_.add(buffer.bytes);
    take_arguments();
    for (size_t i = 0; i < program_.calls.size(); ++i) write_call(program_.calls[i], i);
    give_results();
    std::vector<int> donated;
    for (const ProgramText::Part& part : text_.arguments) donated.push_back(part.result);
    text_.module = builder_.module(symbol_of(options_.name), results_, donated, options_.replicas);
    return std::move(text_);
  }

 private:
  const Program::Buffer& buffer(int number) const { return program_.buffers[static_cast<size_t>(number)]; }
  const Program::Value& value(int number) const { return program_.values[static_cast<size_t>(number)]; }

  // What a buffer holds as one value: the first tensor that shows all of it, or its elements in a row.
  Type whole(int number) const {
    std::optional<at::ScalarType> dtype;
    for (const Program::Value& one : program_.values) {
      if (one.buffer != number) continue;
      if (!dtype) dtype = one.geometry.dtype;
      const Type type{one.geometry.dtype, dims_of(one.geometry.sizes)};
      const int64_t bytes = stablehlo::numel(type.dims) * static_cast<int64_t>(at::elementSize(type.dtype));
      if (bytes == buffer(number).bytes && view_of(one.geometry) == stablehlo::dense_view(type)) return type;
    }
    const at::ScalarType known = dtype.value_or(at::kByte);
    return {known, {buffer(number).bytes / static_cast<int64_t>(at::elementSize(known))}};
  }

  std::set<int> used_buffers() const {
    std::set<int> used;
    for (const Program::Call& call : program_.calls)
      for (const auto* operands : {&call.arguments, &call.results})
        for (const Program::Operand& operand : *operands)
          for (const int number : operand.values)
            if (number >= 0) used.insert(value(number).buffer);
    for (const Program::Result& result : program_.results)
      if (result.value >= 0) used.insert(value(result.value).buffer);
    for (const Program::Leaf& leaf : program_.leaves)
      if (leaf.changes && leaf.exit_value() >= 0) used.insert(value(leaf.exit_value()).buffer);
    return used;
  }

  void take_arguments() {
    for (const int number : used_buffers()) {
      const Kind kind = buffer(number).kind;
      if (kind == Kind::temporary) continue;
      const Type type = whole(number);
      if (kind == Kind::constant) {
        const c10::Storage& storage = buffer(number).storage;
        const auto bytes = static_cast<size_t>(stablehlo::numel(type.dims)) * at::elementSize(type.dtype);
        memory_.write(number, stablehlo::dense_view(type), builder_.dense(storage.data(), bytes, type));
        continue;
      }
      text_.arguments.push_back({number, type});
      memory_.write(number, stablehlo::dense_view(type), builder_.argument(type));
    }
  }

  std::optional<Value> read(int number) {
    if (number < 0 || not_given_.contains(value(number).buffer)) return std::nullopt;
    const Geometry& geometry = value(number).geometry;
    if (geometry.zero) return builder_.splat(0, {geometry.dtype, dims_of(geometry.sizes)});
    return memory_.read(value(number).buffer, view_of(geometry));
  }

  void write_value(int number, const std::optional<Value>& written) {
    if (number < 0) return;
    const int into = value(number).buffer;
    if (!written) {
      not_given_.insert(into);
      return;
    }
    not_given_.erase(into);
    memory_.write(into, view_of(value(number).geometry), *written);
  }

  // Every device has the sum over all.
  void write_all_reduce(const Program::Call& call) {
    const std::optional<Value> own = read(call.arguments[0].values[0]);
    if (!own) throw Error(ErrorCode::unimplemented, options_.name + ": a sum of what compiled programs do not have");
    Value sum = options_.replicas > 1 ? builder_.all_reduce("add", *own, options_.replicas) : *own;
    if (call.arguments[1].constant.toBool())
      sum = builder_.binary("divide", sum, builder_.splat(options_.replicas, sum.type));
    for (const Program::Operand& result : call.results) write_value(result.values[0], sum);
  }

  // ui64 [2] of a call that draws: the run's key, and the number of 64 bits from which on they are the call's own.
  Value random_state(const Program::Call& call) {
    constexpr int64_t kWordsOfCall = int64_t{1} << 32, kCalls = 1 << 16;
    if (num_draws_ == kCalls)
      throw Error(ErrorCode::unimplemented, str("more than ", kCalls, " calls of a function draw random numbers"));
    const Type type{at::kUInt64, {}};
    if (!key_) {
      key_ = builder_.argument(type);
      text_.arguments.push_back({ProgramText::kKey, type});
    }
    Value counter = builder_.splat(num_draws_++ * kWordsOfCall, type);
    if (call.replica >= 0) {
      const Value replica = builder_.convert(builder_.replica(), at::kUInt64);
      counter = builder_.binary("add", counter,
                                builder_.binary("multiply", replica, builder_.splat(kWordsOfCall * kCalls, type)));
    }
    return builder_.concatenate({builder_.reshape(*key_, {1}), builder_.reshape(counter, {1})}, 0);
  }

  void write_call(const Program::Call& call, size_t index) {
    try {
      write_call_at(call, index);
    } catch (const Error& error) {
      const std::string line = line_of(call.place);
      if (line.empty()) throw;
      throw Error(error.code(), str(error.what(), ". The program made the call at ", line));
    }
  }

  void write_call_at(const Program::Call& call, size_t index) {
    if (call.is_view || call.gives_fresh_memory) return;
    if (!call.op && call.name == "all_reduce") return write_all_reduce(call);
    if (!call.op && call.name == "keep")
      return write_value(call.results[0].values[0], read(call.arguments[0].values[0]));
    const std::string place =
        str("call ", index + 1, " of ", program_.calls.size(), " of the function ", options_.name);
    if (!call.op)
      throw Error(ErrorCode::unimplemented, str("the native step ", call.name, ", ", place,
                                                ", runs on the host alone: use an "
                                                "optimizer that is made of tensor operations"));
    stablehlo::Call lowered{.op = stablehlo::base_name(call.name)};
    if (call.draws) lowered.random_state = random_state(call);
    for (const Program::Operand& operand : call.arguments) {
      stablehlo::Operand& argument = lowered.arguments.emplace_back();
      argument.constant = operand.constant;
      argument.is_tensor = operand.kind != Program::Operand::Kind::constant;
      for (const int number : operand.values) argument.values.push_back(read(number));
    }
    std::vector<int> into;
    for (const Program::Operand& result : call.results) {
      if (result.kind == Program::Operand::Kind::constant) into.push_back(-1);  // an undefined tensor
      into.insert(into.end(), result.values.begin(), result.values.end());
    }
    for (const int number : into) {
      Type type{at::kFloat, {}};
      if (number >= 0) type = {value(number).geometry.dtype, dims_of(value(number).geometry.sizes)};
      lowered.results.push_back(type);
    }
    const stablehlo::Results results = stablehlo::lower(builder_, lowered, place);
    for (size_t i = 0; i < into.size(); ++i) write_value(into[i], i < results.size() ? results[i] : std::nullopt);
    if (lowered.op == "native_batch_norm" &&
        results.size() == 5)  // the running statistics, which its schema does not name
      for (const size_t i : {3, 4}) write_value(call.arguments[i].values.front(), results[i]);
  }

  int give(const Value& result) {
    results_.push_back(result);
    text_.types.push_back(result.type);
    return static_cast<int>(results_.size()) - 1;
  }
  int give_value(int number, const char* what) {
    const std::optional<Value> result = read(number);
    if (!result && number >= 0)
      throw Error(ErrorCode::unimplemented,
                  str("the function ", options_.name, " gives ", what, " that compiled programs do not have"));
    return result ? give(*result) : -1;
  }

  void give_results() {
    for (ProgramText::Part& part : text_.arguments)
      if (part.buffer != ProgramText::kKey && buffer(part.buffer).written)
        part.result = give(memory_.read(part.buffer, stablehlo::dense_view(part.type)));
    for (const Program::Result& result : program_.results)
      text_.results.push_back(give_value(result.value, "a result"));
    for (size_t leaf = 0; leaf < program_.leaves.size(); ++leaf)
      if (program_.leaves[leaf].changes)
        text_.gradients.push_back(
            {static_cast<int>(leaf), give_value(program_.leaves[leaf].exit_value(), "a gradient")});
  }

  const Program& program_;
  const ProgramTextOptions& options_;
  stablehlo::Builder builder_;
  stablehlo::Memory memory_;
  std::set<int> not_given_;  // buffers whose numbers a lowering does not make: indices of a pool
  std::vector<Value> results_;
  std::optional<Value> key_;  // of random numbers
  int64_t num_draws_ = 0;
  ProgramText text_;
};

}  // namespace

ProgramText write_program(const Program& program, const ProgramTextOptions& options) {
  return Writer(program, options).write();
}

}  // namespace tutti::tpu
