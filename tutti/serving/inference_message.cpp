#include "tutti/serving/inference_message.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include <bit>
#include <cstring>
#include <limits>
#include <set>

#include "tutti/core/error.h"
#include "tutti/core/json.h"
#include "tutti/core/str.h"
#include "tutti/serving/inference_message.pb.h"

namespace tutti::serving {
namespace {

static_assert(std::endian::native == std::endian::little);

using google::protobuf::RepeatedField;
using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

[[noreturn]] void refuse(const std::string& what) { throw Error(ErrorCode::invalid_argument, what); }

// What a field of a request holds.
enum class Part { request, tensor, output, contents, parameter, plain };

Part part_of(Part outer, int field) {
  switch (outer) {
    case Part::request:
      return field == 4 ? Part::parameter : field == 5 ? Part::tensor : field == 6 ? Part::output : Part::plain;
    case Part::tensor: return field == 4 ? Part::parameter : field == 5 ? Part::contents : Part::plain;
    case Part::output: return field == 2 ? Part::parameter : Part::plain;
    default: return Part::plain;
  }
}

// A message or text within a message can be two bytes there and a hundred in memory: how many there are is counted
// before any is made.
void count_parts(std::string_view message, Part outer, int& num_parts) {
  constexpr int kMaxParts = 1 << 20;
  CodedInputStream in(reinterpret_cast<const uint8_t*>(message.data()), static_cast<int>(message.size()));
  while (const uint32_t tag = in.ReadTag()) {
    if (WireFormatLite::GetTagWireType(tag) != WireFormatLite::WIRETYPE_LENGTH_DELIMITED) {
      if (!WireFormatLite::SkipField(&in, tag)) return;  // which the parser refuses
      continue;
    }
    uint32_t length = 0;
    if (!in.ReadVarint32(&length)) return;
    const auto begin = static_cast<size_t>(in.CurrentPosition());
    if (length > message.size() - begin) return;
    if (++num_parts > kMaxParts)
      refuse(str("the request has more than ", kMaxParts, " texts and tensors; send texts in raw_input_contents"));
    const Part part = part_of(outer, WireFormatLite::GetTagFieldNumber(tag));
    if (part != Part::plain) count_parts(message.substr(begin, length), part, num_parts);
    in.Skip(static_cast<int>(length));
  }
}

template <class Message>
Message parsed(std::string_view bytes, const char* name) {
  Message message;
  if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) refuse(str("the message is no ", name));
  return message;
}

void check_size(std::string_view message) {
  if (message.size() > std::numeric_limits<int>::max()) refuse("the message has more than the 2 GiB of protobuf's");
}

template <class Message>
std::string serialized(const Message& message) {
  if (message.ByteSizeLong() > std::numeric_limits<int>::max())
    throw Error(ErrorCode::resource_exhausted, "the answer has more than the 2 GiB that a message can have");
  return message.SerializeAsString();
}

// A datatype's field of InferTensorContents, of which a vector of Stored is made.
template <class Stored, class Field>
std::string bytes_of(const RepeatedField<Field>& field, const std::string& input) {
  std::string bytes(sizeof(Stored) * static_cast<size_t>(field.size()), '\0');
  char* to = bytes.data();
  for (const Field element : field) {
    const auto stored = static_cast<Stored>(element);
    if constexpr (sizeof(Stored) < sizeof(Field))
      if (static_cast<Field>(stored) != element)
        refuse(str("the input '", input, "' has ", element, ", which does not fit its datatype"));
    std::memcpy(to, &stored, sizeof stored);
    to += sizeof stored;
  }
  return bytes;
}

std::string bytes_of_texts(const proto::InferTensorContents& contents) {
  std::string bytes;
  for (const std::string& text : contents.bytes_contents()) {
    const auto length = static_cast<uint32_t>(text.size());
    bytes.append(reinterpret_cast<const char*>(&length), sizeof length).append(text);
  }
  return bytes;
}

int num_elements(const proto::InferTensorContents& contents) {
  return contents.bool_contents_size() + contents.int_contents_size() + contents.int64_contents_size() +
         contents.uint_contents_size() + contents.uint64_contents_size() + contents.fp32_contents_size() +
         contents.fp64_contents_size() + contents.bytes_contents_size();
}

std::string typed_bytes(const proto::InferTensor& input) {
  const proto::InferTensorContents& contents = input.contents();
  const std::string &type = input.datatype(), &name = input.name();
  const auto only = [&](int count, std::string bytes) {
    if (count != num_elements(contents))
      refuse(str("the input '", name, "' has contents in fields that are not those of its datatype ", type));
    return bytes;
  };
  const auto integers = contents.int_contents_size();
  if (type == "BOOL") return only(contents.bool_contents_size(), bytes_of<bool>(contents.bool_contents(), name));
  if (type == "INT8") return only(integers, bytes_of<int8_t>(contents.int_contents(), name));
  if (type == "INT16") return only(integers, bytes_of<int16_t>(contents.int_contents(), name));
  if (type == "INT32") return only(integers, bytes_of<int32_t>(contents.int_contents(), name));
  if (type == "INT64") return only(contents.int64_contents_size(), bytes_of<int64_t>(contents.int64_contents(), name));
  if (type == "UINT8") return only(contents.uint_contents_size(), bytes_of<uint8_t>(contents.uint_contents(), name));
  if (type == "FP32") return only(contents.fp32_contents_size(), bytes_of<float>(contents.fp32_contents(), name));
  if (type == "FP64") return only(contents.fp64_contents_size(), bytes_of<double>(contents.fp64_contents(), name));
  if (type == "BYTES") return only(contents.bytes_contents_size(), bytes_of_texts(contents));
  refuse(str("the input '", name, "' has the datatype '", type.substr(0, 40),
             "', which is read from raw_input_contents alone"));
}

// Null where there is none of this name.
template <class Message>
const proto::InferParameter* parameter_of(const Message& message, std::string_view name) {
  const proto::InferParameter* found = nullptr;  // the last counts, as in a map
  for (const proto::InferParameterEntry& entry : message.parameters())
    if (entry.key() == name) found = &entry.value();
  return found;
}

void check_parameters(const proto::InferTensor& input) {
  if (parameter_of(input, "shared_memory_region"))
    refuse(str("the input '", input.name(), "' is in shared memory, which is not read here; send its contents"));
}

void check_parameters(const proto::InferRequestedOutputTensor& output) {
  if (parameter_of(output, "classification"))
    refuse("the extension for classification is not here; ask for the output itself");
  if (parameter_of(output, "shared_memory_region"))
    refuse(str("the output '", output.name(), "' is wanted in shared memory, which is not written here"));
}

bool has_typed_field(const std::string& datatype) { return datatype != "FP16" && datatype != "BF16"; }

template <class Stored, class Field>
void append_elements(std::string_view bytes, RepeatedField<Field>& field) {
  for (size_t at = 0; at < bytes.size(); at += sizeof(Stored)) {
    Stored element;
    std::memcpy(&element, bytes.data() + at, sizeof element);
    field.Add(element);
  }
}

void append_texts(std::string_view bytes, proto::InferTensorContents& contents) {
  while (!bytes.empty()) {
    uint32_t length = 0;
    std::memcpy(&length, bytes.data(), sizeof length);
    contents.add_bytes_contents(std::string(bytes.substr(sizeof length, length)));
    bytes.remove_prefix(sizeof length + length);
  }
}

void write_typed(const InferenceTensor& output, proto::InferTensorContents& to) {
  const std::string_view bytes = output.bytes;
  if (output.datatype == "BOOL") return append_elements<bool>(bytes, *to.mutable_bool_contents());
  if (output.datatype == "INT8") return append_elements<int8_t>(bytes, *to.mutable_int_contents());
  if (output.datatype == "INT16") return append_elements<int16_t>(bytes, *to.mutable_int_contents());
  if (output.datatype == "INT32") return append_elements<int32_t>(bytes, *to.mutable_int_contents());
  if (output.datatype == "INT64") return append_elements<int64_t>(bytes, *to.mutable_int64_contents());
  if (output.datatype == "UINT8") return append_elements<uint8_t>(bytes, *to.mutable_uint_contents());
  if (output.datatype == "FP32") return append_elements<float>(bytes, *to.mutable_fp32_contents());
  if (output.datatype == "FP64") return append_elements<double>(bytes, *to.mutable_fp64_contents());
  append_texts(bytes, to);
}

template <class Tensor>
void write_head(const InferenceTensor& tensor, Tensor& to) {
  to.set_name(tensor.name);
  to.set_datatype(tensor.datatype);
  for (const int64_t size : tensor.shape) to.add_shape(size);
}

}  // namespace

