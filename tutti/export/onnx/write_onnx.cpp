#include "tutti/export/onnx/write_onnx.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/export/call_schema.h"
#include "tutti/export/onnx/call_to_lower.h"
#include "tutti/export/onnx/lowerings.h"
#include "tutti/export/tensor_part.h"

namespace tutti::saved_model::onnx {
namespace {

class OnnxWriter {
 public:
  explicit OnnxWriter(const OnnxSource& source)
      : source_(source),
        program_(source.program),
        graph_(program_.name),
        sizes_(graph_, program_, [this](int number) { return shows_size(number); }),
        values_(source.types.size()) {}

  std::string run();

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw Error(ErrorCode::unimplemented, str("saved_model: the signature '", program_.name, "' ", what,
                                              ", which an ONNX file cannot say; save without .onnx"));
  }
  std::string call_at(size_t index) const;
  std::optional<Operand> shows_size(int number) const { return values_[static_cast<size_t>(number)]; }
  Graph::Dims dims_of(const ValueType& type) const;
  void add_inputs();
  void add_variables();
  void add_call(size_t index);
  void add_outputs();
  void find_memory();
  void check_write(size_t index, int written) const;

  const OnnxSource& source_;
  const Program& program_;
  Graph graph_;
  Sizes sizes_;
  std::vector<std::optional<Operand>> values_;  // by number
  std::vector<int> memory_;                     // by number: the first value that may lie in the same memory
  std::vector<size_t> last_reads_;              // by number: the call, or beyond all for an output
};

std::string OnnxWriter::call_at(size_t index) const {
  const std::string line = line_of(source_.places[index]);
  return str("calls ", program_.calls[index].op, line.empty() ? "" : " at ", line);
}

// Names of unknown extents are those of the program's sizes.
Graph::Dims OnnxWriter::dims_of(const ValueType& type) const {
  const auto name_of = [&](int size) {
    const bool is_batch = size == 0 && std::ranges::any_of(program_.inputs, [](const Spec& spec) {
                            return !spec.shape.empty() && spec.shape[0] == kUnknown;
                          });
    return is_batch ? std::string("batch") : str("size_", size);
  };
  Graph::Dims dims;
  for (const auto& size : type.sizes) {
    if (const auto constant = constant_of(size))
      dims.emplace_back(*constant);
    else if (size && size->constant == 0 && size->terms.size() == 1 && size->terms[0].factor == 1 &&
             size->terms[0].sizes.size() == 1)
      dims.emplace_back(name_of(size->terms[0].sizes[0]));
    else
      dims.emplace_back(std::string());
  }
  return dims;
}

void OnnxWriter::add_inputs() {
  const auto inputs = inputs_of_tensor_part(program_, [&](const std::string& what) { refuse(what); });
  std::map<std::string, int> counts;
  std::vector<std::string> names;
  for (const TensorInput& input : inputs) {
    const int earlier = counts[input.name]++;  // steps of one kind are told apart by numbers
    names.push_back(earlier ? str(input.name, '_', earlier) : input.name);
    graph_.reserve(names.back());
  }
  for (const auto& output : program_.outputs) graph_.reserve(output.spec.name);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const ValueType& type = source_.types[static_cast<size_t>(inputs[i].value)];
    if (!type.is_known()) refuse(str("takes text as '", names[i], '\''));
    values_[static_cast<size_t>(inputs[i].value)] = graph_.input(names[i], type.dtype, dims_of(type));
  }
}

void OnnxWriter::add_variables() {
  for (size_t i = 0; i < source_.variables.size(); ++i) {
    const std::string& name = program_.variables[i];
    std::optional<FilePlace> place;
    if (const auto found = source_.variable_places.find(name); found != source_.variable_places.end())
      place = found->second;
    values_[program_.inputs.size() + i] = graph_.initializer(name, source_.variables[i], std::move(place));
  }
}

