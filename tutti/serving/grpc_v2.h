#pragma once

#include <string>
#include <vector>

#include "tutti/export/spec.h"
#include "tutti/export/value.h"
#include "tutti/serving/inference_message.h"
#include "tutti/serving/model_repository.h"

// The Open Inference Protocol, version 2, over gRPC: what its messages mean.
namespace tutti::serving {

// What an answer needs of its request.
struct GrpcV2Question {
  std::string id;
  std::vector<std::string> outputs;  // none: all
  bool is_raw = false;               // the outputs then are, as the inputs were
};

// Throws: invalid_argument, with the input's name.
saved_model::Inputs grpc_v2_inputs(const InferenceRequest& request, const std::vector<saved_model::Spec>& specs);
// A ModelInferResponse. Throws: not_found for an output that is not there.
std::string grpc_v2_answer(const GrpcV2Question& question, const std::string& model, int64_t version,
                           const saved_model::Outputs& outputs);
std::string grpc_v2_metadata(const ServedModel& model, const std::vector<VersionStatus>& versions);

}  // namespace tutti::serving
