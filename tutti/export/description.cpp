#include "tutti/export/description.h"

#include <array>
#include <cmath>
#include <limits>

#include "tutti/checkpoint/sealed_json.h"
#include "tutti/core/json.h"
#include "tutti/core/str.h"
#include "tutti/export/check_program.h"
#include "tutti/files/dtype_names.h"

namespace tutti::saved_model {
namespace {

using Kind = Argument::Kind;

constexpr std::string_view kFormat = "tutti saved model";

// By Kind.
constexpr std::array<std::string_view, 13> kTags = {"none",    "value",          "values",       "boolean", "booleans",
                                                    "integer", "integers",       "number",       "numbers", "text",
                                                    "device",  "integer scalar", "number scalar"};

// --- writing ---------------------------------------------------------------------------------------------------------

template <class Items, class Write>
std::string list_of(const Items& items, Write write, std::string_view separator = ", ") {
  std::string text = "[";
  for (const auto& item : items) text += str(text.size() > 1 ? separator : "", write(item));
  return text + ']';
}

std::string number_text(double number) {
  if (std::isnan(number)) return "\"nan\"";
  if (std::isinf(number)) return number > 0 ? "\"inf\"" : "\"-inf\"";
  return json_number(number);
}

std::string whole(int64_t number) { return std::to_string(number); }

// 7, or [7, [2, 0]]: 7 and twice the size 0.
std::string integer_text(const Integer& integer) {
  if (integer.terms.empty()) return whole(integer.constant);
  std::string text = '[' + whole(integer.constant);
  for (const Integer::Term& term : integer.terms) {
    text += ", [" + whole(term.factor);
    for (const int size : term.sizes) text += ", " + whole(size);
    text += ']';
  }
  return text + ']';
}

// ["integer", 7]
std::string argument_text(const Argument& argument) {
  std::string text = str("[\"", kTags[static_cast<size_t>(argument.kind)], '"');
  for (const int value : argument.values) text += ", " + whole(value);
  for (const Integer& integer : argument.integers) text += ", " + integer_text(integer);
  for (const double number : argument.numbers) text += ", " + number_text(number);
  if (argument.kind == Kind::text) text += ", " + json_text(argument.text);
  return text + ']';
}

std::string spec_text(const Spec& spec) {
  const auto extent = [](int64_t size) { return size == kUnknown ? "\"unknown\"" : whole(size); };
  return str("\"name\": ", json_text(spec.name), ", \"dtype\": \"",
             spec.is_text ? "text" : files::dtype_name(spec.dtype), "\", \"shape\": ", list_of(spec.shape, extent));
}

std::string call_text(const Call& call) {
  const auto argument = [](const Call::NamedArgument& named) {
    return str('[', json_text(named.name), ", ", argument_text(named.argument), ']');
  };
  const auto result = [](const Call::Result& values) {
    return values.is_list ? list_of(values.values, whole) : whole(values.values[0]);
  };
  std::string text = str(call.is_step ? "{\"step\": " : "{\"op\": ", json_text(call.op));
  if (call.is_step) text += str(", \"version\": ", whole(call.version), ", \"config\": ", call.config);
  return text + str(", \"arguments\": ", list_of(call.arguments, argument),
                    ", \"results\": ", list_of(call.results, result), '}');
}

constexpr std::string_view kLines = ",\n    ";

std::string program_text(const Program& program) {
  const auto place = [](const Place& at) { return str('[', whole(at.value), ", ", whole(at.axis), ']'); };
  return str("  {\"name\": ", json_text(program.name), ",\n   \"inputs\": ",
             list_of(
                 program.inputs, [](const Spec& spec) { return '{' + spec_text(spec) + '}'; }, kLines),
             ",\n   \"variables\": ", list_of(program.variables, json_text, kLines),
             ",\n   \"sizes\": ", list_of(program.sizes, [&](const auto& places) { return list_of(places, place); }),
             ",\n   \"calls\": ", list_of(program.calls, call_text, kLines), ",\n   \"outputs\": ",
             list_of(
                 program.outputs,
                 [](const Program::Output& output) {
                   return str('{', spec_text(output.spec), ", \"value\": ", whole(output.value), '}');
                 },
                 kLines),
             '}');
}

// --- reading ---------------------------------------------------------------------------------------------------------

class DescriptionReader {
 public:
  DescriptionReader(std::string_view text, std::string_view source) : text_(text), json_(text, source) {}

  Description read();

