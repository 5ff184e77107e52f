#include "tutti/export/pt2/read_pt2.h"

#include <ATen/EmptyTensor.h>

#include <algorithm>

#include "tutti/core/error.h"
#include "tutti/core/json.h"
#include "tutti/core/str.h"
#include "tutti/export/check_program.h"
#include "tutti/export/pt2/make_program.h"
#include "tutti/export/pt2/size_guard.h"
#include "tutti/files/archive.h"

namespace tutti::saved_model::pt2 {
namespace {

constexpr size_t kMaxJson = size_t{256} << 20;
constexpr size_t kReadAtOnce = 64 * 1024;
constexpr const char *kModelFile = "models/model.json", *kVersionFile = "archive_version",
                     *kWeightsFile = "data/weights/model_weights_config.json",
                     *kConstantsFile = "data/constants/model_constants_config.json";

// Bytes of a record that weights and constants lie in.
struct Record {
  uint64_t num_bytes = 0;  // that they need
  bool has_bools = false;
  Tensor bytes = {};
};

class ProgramReader {
 public:
  explicit ProgramReader(const std::filesystem::path& file)
      : file_(file), source_(str("load_pt2: '", file.string(), '\'')) {}

  ReadProgram run();

 private:
  [[noreturn]] void fail(ErrorCode code, const std::string& what) const { throw Error(code, str(source_, ' ', what)); }
  [[noreturn]] void damaged(const std::string& what) const { fail(ErrorCode::data_loss, "is damaged: " + what); }
  template <class Visit>
  void for_each_record(Visit visit) const;
  std::string text_of(files::ArchiveReader& archive, const std::string& name) const;
  void read_texts();
  const std::string& text(const char* name) const;
  void find_payloads(const std::vector<InputSpec>& variables);
  int64_t constant(const Extent& extent) const;
  void add_record(const Payload& payload, const std::string& folder, const std::string& name);
  void read_record(files::ArchiveReader& archive, const std::string& name, Record& record) const;
  Tensor view(const Payload& payload, const Record& record) const;

  struct Found {
    Payload payload;
    std::string record;
  };

