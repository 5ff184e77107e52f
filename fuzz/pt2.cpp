// Programs of torch.export: whatever the model's JSON says, the program in the archive around it is read, or refused as
// data_loss or unimplemented. The archive has two weights, float32 [2, 4] and [2].
#include <caffe2/serialize/inline_container.h>

#include <cstdlib>
#include <string_view>

#include "fuzz/scratch_file.h"
#include "tutti/core/error.h"
#include "tutti/export/pt2/read_pt2.h"

namespace {

constexpr std::string_view kWeights =
    R"({"config": {"linear.weight": {"path_name": "weight_0", "is_param": true, "use_pickle": false, "tensor_meta": {)"
    R"("dtype": 7, "sizes": [{"as_int": 2}, {"as_int": 4}], "requires_grad": true, "device": {"type": "cpu", "index": )"
    R"(null}, "strides": [{"as_int": 4}, {"as_int": 1}], "storage_offset": {"as_int": 0}, "layout": 7}}, "linear.bias": )"
    R"({"path_name": "weight_1", "is_param": true, "use_pickle": false, "tensor_meta": {"dtype": 7, "sizes": [)"
    R"({"as_int": 2}], "requires_grad": true, "device": {"type": "cpu", "index": null}, "strides": [{"as_int": 1}], )"
    R"("storage_offset": {"as_int": 0}, "layout": 7}}}})";

std::filesystem::path archive_of(std::string_view model) {
  const std::filesystem::path path = tutti::fuzz::scratch_file(nullptr, 0);
  caffe2::serialize::PyTorchStreamWriter archive(path);
  const auto add = [&](const char* name, std::string_view bytes) {
    archive.writeRecord(name, bytes.data(), bytes.size());
  };
  add("archive_version", "0");
  add("models/model.json", model);
  add("data/weights/model_weights_config.json", kWeights);
  add("data/constants/model_constants_config.json", R"({"config": {}})");
  add("data/weights/weight_0", std::string(32, '\0'));
  add("data/weights/weight_1", std::string(8, '\0'));
  archive.writeEndOfFile();
  return path;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view model(reinterpret_cast<const char*>(data), size);
  try {
    tutti::saved_model::pt2::read_pt2(archive_of(model));
  } catch (const tutti::Error& error) {
    if (error.code() != tutti::ErrorCode::data_loss && error.code() != tutti::ErrorCode::unimplemented) std::abort();
  }
  return 0;
}