InferenceRequest read_inference_request(std::string_view message) {
  check_size(message);
  int num_parts = 0;
  count_parts(message, Part::request, num_parts);
  auto from = parsed<proto::ModelInferRequest>(message, "ModelInferRequest");
  InferenceRequest request{.model = from.model_name(), .version = from.model_version(), .id = from.id()};
  if (!is_utf8(request.id)) refuse("the request's id is no UTF-8");
  if (const auto* const name = parameter_of(from, "signature_name")) request.signature_name = name->string_param();
  request.is_raw = from.raw_input_contents_size() > 0;
  if (request.is_raw && from.raw_input_contents_size() != from.inputs_size())
    refuse(str("the request has ", from.inputs_size(), " inputs and ", from.raw_input_contents_size(),
               " raw_input_contents; there must be as many"));
  for (int i = 0; i < from.inputs_size(); ++i) {
    const proto::InferTensor& input = from.inputs(i);
    check_parameters(input);
    if (request.is_raw && num_elements(input.contents()) > 0)
      refuse(str("the input '", input.name(), "' has contents, and the request raw_input_contents; one of them only"));
    request.inputs.push_back(
        {.name = input.name(), .datatype = input.datatype(), .shape = {input.shape().begin(), input.shape().end()}});
    request.inputs.back().bytes = request.is_raw ? std::move(*from.mutable_raw_input_contents(i)) : typed_bytes(input);
  }
  std::set<std::string_view> names;
  for (const proto::InferRequestedOutputTensor& output : from.outputs()) {
    check_parameters(output);
    if (!names.insert(output.name()).second) refuse(str("the output '", output.name(), "' is asked for twice"));
    request.outputs.push_back(output.name());
  }
  return request;
}

