#include "tutti/export/pt2/write_pt2.h"

#include <ATen/ops/zeros.h>
#include <caffe2/serialize/inline_container.h>
#include <torch/csrc/jit/serialization/pickler.h>

#include <exception>
#include <string>
#include <vector>

#include "tutti/core/json.h"
#include "tutti/core/str.h"
#include "tutti/export/pt2/exported_program.h"
#include "tutti/export/pt2/json_parts.h"
#include "tutti/export/pt2/symbolic_size.h"

namespace tutti::saved_model::pt2 {
namespace {

// As torch.export writes it. The program is called "model" there.
constexpr uint64_t kMinFormatVersion = 6;
constexpr const char* kWeightsFolder = "data/weights/";

// An archive of PyTorch's that is written by a function which may throw. What it throws goes past the archive, whose
// destructor would write on.
class Archive {
 public:
  explicit Archive(FunctionRef<void(std::span<const std::byte> bytes)> write)
      : archive_([this, write](const void* bytes, size_t count) {
          try {
            if (!failure_) write({static_cast<const std::byte*>(bytes), count});
          } catch (...) {
            failure_ = std::current_exception();
          }
          return count;
        }) {
    archive_.setMinVersion(kMinFormatVersion);
  }

  void add(const std::string& name, const void* bytes, size_t count, bool compress = false) {
    archive_.writeRecord(name, bytes, count, compress);
    check();
  }
  void add(const std::string& name, std::string_view text) { add(name, text.data(), text.size()); }
  void finish() {
    archive_.writeEndOfFile();
    check();
  }

 private:
  void check() const {
    if (failure_) std::rethrow_exception(failure_);
  }

  std::exception_ptr failure_;
  caffe2::serialize::PyTorchStreamWriter archive_;
};

// What torch.save((inputs, {})) writes.
std::string saved_inputs(const std::vector<Tensor>& inputs) {
  std::string pickle;
  torch::jit::Pickler pickler([&](const char* bytes, size_t count) { pickle.append(bytes, count); }, nullptr, nullptr,
                              nullptr, nullptr, /*tag_aggregates=*/false);
  pickler.protocol();
  const c10::impl::GenericDict by_name(c10::StringType::get(), c10::TensorType::get());
  pickler.pushIValue(c10::ivalue::Tuple::create(
      {c10::ivalue::Tuple::create(std::vector<c10::IValue>(inputs.begin(), inputs.end())), by_name}));
  pickler.stop();
  std::string file;
  const auto append = [&](std::span<const std::byte> bytes) {
    file.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  Archive archive(append);
  archive.add("data.pkl", pickle);
  archive.add("byteorder", "little");
  const std::vector<Tensor>& data = pickler.tensorData();
  for (size_t i = 0; i < data.size(); ++i)
    archive.add(str("data/", i), data[i].const_data_ptr(), data[i].nbytes(), /*compress=*/true);
  archive.finish();
  return file;
}

// Zeros, of the sizes that the symbols' hints say.
std::vector<Tensor> sample_inputs(const Source& source, const std::vector<int>& inputs) {
  std::vector<Tensor> samples;
  for (const int input : inputs) {
    const ValueType& type = source.types[static_cast<size_t>(input)];
    std::vector<int64_t> sizes;
    for (const auto& size : type.sizes) sizes.push_back(size_of(*size).value.value());
    samples.push_back(at::zeros(sizes, type.dtype));
  }
  return samples;
}

void add_variables(Archive& archive, const Source& source, const std::vector<std::string>& names) {
  std::string config;
  for (size_t i = 0; i < names.size(); ++i) {
    const Tensor& variable = source.variables[i];
    const std::string file = str("weight_", i);
    archive.add(kWeightsFolder + file, variable.const_data_ptr(), variable.nbytes());
    int num_unbacked = 0;
    const std::string meta =
        json_tensor_meta(source.types[source.program.inputs.size() + i], variable.requires_grad(), num_unbacked);
    const std::string entry = json_object({{"path_name", json_text(file)},
                                           {"is_param", variable.requires_grad() ? "true" : "false"},
                                           {"use_pickle", "false"},
                                           {"tensor_meta", meta}});
    config += str(config.empty() ? "" : ", ", json_text(names[i]), ": ", entry);
  }
  archive.add(str(kWeightsFolder, "model_weights_config.json"), json_object({{"config", '{' + config + '}'}}));
  archive.add("data/constants/model_constants_config.json", json_object({{"config", "{}"}}));
}

}  // namespace

void write_pt2(const Source& source, FunctionRef<void(std::span<const std::byte> bytes)> write) {
  const ExportedProgram program = exported_program(source);
  Archive archive(write);
  archive.add("archive_format", "pt2");
  archive.add("archive_version", "0");
  add_variables(archive, source, program.variables);
  archive.add("models/model.json", program.json);
  archive.add("data/sample_inputs/model.pt", saved_inputs(sample_inputs(source, program.inputs)));
  archive.finish();
}

}  // namespace tutti::saved_model::pt2
