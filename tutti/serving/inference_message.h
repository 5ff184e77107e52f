#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

// The messages of inference.GRPCInferenceService as plain data, and as the bytes that protobuf makes of them. What is
// read may come from anywhere: memory is bounded by the message.
namespace tutti::serving {

struct InferenceTensor {
  std::string name, datatype;  // "FP32"
  std::vector<int64_t> shape;
  // Row-major, lowest byte first; texts each behind its length of four bytes.
  std::string bytes = {};
};

struct InferenceRequest {
  std::string model, version, id;
  std::string signature_name = {};  // of the parameters
  std::vector<InferenceTensor> inputs = {};
  std::vector<std::string> outputs = {};  // none: all
  bool is_raw = false;                    // the inputs are in raw_input_contents, and not in fields of their types
};

struct InferenceAnswer {
  std::string model, version, id;
  std::vector<InferenceTensor> outputs = {};
  bool is_raw = false;  // so are the outputs then; they are in any case where a datatype has no field
};

struct ModelRequest {
  std::string name, version;
};

struct ModelMetadata {
  std::string name;
  std::vector<std::string> versions;
  std::vector<InferenceTensor> inputs, outputs;  // without bytes; extents that are free are -1
};

// Throw: invalid_argument for what is no such message, with the input's name where it has one.
InferenceRequest read_inference_request(std::string_view message);
ModelRequest read_model_request(std::string_view message);

// Throws: resource_exhausted for more than the 2 GiB that protobuf allows.
std::string inference_message(InferenceAnswer answer);
// Whether a server is live, or it or a model is ready.
std::string state_message(bool is_so);
std::string server_metadata_message(const std::string& name, const std::string& version);
std::string model_metadata_message(const ModelMetadata& metadata, const std::string& platform);

}  // namespace tutti::serving
