#include "tutti/serving/v2_tensors.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/serving/json_values.h"

namespace tutti::serving {
namespace {

using saved_model::Spec;
using saved_model::Value;

constexpr std::array<std::pair<std::string_view, at::ScalarType>, 10> kDatatypes = {{{"BOOL", at::kBool},
                                                                                     {"UINT8", at::kByte},
                                                                                     {"INT8", at::kChar},
                                                                                     {"INT16", at::kShort},
                                                                                     {"INT32", at::kInt},
                                                                                     {"INT64", at::kLong},
                                                                                     {"FP16", at::kHalf},
                                                                                     {"BF16", at::kBFloat16},
                                                                                     {"FP32", at::kFloat},
                                                                                     {"FP64", at::kDouble}}};

Value texts_of(const Spec& spec, const std::vector<int64_t>& shape, std::string_view bytes) {
  std::vector<std::string> texts;
  while (!bytes.empty()) {
    uint32_t length = 0;
    if (bytes.size() >= sizeof length) std::memcpy(&length, bytes.data(), sizeof length);
    if (bytes.size() < sizeof length || bytes.size() - sizeof length < length)
      refuse_request(str("the input '", spec.name, "' ends in the middle of a text"));
    texts.emplace_back(bytes.substr(sizeof length, length));
    bytes.remove_prefix(sizeof length + length);
  }
  if (static_cast<int64_t>(texts.size()) != num_elements_of(shape))
    refuse_request(str("the input '", spec.name, "' has ", texts.size(), " texts; its shape is ", str_list(shape)));
  return Strings(std::move(texts), shape);
}

}  // namespace

std::string v2_datatype(bool is_text, at::ScalarType dtype) {
  if (is_text) return "BYTES";
  const auto found = std::ranges::find(kDatatypes, dtype, [](const auto& entry) { return entry.second; });
  if (found == kDatatypes.end())
    throw Error(ErrorCode::unimplemented, str("the protocol has no datatype for ", at::toString(dtype)));
  return std::string(found->first);
}

const Spec& v2_spec(const std::vector<Spec>& specs, const std::string& name, const std::string& datatype,
                    const std::vector<int64_t>& shape) {
  const auto found = std::ranges::find(specs, name, &Spec::name);
  if (found == specs.end()) {
    std::vector<std::string> names;
    for (const Spec& spec : specs) names.push_back(spec.name);
    refuse_request(str("there is no input '", name, "'; there are ", str_list(names)));
  }
  const std::string wanted = v2_datatype(found->is_text, found->dtype);
  if (datatype != wanted)
    refuse_request(str("the input '", name, "' has the datatype '", datatype, "'; ", wanted, " is required"));
  const auto fits = [](int64_t size, int64_t spec) { return spec == kUnknown ? size >= 0 : size == spec; };
  if (!std::ranges::equal(shape, found->shape, fits)) {
    const std::string seen = shape.size() == found->shape.size() ? str_list(shape) : str(shape.size(), " axes");
    refuse_request(str("the input '", name, "' has the shape ", seen, "; ", to_string(*found), " is required"));
  }
  // Without an element a request can have any number of rows and no byte for them.
  constexpr int64_t kMaxEmpty = 65536;
  if (num_elements_of(shape) == 0 && std::ranges::any_of(shape, [](int64_t size) { return size > kMaxEmpty; }))
    refuse_request(str("the input '", name, "' has the shape ", str_list(shape), ", which has no element"));
  return *found;
}

Value v2_value(const Spec& spec, const std::vector<int64_t>& shape, std::string_view bytes) {
  if (spec.is_text) return texts_of(spec, shape, bytes);
  const int64_t count = num_elements_of(shape);
  const auto size = static_cast<int64_t>(c10::elementSize(spec.dtype));
  if (static_cast<int64_t>(bytes.size()) % size != 0 || static_cast<int64_t>(bytes.size()) / size != count)
    refuse_request(str("the input '", spec.name, "' has ", bytes.size(), " bytes; its shape ", str_list(shape),
                       " is of ", count, " elements of ", size));
  const auto is_no_boolean = [](char c) { return c != 0 && c != 1; };
  if (spec.dtype == at::kBool && std::ranges::any_of(bytes, is_no_boolean))
    refuse_request(str("the input '", spec.name, "' has bytes that are no booleans"));
  return tensor_of(bytes, shape, spec.dtype);
}

std::string v2_bytes(const Value& value) {
  std::string bytes;
  if (!value.is_text()) {
    const Tensor tensor = value.tensor().detach().cpu().contiguous();
    if (tensor.numel() > 0) bytes.assign(static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes());
    return bytes;
  }
  for (const std::string& text : value.text().values()) {
    const auto length = static_cast<uint32_t>(text.size());
    bytes.append(reinterpret_cast<const char*>(&length), sizeof length).append(text);
  }
  return bytes;
}

std::vector<int64_t> v2_shape(const Value& value) {
  return value.is_text() ? value.text().shape() : value.tensor().sizes().vec();
}

}  // namespace tutti::serving