ModelRequest read_model_request(std::string_view message) {
  check_size(message);
  const auto from = parsed<proto::ModelRequest>(message, "request for a model");
  return {.name = from.name(), .version = from.version()};
}

std::string inference_message(InferenceAnswer answer) {
  proto::ModelInferResponse to;
  to.set_model_name(answer.model);
  to.set_model_version(answer.version);
  to.set_id(answer.id);
  bool is_raw = answer.is_raw;
  for (const InferenceTensor& output : answer.outputs) is_raw = is_raw || !has_typed_field(output.datatype);
  for (InferenceTensor& output : answer.outputs) {
    proto::InferTensor& added = *to.add_outputs();
    write_head(output, added);
    if (is_raw)
      to.add_raw_output_contents(std::move(output.bytes));
    else
      write_typed(output, *added.mutable_contents());
  }
  return serialized(to);
}

std::string state_message(bool is_so) {
  proto::StateResponse to;
  to.set_is_so(is_so);
  return serialized(to);
}

std::string server_metadata_message(const std::string& name, const std::string& version) {
  proto::ServerMetadataResponse to;
  to.set_name(name);
  to.set_version(version);
  return serialized(to);
}

std::string model_metadata_message(const ModelMetadata& metadata, const std::string& platform) {
  proto::ModelMetadataResponse to;
  to.set_name(metadata.name);
  for (const std::string& version : metadata.versions) to.add_versions(version);
  to.set_platform(platform);
  for (const InferenceTensor& input : metadata.inputs) write_head(input, *to.add_inputs());
  for (const InferenceTensor& output : metadata.outputs) write_head(output, *to.add_outputs());
  return serialized(to);
}

}  // namespace tutti::serving
