#include "tutti/tools/checkpoint_command.h"

#include <ATen/ops/abs.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/max.h>
#include <ATen/ops/sub.h>

#include <ostream>
#include <set>

#include "tutti/checkpoint/folder.h"
#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/files/dtype_names.h"

namespace tutti::tools {
namespace {

using checkpoint::IndexedTensor;
using checkpoint::Reader;

checkpoint::FileSystem& disk() { return checkpoint::posix_file_system(); }

int64_t bytes_of(const IndexedTensor& tensor) {
  int64_t count = static_cast<int64_t>(c10::elementSize(tensor.dtype));
  for (const int64_t size : tensor.sizes) count *= size;
  return count;
}

// "1 tensor", "2 tensors"
std::string counted(size_t count, const char* thing) { return str(count, ' ', thing, count == 1 ? "" : "s"); }

std::string summary(const Reader& reader) {
  int64_t bytes = 0;
  for (const IndexedTensor& tensor : reader.tensors()) bytes += bytes_of(tensor);
  return str("step ", reader.step(), ", ", counted(reader.tensors().size(), "tensor"), ", ", bytes, " bytes");
}

std::string text_of(const checkpoint::Value& value) {
  return std::visit([](const auto& value) { return str(value); }, value);
}

std::string form_of(const IndexedTensor& tensor) { return files::form_text(tensor.dtype, tensor.sizes); }

// What is unlike in two tensors of one name; empty for nothing.
std::string difference(const Reader& one, const Reader& other, const IndexedTensor& a, const IndexedTensor& b) {
  if (form_of(a) != form_of(b)) return str(form_of(a), " and ", form_of(b));
  const Tensor x = one.read(a.name);
  const Tensor y = other.read(b.name);
  if (x.equal(y)) return {};
  if (!at::isFloatingType(a.dtype)) return "other values";
  return str("values differ by up to ", x.to(at::kDouble).sub(y.to(at::kDouble)).abs().max().item<double>());
}

// Prints what only the first has, and, if `compare`, what both have and is unlike.
size_t print_differences(const Reader& one, const Reader& other, bool compare, std::ostream& out) {
  size_t count = 0;
  const auto print = [&](std::string_view name, const std::string& what) {
    if (what.empty()) return;
    ++count;
    out << name << ": " << what << '\n';
  };
  const std::string only = "only in " + one.folder().string();
  for (const IndexedTensor& tensor : one.tensors()) {
    const IndexedTensor* twin = other.find(tensor.name);
    if (!twin) print(tensor.name, only);
    if (twin && compare) print(tensor.name, difference(one, other, tensor, *twin));
  }
  for (const auto& [name, value] : one.values()) {
    const auto twin = other.values().find(name);
    if (twin == other.values().end()) print(name, only);
    if (twin != other.values().end() && compare && twin->second != value)
      print(name, str(text_of(value), " and ", text_of(twin->second)));
  }
  return count;
}

}  // namespace

int list_checkpoints(const std::filesystem::path& directory, std::ostream& out) {
  if (!disk().exists(directory))
    throw Error(ErrorCode::not_found, str("checkpoint list: there is no directory '", directory.string(), "'"));
  const checkpoint::Folder checkpoints(disk(), directory);
  const std::vector<int64_t> numbers = checkpoints.numbers();
  if (numbers.empty()) out << "no checkpoints in " << directory.string() << '\n';
  int status = 0;
  for (const int64_t number : numbers) {
    const std::filesystem::path folder = checkpoints.path_of(number);
    out << folder.filename().string() << ": ";
    try {
      out << summary(Reader(disk(), folder)) << '\n';
    } catch (const Error& error) {
      if (error.code() != ErrorCode::data_loss) throw;
      out << "damaged: " << error.what() << '\n';
      status = 1;
    }
  }
  return status;
}

int show_checkpoint(const std::filesystem::path& folder, std::ostream& out) {
  const Reader reader(disk(), folder);
  out << summary(reader) << '\n';
  for (const IndexedTensor& tensor : reader.tensors()) {
    out << tensor.name << ": " << form_of(tensor);
    if (!tensor.layout.empty()) out << ' ' << tensor.layout;
    if (tensor.shards.size() > 1) out << " in " << counted(tensor.shards.size(), "shard");
    out << '\n';
  }
  for (const auto& [name, value] : reader.values()) out << name << " = " << text_of(value) << '\n';
  return 0;
}

int verify_checkpoint(const std::filesystem::path& folder, std::ostream& out) {
  try {
    const Reader reader(disk(), folder);
    reader.verify();
    out << folder.string() << " is whole: " << summary(reader) << '\n';
    return 0;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::data_loss) throw;
    out << error.what() << '\n';
    return 1;
  }
}

int diff_checkpoints(const std::filesystem::path& one, const std::filesystem::path& other, std::ostream& out) {
  const Reader first(disk(), one);
  const Reader second(disk(), other);
  const size_t differences = print_differences(first, second, /*compare=*/true, out) +
                             print_differences(second, first, /*compare=*/false, out);
  if (differences == 0) out << "the same: " << summary(first) << '\n';
  return differences == 0 ? 0 : 1;
}

}  // namespace tutti::tools