// Whether a result may lie in the memory of an argument: a view.
bool may_share(const c10::Argument& result, const c10::Argument& argument) {
  const c10::AliasInfo* alias = result.alias_info();
  if (alias && alias->beforeSets().empty() && !alias->containedTypes().empty()) alias = &alias->containedTypes()[0];
  if (!alias || !argument.alias_info()) return false;
  return std::ranges::any_of(alias->beforeSets(),
                             [&](const auto& set) { return argument.alias_info()->beforeSets().contains(set); });
}

// What may lie in one memory, by LibTorch's schemas.
void OnnxWriter::find_memory() {
  memory_.resize(values_.size());
  std::iota(memory_.begin(), memory_.end(), 0);
  last_reads_.resize(values_.size());
  for (size_t i = 0; i < program_.calls.size(); ++i) {
    const Call& call = program_.calls[i];
    for (const int value : operands_of(call)) last_reads_[static_cast<size_t>(value)] = i;
    if (call.is_step) continue;
    const c10::FunctionSchema& schema = schema_of(call);
    for (size_t r = 0; r < call.results.size(); ++r)
      for (size_t a = 0; a < call.arguments.size(); ++a) {
        const std::vector<int>& operands = call.arguments[a].argument.values;
        if (operands.size() != 1 || operands[0] < 0 || !may_share(schema.returns()[r], schema.arguments()[a])) continue;
        for (const int result : call.results[r].values)
          if (result >= 0) memory_[static_cast<size_t>(result)] = memory_[static_cast<size_t>(operands[0])];
      }
  }
  for (const auto& output : program_.outputs)
    last_reads_[static_cast<size_t>(output.value)] = std::numeric_limits<size_t>::max();
}

// What was written is a new value here; so nothing may read the memory by another one.
void OnnxWriter::check_write(size_t index, int written) const {
  for (size_t other = 0; other < values_.size(); ++other)
    if (static_cast<int>(other) != written && values_[other] && last_reads_[other] > index &&
        memory_[other] == memory_[static_cast<size_t>(written)] &&
        source_.types[other].dtype == source_.types[static_cast<size_t>(written)].dtype)
      refuse(str(call_at(index),
                 " and writes in place what is also read as another view of the same memory; use the "
                 "form that returns a new tensor"));
}

void OnnxWriter::add_call(size_t index) {
  const Call& call = program_.calls[index];
  for (const int written : written_by(call)) check_write(index, written);
  std::vector<int> results;
  for (const Call::Result& result : call.results)
    results.insert(results.end(), result.values.begin(), result.values.end());
  const CallToLower lowered(graph_, sizes_, call, source_.types, values_);
  std::vector<std::optional<Operand>> made;
  try {
    made = lower(lowered, call.op);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::unimplemented) throw;
    const std::string what = error.what();
    refuse(str(call_at(index), what.empty() ? "" : " ", what));
  }
  for (size_t i = 0; i < results.size(); ++i)
    if (results[i] >= 0) values_[static_cast<size_t>(results[i])] = made[i];
}

void OnnxWriter::add_outputs() {
  for (const auto& [spec, number] : program_.outputs) {
    if (spec.is_text) refuse(str("returns text as '", spec.name, '\''));
    const auto& value = values_[static_cast<size_t>(number)];
    if (!value) refuse(str("returns '", spec.name, "', a result of a call that has no form in ONNX"));
    graph_.output(spec.name, *value, dims_of(source_.types[static_cast<size_t>(number)]));
  }
}

std::string OnnxWriter::run() {
  add_inputs();
  add_variables();
  find_memory();
  for (size_t i = 0; i < program_.calls.size(); ++i)
    if (!program_.calls[i].is_step) add_call(i);
  add_outputs();
  return serialize(graph_.finish());
}

}  // namespace

std::string onnx_file(const OnnxSource& source) { return OnnxWriter(source).run(); }

}  // namespace tutti::saved_model::onnx
