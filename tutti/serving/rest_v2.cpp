#include "tutti/serving/rest_v2.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <optional>
#include <set>

#include "tutti/core/json.h"
#include "tutti/core/str.h"
#include "tutti/serving/json_values.h"
#include "tutti/serving/v2_tensors.h"

namespace tutti::serving {
namespace {

using saved_model::Inputs;
using saved_model::Outputs;
using saved_model::Spec;
using saved_model::Value;

// The JSON part and, behind it, bytes of tensors.
std::pair<std::string_view, std::string_view> parts_of(const HttpRequest& request) {
  const std::string_view body = request.body;
  const std::string* const header = request.header("inference-header-content-length");
  if (!header) return {body, {}};
  size_t length = 0;
  const auto [end, error] = std::from_chars(header->data(), header->data() + header->size(), length);
  if (error != std::errc() || end != header->data() + header->size() || length > body.size())
    refuse_request(str("Inference-Header-Content-Length is '", *header,
                       "'; it must be a number up to that of the body's ", body.size(), " bytes"));
  return {body.substr(0, length), body.substr(length)};
}

class V2Reader {
 public:
  V2Reader(std::string_view text, std::string_view binary, const std::vector<Spec>& specs)
      : text_(text), binary_(binary), specs_(specs), json_(text, kRequestSource) {}

  V2Call read();

 private:
  struct Input {
    std::string name, datatype;
    std::optional<std::vector<int64_t>> shape;
    std::optional<int64_t> num_binary;
    std::optional<size_t> data_at;
    std::optional<Value> value;
  };

  void read_input();
  void read_output();
  void read_parameters(const std::function<bool(std::string_view key)>& take);
  bool boolean();
  Value value_of(const Input& input, const Spec& spec);
  const Spec& spec_of(const Input& input) const;
  Value binary_value(const Input& input, const Spec& spec);

