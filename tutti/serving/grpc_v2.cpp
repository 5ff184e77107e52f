#include "tutti/serving/grpc_v2.h"

#include <ATen/core/Tensor.h>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/serving/json_values.h"
#include "tutti/serving/v2_tensors.h"

namespace tutti::serving {
namespace {

using saved_model::Inputs;
using saved_model::Outputs;
using saved_model::Spec;
using saved_model::Value;

InferenceTensor tensor_of_value(const std::string& name, const Value& value) {
  const at::ScalarType dtype = value.is_text() ? at::kByte : value.tensor().scalar_type();
  return {.name = name,
          .datatype = v2_datatype(value.is_text(), dtype),
          .shape = v2_shape(value),
          .bytes = v2_bytes(value)};
}

std::vector<InferenceTensor> tensors_of_specs(const std::vector<Spec>& specs) {
  std::vector<InferenceTensor> tensors;
  for (const Spec& spec : specs)
    tensors.push_back({.name = spec.name, .datatype = v2_datatype(spec.is_text, spec.dtype), .shape = spec.shape});
  return tensors;
}

}  // namespace

Inputs grpc_v2_inputs(const InferenceRequest& request, const std::vector<Spec>& specs) {
  Inputs inputs;
  for (const InferenceTensor& input : request.inputs) {
    const Spec& spec = v2_spec(specs, input.name, input.datatype, input.shape);
    if (!inputs.emplace(spec.name, v2_value(spec, input.shape, input.bytes)).second)
      refuse_request(str("the input '", spec.name, "' comes twice"));
  }
  for (const Spec& spec : specs)
    if (!inputs.contains(spec.name)) refuse_request(str("the input '", spec.name, "' is missing"));
  return inputs;
}

std::string grpc_v2_answer(const GrpcV2Question& question, const std::string& model, int64_t version,
                           const Outputs& outputs) {
  InferenceAnswer answer{
      .model = model, .version = std::to_string(version), .id = question.id, .is_raw = question.is_raw};
  if (question.outputs.empty())
    for (const auto& [name, value] : outputs) answer.outputs.push_back(tensor_of_value(name, value));
  for (const std::string& name : question.outputs) {
    const auto found = outputs.find(name);
    if (found == outputs.end()) throw Error(ErrorCode::not_found, str("there is no output '", name, '\''));
    answer.outputs.push_back(tensor_of_value(name, found->second));
  }
  return inference_message(std::move(answer));
}

std::string grpc_v2_metadata(const ServedModel& model, const std::vector<VersionStatus>& versions) {
  const ServedSignature& signature = model.signature("").second;
  ModelMetadata metadata{.name = model.name(),
                         .versions = {},
                         .inputs = tensors_of_specs(signature.inputs),
                         .outputs = tensors_of_specs(signature.outputs)};
  for (const VersionStatus& status : versions)
    if (status.is_available) metadata.versions.push_back(std::to_string(status.version));
  return model_metadata_message(metadata, "tutti_saved_model");
}

}  // namespace tutti::serving
