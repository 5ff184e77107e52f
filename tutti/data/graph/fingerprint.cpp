#include "tutti/data/graph/fingerprint.h"

#include <string_view>

#include "tutti/core/crc32c.h"
#include "tutti/core/str.h"

namespace tutti::data::graph {
namespace {

uint32_t checksum_of_text(std::string_view text, uint32_t before) {
  const uint64_t size = text.size();
  return crc32c(text.data(), text.size(), crc32c(&size, sizeof size, before));
}

uint32_t checksum_of_column(const Leaf& column, uint32_t before) {
  if (const auto* text = std::get_if<Strings>(&column))
    for (const std::string& value : text->values()) before = checksum_of_text(value, before);
  const Tensor* tensor = host_tensor(column);
  return tensor ? crc32c(tensor->contiguous().const_data_ptr(), tensor->nbytes(), before) : before;
}

// The name of a file and of its folder: the same data may lie elsewhere on another machine.
uint32_t checksum_of_path(const std::filesystem::path& path, uint32_t before) {
  return checksum_of_text((path.parent_path().filename() / path.filename()).string(), before);
}

std::string content_of(const Node& source) {
  uint32_t checksum = 0;
  if (source.table)
    for (const Leaf& column : source.table->columns()) checksum = checksum_of_column(column, checksum);
  for (const auto& file : source.files) checksum = checksum_of_path(file, checksum);
  return str(source.table ? "content " : "names ", checksum);
}

// The operation that it is, whatever number of threads does it; empty where it changes no element.
std::string_view without_threads(std::string_view op) {
  constexpr std::string_view kParallel = "parallel_";
  if (op.starts_with(kParallel)) op.remove_prefix(kParallel.size());
  return op == "prefetch" || op.starts_with("assert_cardinality") ? "" : op;
}

}  // namespace

std::string fingerprint_of(const NodePtr& node) {
  StateWriter begun = StateWriter::of_ops();
  node->iterate({})->save(begun);
  std::string text;
  const auto add = [&](std::string_view part) {
    if (!part.empty()) text += str(text.empty() ? "" : ", ", part);
  };
  for (const std::string& op : begun.ops()) add(without_threads(op));
  for (const Node* source : nodes_of(*node))
    if (source->table || !source->files.empty()) add(content_of(*source));
  return text;
}

}  // namespace tutti::data::graph
