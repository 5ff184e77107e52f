#include "tutti/checkpoint/safetensors.h"

#include <ATen/ops/empty.h>

#include <algorithm>

#include "tutti/checkpoint/host_bytes.h"
#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/tensor/view.h"

namespace tutti::checkpoint {
namespace {

namespace fs = std::filesystem;

SafetensorsHeader read_header(const ReadableFile& file, const std::string& name) {
  std::vector<std::byte> bytes(std::min<uint64_t>(file.size(), kSafetensorsLengthBytes));
  file.read(0, bytes);
  bytes.resize(safetensors_data_begin(bytes, file.size(), name));
  file.read(0, bytes);
  return parse_safetensors_header(bytes, file.size(), name);
}

}  // namespace

SafetensorsFile::SafetensorsFile(FileSystem& files, const fs::path& file)
    : file_(files.open(file)), header_(read_header(*file_, file.string())) {}

Tensor SafetensorsFile::read(const SafetensorsEntry& entry) const {
  const GlobalViewGuard no_scope;
  Tensor tensor = at::empty(entry.sizes, at::TensorOptions(at::kCPU).dtype(entry.dtype));
  file_->read(header_.data_begin + entry.begin, {static_cast<std::byte*>(tensor.mutable_data_ptr()), tensor.nbytes()});
  return tensor;
}

std::map<std::string, Tensor> load_safetensors(FileSystem& files, const fs::path& file) {
  const SafetensorsFile open(files, file);
  std::map<std::string, Tensor> tensors;
  for (const SafetensorsEntry& entry : open.entries()) tensors.emplace(entry.name, open.read(entry));
  return tensors;
}

void save_safetensors(FileSystem& files, const fs::path& file, const std::map<std::string, Tensor>& tensors,
                      const std::map<std::string, std::string>& metadata) {
  const GlobalViewGuard no_scope;
  std::vector<std::pair<std::string, Tensor>> parts;
  for (const auto& [name, tensor] : tensors) {
    if (tensor.layout() != at::kStrided)
      throw Error(ErrorCode::unimplemented, str("safetensors: tensor '", name, "' is not dense; call to_dense()"));
    parts.emplace_back(name, gather(tensor.detach()));
  }
  std::ranges::stable_sort(parts, std::greater(), [](const auto& part) { return part.second.element_size(); });
  SafetensorsHeader header{.metadata = metadata};
  for (const auto& [name, tensor] : parts) {
    const uint64_t end = header.entries.empty() ? 0 : header.entries.back().end;
    header.entries.push_back(safetensors_entry(name, tensor.scalar_type(), tensor.sizes(), end));
  }
  replace_file(files, file, [&](WritableFile& out) {
    const std::string text = safetensors_header_text(header);
    out.write(std::as_bytes(std::span(text)));
    for (const auto& [name, tensor] : parts) {
      const Tensor host = to_host(tensor);
      out.write(bytes_of(host));
    }
  });
}

}  // namespace tutti::checkpoint