  std::string_view text_, binary_;  // binary_: what is left of it
  const std::vector<Spec>& specs_;
  JsonReader json_;
  V2Call call_;
  std::set<std::string> named_outputs_;
};

V2Call V2Reader::read() {
  json_.object("an inference request", {{"id", [&] { call_.question.id = json_.text(); }},
                                        {"inputs", [&] { json_.array([&] { read_input(); }); }},
                                        {"outputs", [&] { json_.array([&] { read_output(); }); }},
                                        {"parameters", [&] {
                                           read_parameters([&](std::string_view key) {
                                             if (key == "binary_data_output") call_.question.is_binary = boolean();
                                             return key == "binary_data_output";
                                           });
                                         }}});
  json_.end();
  for (const Spec& spec : specs_)
    if (!call_.inputs.contains(spec.name)) refuse_request(str("the input '", spec.name, "' is missing"));
  if (!binary_.empty()) refuse_request(str("the body has ", binary_.size(), " bytes behind those of its inputs"));
  return std::move(call_);
}

void V2Reader::read_parameters(const std::function<bool(std::string_view key)>& take) {
  json_.object([&](std::string_view key) {
    if (!take(key)) json_.skip();
  });
}

bool V2Reader::boolean() {
  json_.at_text();
  const size_t at = json_.at();
  json_.skip();
  const std::string_view word = text_.substr(at, json_.at() - at);
  if (word != "true" && word != "false") refuse_request(str("expected true or false, found ", word.substr(0, 40)));
  return word == "true";
}

void V2Reader::read_input() {
  Input input;
  const auto shape = [&] {
    input.shape.emplace();
    json_.array([&] { input.shape->push_back(json_.integer()); });
  };
  const auto data = [&] {
    json_.at_text();
    input.data_at = json_.at();
    if (input.name.empty() || input.datatype.empty() || !input.shape) return json_.skip();
    input.value = value_of(input, spec_of(input));
  };
  const auto parameters = [&] {
    read_parameters([&](std::string_view key) {
      if (key == "binary_data_size") input.num_binary = json_.integer();
      return key == "binary_data_size";
    });
  };
  json_.object("an input", {{"name", [&] { input.name = json_.text(); }},
                            {"shape", shape},
                            {"datatype", [&] { input.datatype = json_.text(); }},
                            {"parameters", parameters},
                            {"data", data}});
  const Spec& spec = spec_of(input);
  if (input.data_at.has_value() == input.num_binary.has_value())
    refuse_request(str("the input '", spec.name, "' must have either data or binary_data_size"));
  const size_t end = json_.at();
  if (input.num_binary) {
    input.value = binary_value(input, spec);
  } else if (!input.value) {
    json_.go_to(*input.data_at);
    input.value = value_of(input, spec);
  }
  json_.go_to(end);
  if (!call_.inputs.emplace(spec.name, std::move(*input.value)).second)
    refuse_request(str("the input '", spec.name, "' comes twice"));
}

const Spec& V2Reader::spec_of(const Input& input) const {
  if (!input.shape) refuse_request(str("the input '", input.name, "' has no shape"));
  return v2_spec(specs_, input.name, input.datatype, *input.shape);
}

Value V2Reader::value_of(const Input& input, const Spec& spec) {
  ValueReader reader(json_, text_, spec, ValueReader::Rows::whole);
  reader.read_flat(*input.shape);
  return reader.take();
}

Value V2Reader::binary_value(const Input& input, const Spec& spec) {
  if (*input.num_binary < 0 || static_cast<uint64_t>(*input.num_binary) > binary_.size())
    refuse_request(str("the input '", spec.name, "' has a binary_data_size of ", *input.num_binary, "; ",
                       binary_.size(), " bytes are left of the body"));
  const std::string_view bytes = binary_.substr(0, static_cast<size_t>(*input.num_binary));
  binary_.remove_prefix(bytes.size());
  return v2_value(spec, *input.shape, bytes);
}

void V2Reader::read_output() {
  V2Question::Output output;
  std::optional<bool> is_binary;
  const auto parameters = [&] {
    read_parameters([&](std::string_view key) {
      if (key == "classification")
        refuse_request("the extension for classification is not here; ask for the output itself");
      if (key == "binary_data") is_binary = boolean();
      return key == "binary_data";
    });
  };
  json_.object("an output", {{"name", [&] { output.name = json_.text(); }}, {"parameters", parameters}});
  output.is_binary = is_binary.value_or(call_.question.is_binary);
  if (!named_outputs_.insert(output.name).second)
    refuse_request(str("the output '", output.name, "' is asked for twice"));
  call_.question.outputs.push_back(std::move(output));
}

std::vector<V2Question::Output> wanted_outputs(const V2Question& question, const Outputs& outputs) {
  if (!question.outputs.empty()) return question.outputs;
  std::vector<V2Question::Output> all;
  for (const auto& [name, value] : outputs) all.push_back({name, question.is_binary});
  return all;
}

std::string specs_text(const std::vector<Spec>& specs) {
  std::string text = "[";
  for (const Spec& spec : specs) {
    if (text.size() > 1) text += ", ";
    text += str("{\"name\": ", json_text(spec.name), ", \"datatype\": \"", v2_datatype(spec.is_text, spec.dtype),
                "\", \"shape\": ", str_list(spec.shape), '}');
  }
  return text += ']';
}

}  // namespace

std::string v2_signature_name(const HttpRequest& request) {
  const std::string_view text = parts_of(request).first;
  if (text.find("signature_name") == std::string_view::npos) return "";
  std::string name;
  JsonReader json(text, kRequestSource);
  json.object([&](std::string_view key) {
    if (key != "parameters") return json.skip();
    json.object([&](std::string_view inner) { inner == "signature_name" ? void(name = json.text()) : json.skip(); });
  });
  return name;
}

V2Call read_v2(const HttpRequest& request, const std::vector<Spec>& inputs) {
  const auto [text, binary] = parts_of(request);
  return V2Reader(text, binary, inputs).read();
}

HttpResponse v2_answer(const V2Question& question, const std::string& model, int64_t version, const Outputs& outputs) {
  std::string text = str("{\"model_name\": \"", model, "\", \"model_version\": \"", version, '"'), binary;
  if (!question.id.empty()) text += ", \"id\": " + json_text(question.id);
  text += ", \"outputs\": [";
  for (const auto& [name, is_binary] : wanted_outputs(question, outputs)) {
    const auto found = outputs.find(name);
    if (found == outputs.end()) throw Error(ErrorCode::not_found, str("there is no output '", name, '\''));
    const Value& value = found->second;
    if (text.back() != '[') text += ", ";
    text += "{\"name\": " + json_text(name) + ", \"datatype\": \"" +
            v2_datatype(value.is_text(), value.is_text() ? at::kByte : value.tensor().scalar_type()) +
            "\", \"shape\": " + str_list(v2_shape(value));
    if (is_binary) {
      const std::string bytes = v2_bytes(value);
      text += str(", \"parameters\": {\"binary_data_size\": ", bytes.size(), "}}");
      binary += bytes;
      continue;
    }
    text += ", \"data\": [";
    ValueWriter(value).append_flat(text);
    text += "]}";
  }
  text += "]}";
  if (binary.empty()) return {.body = std::move(text)};
  HttpResponse response{.body = text + binary, .content_type = "application/octet-stream"};
  response.headers.emplace_back("Inference-Header-Content-Length", std::to_string(text.size()));
  return response;
}

std::string v2_server_metadata() {
  return str("{\"name\": \"", kServerName, "\", \"version\": \"", kServerVersion,
             "\", \"extensions\": [\"binary_tensor_data\"]}\n");
}

std::string v2_metadata(const ServedModel& model, const std::vector<VersionStatus>& versions) {
  const auto& signature = model.signature("").second;
  std::string numbers;
  for (const VersionStatus& status : versions)
    if (status.is_available) numbers += str(numbers.empty() ? "\"" : ", \"", status.version, '"');
  return str("{\"name\": \"", model.name(), "\", \"versions\": [", numbers,
             "], \"platform\": \"tutti_saved_model\", \"inputs\": ", specs_text(signature.inputs),
             ", \"outputs\": ", specs_text(signature.outputs), "}\n");
}

}  // namespace tutti::serving
