#include "tutti/export/check_program.h"

#include <algorithm>
#include <set>

#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti::saved_model {
namespace {

using Kind = Argument::Kind;

constexpr size_t kMaxRank = 64;

bool is_plain_name(std::string_view name) {
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
           c == '.';
  };
  return !name.empty() && name.size() <= 100 && name[0] != '.' && std::all_of(name.begin(), name.end(), is_plain);
}

bool is_file_name(std::string_view name) {
  constexpr std::string_view kAssets = "assets/";
  if (name.starts_with(kAssets)) return is_plain_name(name.substr(kAssets.size()));
  return is_plain_name(name) && name != kDescriptionName && name != "assets";
}

// Reads the calls of a program in their order.
class Checker {
 public:
  Checker(const Program& program, const std::string& source)
      : program_(program), source_(source), num_values_(program.num_given()) {}

  void check(const std::set<std::string_view>& variables);

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorCode::data_loss, str(source_, ": the signature '", program_.name, "' ", what));
  }
  void check_spec(const Spec& spec) const;
  void check_sizes(int num_values) const;
  void check_integer(const Integer& integer) const;
  void check_argument(const Argument& argument) const;
  void check_call(const Call& call);
  void take(const Call::Result& result);

  const Program& program_;
  const std::string& source_;
  int num_values_;  // that there are before the call at hand
};

void Checker::check_spec(const Spec& spec) const {
  if (spec.name.empty()) fail("has an input or output without a name");
  if (spec.shape.size() > kMaxRank) fail(str("has '", spec.name, "' of ", spec.shape.size(), " axes"));
  for (const int64_t size : spec.shape)
    if (size < kUnknown) fail(str("has '", spec.name, "' of a size ", size));
}

void Checker::check_sizes(int num_values) const {
  for (const auto& places : program_.sizes) {
    if (places.empty()) fail("has a size that is nowhere");
    for (const Place& place : places)
      if (place.value >= num_values || static_cast<size_t>(place.axis) >= kMaxRank)
        fail(str("looks for a size at axis ", place.axis, " of value ", place.value, " of ", num_values));
  }
}

void Checker::check_integer(const Integer& integer) const {
  for (const Integer::Term& term : integer.terms) {
    if (term.sizes.empty() || term.sizes.size() > 2) fail(str("has a product of ", term.sizes.size(), " sizes"));
    for (const int size : term.sizes) {
      const bool is_there = static_cast<size_t>(size) < program_.sizes.size();
      if (!is_there || std::ranges::none_of(program_.sizes[static_cast<size_t>(size)],
                                            [&](const Place& place) { return place.value < num_values_; }))
        fail(str("uses the size ", size, " before it is known"));
    }
  }
}

void Checker::check_argument(const Argument& argument) const {
  const auto single = [&](size_t count) {
    if (count != 1) fail(str("has an argument of ", count, " parts where one is required"));
  };
  for (const int value : argument.values)
    if (value >= num_values_) fail(str("reads value ", value, " before it is made"));
  for (const Integer& integer : argument.integers) check_integer(integer);
  switch (argument.kind) {
    case Kind::value: return single(argument.values.size());
    case Kind::boolean:
    case Kind::integer:
    case Kind::integer_scalar: single(argument.integers.size()); break;
    case Kind::number:
    case Kind::number_scalar: return single(argument.numbers.size());
    default: break;
  }
  if (argument.kind == Kind::boolean || argument.kind == Kind::booleans)
    for (const Integer& flag : argument.integers)
      if (!flag.terms.empty() || (flag.constant != 0 && flag.constant != 1)) fail("has a flag that is not 0 or 1");
}

void Checker::take(const Call::Result& result) {
  for (const int value : result.values) {
    if (value > num_values_) fail(str("makes value ", value, " where value ", num_values_, " is the next"));
    if (value == num_values_) ++num_values_;
  }
}

void Checker::check_call(const Call& call) {
  std::set<std::string_view> names;
  for (const auto& [name, argument] : call.arguments) {
    if (!names.insert(name).second) fail(str("calls ", call.op, " with two arguments '", name, "'"));
    check_argument(argument);
  }
  if (call.is_step) {
    const auto takes = [&](const char* argument, Kind kind) {
      return call.arguments.size() == 1 && call.arguments[0].name == argument &&
             call.arguments[0].argument.kind == kind &&
             std::ranges::all_of(call.arguments[0].argument.values, [](int value) { return value >= 0; });
    };
    const bool has_input = takes("input", Kind::value) || takes("inputs", Kind::values);
    const bool gives_one =
        call.results.size() == 1 && !call.results[0].is_list && call.results[0].values[0] == num_values_;
    if (!has_input || !gives_one) fail(str("has a step ", call.op, " that does not make one value of others"));
  }
  for (const Call::Result& result : call.results) take(result);
}

void Checker::check(const std::set<std::string_view>& variables) {
  if (!is_signature_name(program_.name)) fail("has no possible name");
  std::set<std::string_view> names;
  for (const Spec& input : program_.inputs) {
    check_spec(input);
    if (!names.insert(input.name).second) fail(str("has two inputs '", input.name, "'"));
  }
  for (const std::string& name : program_.variables)
    if (!variables.contains(name)) fail(str("uses a variable '", name, "' that is not there"));
  for (const Call& call : program_.calls) check_call(call);
  check_sizes(num_values_);
  names.clear();
  for (const Program::Output& output : program_.outputs) {
    check_spec(output.spec);
    if (!names.insert(output.spec.name).second) fail(str("has two outputs '", output.spec.name, "'"));
    if (output.value >= num_values_) fail(str("returns value ", output.value, ", which is not made"));
  }
}

}  // namespace

bool is_signature_name(const std::string& name) { return is_plain_name(name); }

void check_description(const Description& description, const std::string& source) {
  const auto fail = [&](const std::string& what) { throw Error(ErrorCode::data_loss, str(source, ": ", what)); };
  std::set<std::string_view> files, variables, signatures;
  for (const Description::File& file : description.files) {
    if (!is_file_name(file.name) || file.num_bytes < 0) fail(str("no file of a saved model: '", file.name, "'"));
    if (!files.insert(file.name).second) fail(str("two files '", file.name, "'"));
  }
  for (const Description::Variable& variable : description.variables)
    if (!variables.insert(variable.name).second) fail(str("two variables '", variable.name, "'"));
  for (const Program& program : description.signatures) {
    if (!signatures.insert(program.name).second) fail(str("two signatures '", program.name, "'"));
    Checker(program, source).check(variables);
  }
}

}  // namespace tutti::saved_model