  const std::filesystem::path& file_;
  std::string source_;
  std::map<std::string, std::string> texts_;
  std::map<std::string, Found> found_;  // by the variables' names
  std::map<std::string, Record> records_;
};

// Visits the files of the archive by their names below its one folder.
template <class Visit>
void ProgramReader::for_each_record(Visit visit) const {
  files::ArchiveReader archive(file_, files::ArchiveFormat::zip);
  std::string folder;
  for (std::string path; archive.next(path);) {
    if (folder.empty()) folder = path.substr(0, path.find('/') + 1);
    if (!folder.empty() && path.starts_with(folder)) visit(path.substr(folder.size()), archive);
  }
}

std::string ProgramReader::text_of(files::ArchiveReader& archive, const std::string& name) const {
  std::string bytes;  // grows with what is there, whatever the archive says
  for (size_t read = kReadAtOnce, filled = 0; read == kReadAtOnce; filled += read) {
    bytes.resize(filled + kReadAtOnce);
    read = archive.read(bytes.data() + filled, kReadAtOnce);
    bytes.resize(filled + read);
    if (bytes.size() > kMaxJson) fail(ErrorCode::unimplemented, str("has more than ", kMaxJson, " bytes of ", name));
  }
  return bytes;
}

void ProgramReader::read_texts() {
  for_each_record([&](const std::string& name, files::ArchiveReader& archive) {
    if (name != kModelFile && name != kVersionFile && name != kWeightsFile && name != kConstantsFile) return;
    if (!texts_.emplace(name, text_of(archive, name)).second) damaged(str("it has ", json_text(name), " twice"));
  });
}

const std::string& ProgramReader::text(const char* name) const {
  const auto found = texts_.find(name);
  if (found == texts_.end()) damaged(str("it lacks ", name, ", which torch.export.save() writes"));
  return found->second;
}

int64_t ProgramReader::constant(const Extent& extent) const {
  if (!extent.expression.empty() || extent.value < 0) damaged("a weight has a size or stride that is no number");
  return extent.value;
}

// The bytes from a record's beginning that the tensor needs.
void ProgramReader::add_record(const Payload& payload, const std::string& folder, const std::string& name) {
  const TensorMeta& meta = *payload.meta;
  if (!meta.dtype)
    fail(ErrorCode::unimplemented, str("has ", json_text(name), " of a dtype that this library does not know"));
  if (meta.sizes.size() != meta.strides.size() || meta.sizes.size() > 64)
    damaged(str("the strides of ", json_text(name), " are not those of its sizes"));
  int64_t end = constant(meta.offset), bytes = 0, num_bytes = static_cast<int64_t>(c10::elementSize(*meta.dtype));
  bool overflow = false, is_empty = false;
  for (size_t axis = 0; axis < meta.sizes.size(); ++axis) {
    int64_t reach = 0;
    const int64_t size = constant(meta.sizes[axis]);
    is_empty |= size == 0;
    overflow |= __builtin_mul_overflow(num_bytes, std::max<int64_t>(size, 1), &num_bytes);
    overflow |= __builtin_mul_overflow(std::max<int64_t>(size, 1) - 1, constant(meta.strides[axis]), &reach);
    overflow |= __builtin_add_overflow(end, reach, &end);
  }
  overflow |= __builtin_add_overflow(end, int64_t{1}, &end);
  overflow |= __builtin_mul_overflow(end, static_cast<int64_t>(c10::elementSize(*meta.dtype)), &bytes);
  if (overflow) damaged(str(json_text(name), " has more elements than there can be"));
  Record& record = records_[folder + payload.file];
  if (!is_empty) record.num_bytes = std::max(record.num_bytes, static_cast<uint64_t>(bytes));
  record.has_bools |= *meta.dtype == at::kBool;
  found_.emplace(name, Found{payload, folder + payload.file});
}

void ProgramReader::find_payloads(const std::vector<InputSpec>& variables) {
  const auto weights = read_payloads(text(kWeightsFile), str(source_, ", ", kWeightsFile));
  const auto constants = read_payloads(text(kConstantsFile), str(source_, ", ", kConstantsFile));
  for (const InputSpec& variable : variables) {
    const std::string& name = variable.target;
    const bool is_weight = variable.kind != "tensor_constant" && weights.contains(name);
    const auto& payloads = is_weight ? weights : constants;
    const auto payload = payloads.find(name);
    if (payload == payloads.end()) damaged(str("it lacks ", json_text(name)));
    if (payload->second.is_pickle || !payload->second.meta)
      fail(ErrorCode::unimplemented, str("has ", json_text(name), " as a pickle; only plain tensors are read"));
    add_record(payload->second, is_weight ? "data/weights/" : "data/constants/", name);
  }
}

void ProgramReader::read_record(files::ArchiveReader& archive, const std::string& name, Record& record) const {
  record.bytes = Tensor(at::detail::empty_cpu({static_cast<int64_t>(record.num_bytes)}, at::kByte));
  auto* const bytes = static_cast<std::byte*>(record.bytes.mutable_data_ptr());
  if (archive.read(bytes, record.num_bytes) < record.num_bytes)
    damaged(str(json_text(name), " has less than the ", record.num_bytes, " bytes that its tensors need"));
  std::vector<std::byte> rest(kReadAtOnce);  // to its end, where its checksum is compared
  while (archive.read(rest.data(), rest.size()) == rest.size()) continue;
  const auto is_no_bool = [](std::byte byte) { return byte > std::byte{1}; };
  if (record.has_bools && std::any_of(bytes, bytes + record.num_bytes, is_no_bool))
    damaged(str(json_text(name), " has a bool that is neither 0 nor 1"));
}

Tensor ProgramReader::view(const Payload& payload, const Record& record) const {
  const TensorMeta& meta = *payload.meta;
  std::vector<int64_t> sizes, strides;
  for (const Extent& size : meta.sizes) sizes.push_back(size.value);
  for (const Extent& stride : meta.strides) strides.push_back(stride.value);
  Tensor tensor(at::detail::empty_cpu({0}, *meta.dtype));
  c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  impl.set_storage_keep_dtype(record.bytes.storage());
  const bool is_empty = std::ranges::find(sizes, 0) != sizes.end();
  impl.set_sizes_and_strides(sizes, strides, is_empty ? 0 : meta.offset.value);
  return tensor.set_requires_grad(payload.is_parameter && meta.requires_grad && tensor.is_floating_point());
}

// Throws where the inputs' sizes are beyond what Python exported the program for.
std::function<void(const std::vector<Value>&)> checks_of(const Model& model, const MadeProgram& made,
                                                         const std::string& source) {
  const auto number = [&](const std::string& name, int64_t axis) {
    const std::vector<Spec>& inputs = made.program.inputs;
    const auto input = std::ranges::find(inputs, name, &Spec::name);
    if (input == inputs.end() || axis < 0 || axis >= static_cast<int64_t>(input->shape.size()))
      throw Error(ErrorCode::unimplemented,
                  str(source, " has a condition on the axis ", axis, " of ", json_text(name), ", which is no input"));
    return static_cast<int>((input - inputs.begin()) * 64 + axis);
  };
  std::vector<SizeGuard> guards;
  for (const std::string& guard : model.guards) guards.emplace_back(guard, number, source);
  return [guards, ranges = made.size_ranges, sizes = made.program.sizes, source](const std::vector<Value>& inputs) {
    const auto size_at = [&](int input, int axis) { return inputs[static_cast<size_t>(input)].tensor().size(axis); };
    for (size_t i = 0; i < ranges.size(); ++i) {
      const int64_t size = size_at(sizes[i][0].value, sizes[i][0].axis);
      const int64_t least = ranges[i].least <= 2 ? 0 : ranges[i].least;  // 2 says no more than that it is free
      if (size < least || size > ranges[i].most)
        throw Error(ErrorCode::invalid_argument,
                    str(source, " takes sizes from ", least, " to ", ranges[i].most, " where an input has ", size));
    }
    for (const SizeGuard& guard : guards)
      if (!guard.holds([&](int place) { return size_at(place / 64, place % 64); }))
        throw Error(ErrorCode::invalid_argument,
                    str(source, " takes inputs of sizes for which ", guard.text(), ", as torch.export found"));
  };
}

ReadProgram ProgramReader::run() {
  if (!std::filesystem::is_regular_file(file_)) fail(ErrorCode::not_found, "is not there");
  read_texts();
  if (const std::string& version = text(kVersionFile); version != "0")
    fail(ErrorCode::unimplemented,
         str("is of version ", json_text(version.substr(0, 64)), " of the archive; \"0\" is read"));
  const Model model = read_model(text(kModelFile), str(source_, ", ", kModelFile));
  MadeProgram made = make_program(model, source_);
  find_payloads(made.variables);
  uint64_t left = std::filesystem::file_size(file_);
  for (const auto& [name, record] : records_) {
    if (record.num_bytes > left) damaged(str(json_text(name), " is larger than the file"));
    left -= record.num_bytes;
  }
  for_each_record([&](const std::string& name, files::ArchiveReader& archive) {
    if (const auto record = records_.find(name); record != records_.end()) read_record(archive, name, record->second);
  });
  Description description;
  ReadProgram read;
  for (const auto& [name, found] : found_) {
    const Record& record = records_.at(found.record);
    if (!record.bytes.defined()) damaged(str("it lacks ", json_text(found.record)));
    read.variables.emplace(name, view(found.payload, record));
    description.variables.push_back({name, found.payload.is_parameter});
  }
  description.signatures.push_back(made.program);
  check_description(description, source_);
  read.check_inputs = checks_of(model, made, source_);
  read.program = std::move(made.program);
  return read;
}

}  // namespace

ReadProgram read_pt2(const std::filesystem::path& file) { return ProgramReader(file).run(); }

}  // namespace tutti::saved_model::pt2