 private:
  int number(int64_t least = 0);
  double floating();
  Integer integer();
  Argument argument();
  Spec spec(Program::Output* output);
  Call call();
  Call::Result result();
  Program program();
  Description::File file();
  std::string raw_object();

  std::string_view text_;
  JsonReader json_;
};

int DescriptionReader::number(int64_t least) {
  const int64_t number = json_.integer();
  if (number < least || number > std::numeric_limits<int>::max()) json_.fail(str("no such number: ", number));
  return static_cast<int>(number);
}

double DescriptionReader::floating() {
  if (!json_.at_text()) return json_.number();
  const std::string text = json_.text();
  if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (text == "inf") return std::numeric_limits<double>::infinity();
  if (text == "-inf") return -std::numeric_limits<double>::infinity();
  json_.fail(str("expected a number, found \"", text, '"'));
}

Integer DescriptionReader::integer() {
  Integer integer;
  if (!json_.at_array()) {
    integer.constant = json_.integer();
    return integer;
  }
  bool first = true;
  json_.array([&] {
    if (std::exchange(first, false)) {
      integer.constant = json_.integer();
      return;
    }
    Integer::Term term;
    bool has_factor = false;
    json_.array([&] {
      if (std::exchange(has_factor, true))
        term.sizes.push_back(number());
      else
        term.factor = json_.integer();
    });
    integer.terms.push_back(std::move(term));
  });
  return integer;
}

Argument DescriptionReader::argument() {
  Argument argument;
  bool has_tag = false;
  json_.array([&] {
    if (!std::exchange(has_tag, true)) {
      const std::string tag = json_.text();
      const auto found = std::find(kTags.begin(), kTags.end(), tag);
      if (found == kTags.end()) json_.fail(str("no kind of argument: \"", tag, '"'));
      argument.kind = static_cast<Kind>(found - kTags.begin());
      return;
    }
    switch (argument.kind) {
      case Kind::none:
      case Kind::device: json_.fail("an argument of this kind has no value");
      case Kind::value: argument.values.push_back(number()); break;
      case Kind::values: argument.values.push_back(number(-1)); break;
      case Kind::number:
      case Kind::numbers:
      case Kind::number_scalar: argument.numbers.push_back(floating()); break;
      case Kind::text: argument.text += json_.text(); break;
      default: argument.integers.push_back(integer());
    }
  });
  if (!has_tag) json_.fail("an argument without its kind");
  return argument;
}

// Of an output, its value too.
Spec DescriptionReader::spec(Program::Output* output) {
  Spec spec;
  const auto shape = [&] {
    json_.array([&] {
      if (!json_.at_text())
        spec.shape.push_back(number());
      else if (json_.text() == "unknown")
        spec.shape.push_back(kUnknown);
      else
        json_.fail("a size is a number or unknown");
    });
  };
  const auto dtype = [&] {
    const std::string name = json_.text();
    spec.is_text = name == "text";
    const auto found = files::dtype_of_name(name);
    if (!found && !spec.is_text) json_.fail(str("no dtype: \"", name, '"'), ErrorCode::unimplemented);
    if (found) spec.dtype = *found;
  };
  const auto value = [&] {
    if (!output) json_.fail("an input has no value");
    output->value = number();
  };
  json_.object("a spec",
               {{"name", [&] { spec.name = json_.text(); }}, {"dtype", dtype}, {"shape", shape}, {"value", value}});
  return spec;
}

Call::Result DescriptionReader::result() {
  Call::Result result{.is_list = json_.at_array()};
  if (result.is_list)
    json_.array([&] { result.values.push_back(number(-1)); });
  else
    result.values.push_back(number(-1));
  return result;
}

std::string DescriptionReader::raw_object() {
  const size_t begin = json_.at();
  json_.skip();
  std::string_view text = text_.substr(begin, json_.at() - begin);
  text.remove_prefix(std::min(text.size(), text.find_first_not_of(" \n\r\t")));
  if (!text.starts_with('{')) json_.fail("expected an object");
  return std::string(text);
}

Call DescriptionReader::call() {
  Call call;
  const auto arguments = [&] {
    json_.array([&] {
      Call::NamedArgument named;
      int part = 0;
      json_.array([&] {
        if (part == 0)
          named.name = json_.text();
        else if (part == 1)
          named.argument = argument();
        else
          json_.fail("an argument is a name and a value");
        ++part;
      });
      if (part != 2) json_.fail("an argument is a name and a value");
      call.arguments.push_back(std::move(named));
    });
  };
  int names = 0;
  json_.object("a call", {{"op", [&] { call.op = json_.text(), ++names; }},
                          {"step", [&] { call.op = json_.text(), call.is_step = true, ++names; }},
                          {"version", [&] { call.version = json_.integer(); }},
                          {"config", [&] { call.config = raw_object(); }},
                          {"arguments", arguments},
                          {"results", [&] { json_.array([&] { call.results.push_back(result()); }); }}});
  if (names != 1) json_.fail("a call is of one op or of one step");
  if (call.is_step != !call.config.empty() || call.is_step != (call.version > 0))
    json_.fail("a step, and no op, has a version and a config");
  return call;
}

Program DescriptionReader::program() {
  Program program;
  const auto places = [&] {
    std::vector<Place> size;
    json_.array([&] {
      std::vector<int> numbers;
      json_.array([&] { numbers.push_back(number()); });
      if (numbers.size() != 2) json_.fail("a size is at an axis of a value");
      size.push_back({numbers[0], numbers[1]});
    });
    program.sizes.push_back(std::move(size));
  };
  const auto output = [&] {
    Program::Output made;
    made.spec = spec(&made);
    program.outputs.push_back(std::move(made));
  };
  json_.object("a signature", {{"name", [&] { program.name = json_.text(); }},
                               {"inputs", [&] { json_.array([&] { program.inputs.push_back(spec(nullptr)); }); }},
                               {"variables", [&] { json_.array([&] { program.variables.push_back(json_.text()); }); }},
                               {"sizes", [&] { json_.array(places); }},
                               {"calls", [&] { json_.array([&] { program.calls.push_back(call()); }); }},
                               {"outputs", [&] { json_.array(output); }}});
  return program;
}

Description::File DescriptionReader::file() {
  Description::File file;
  const auto crc = [&] {
    const auto parsed = checkpoint::parse_crc(json_.text_view());
    if (!parsed) json_.fail("not a CRC32C");
    file.crc32c = *parsed;
  };
  json_.object("a file", {{"name", [&] { file.name = json_.text(); }},
                          {"bytes", [&] { file.num_bytes = json_.integer(); }},
                          {"crc32c", crc}});
  return file;
}

Description DescriptionReader::read() {
  Description description;
  std::string format;
  int64_t version = 0;
  const auto read_version = [&] {
    version = json_.integer();
    if (format != kFormat || version < 1) json_.fail(str("not a ", kFormat));
    if (version > kFormatVersion)
      json_.fail(str("written in version ", version, " of the format; this library reads versions up to ",
                     kFormatVersion, ". A newer one can read it"),
                 ErrorCode::unimplemented);
  };
  const auto variable = [&] {
    Description::Variable made;
    json_.object("a variable", {{"name", [&] { made.name = json_.text(); }},
                                {"requires_grad", [&] { made.requires_grad = number() != 0; }}});
    description.variables.push_back(std::move(made));
  };
  json_.object("the description",
               {{"format", [&] { format = json_.text(); }},
                {"version", read_version},
                {"torch", [&] { description.torch_version = json_.text(); }},
                {"files", [&] { json_.array([&] { description.files.push_back(file()); }); }},
                {"variables", [&] { json_.array(variable); }},
                {"signatures", [&] { json_.array([&] { description.signatures.push_back(program()); }); }}});
  json_.end();
  if (version == 0) json_.fail(str("not a ", kFormat));
  return description;
}

}  // namespace

std::string description_text(const Description& description) {
  const auto file = [](const Description::File& entry) {
    return str("{\"name\": ", json_text(entry.name), ", \"bytes\": ", whole(entry.num_bytes), ", \"crc32c\": \"",
               checkpoint::crc_text(entry.crc32c), "\"}");
  };
  const auto variable = [](const Description::Variable& entry) {
    return str("{\"name\": ", json_text(entry.name), ", \"requires_grad\": ", entry.requires_grad ? 1 : 0, '}');
  };
  return checkpoint::seal(str("{\"format\": \"", kFormat, "\", \"version\": ", whole(kFormatVersion),
                              ", \"torch\": ", json_text(description.torch_version),
                              ",\n \"files\": ", list_of(description.files, file, ",\n  "),
                              ",\n \"variables\": ", list_of(description.variables, variable, ",\n  "),
                              ",\n \"signatures\": ", list_of(description.signatures, program_text, ",\n"), "\n}"));
}

Description parse_description(std::string text, const std::string& source) {
  const std::string object = checkpoint::unseal(std::move(text), source);
  Description description = DescriptionReader(object, source).read();
  check_description(description, source);
  return description;
}

}  // namespace tutti::saved_model
