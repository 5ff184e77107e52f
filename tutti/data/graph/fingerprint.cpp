#include "tutti/data/graph/fingerprint.h"

#include <string_view>
#include <unordered_map>

#include "tutti/core/str.h"
#include "tutti/data/graph/content.h"

namespace tutti::data::graph {
namespace {

// The name of a file and of its folder: the same data may lie elsewhere on another machine.
std::string short_path(const std::filesystem::path& path) {
  return (path.parent_path().filename() / path.filename()).string();
}

// Of a source; empty for another operation.
std::string content_of(const Node& node) {
  if (!node.table && node.files.empty()) return "";
  uint32_t checksum = 0;
  if (node.table)
    for (const Leaf& column : node.table->columns()) checksum = checksum_of(column, checksum);
  for (const auto& file : node.files) checksum = checksum_of_text(short_path(file), checksum);
  return str(", ", node.table ? "content " : "names ", checksum);
}

// Those of all sources, in the order of the inputs: one that is there twice comes twice.
class Contents {
 public:
  std::string of(const Node& node) {
    const auto [known, is_new] = known_.try_emplace(&node);
    if (is_new) known->second = content_of(node);
    std::string all = known->second;
    for (const NodePtr& input : node.inputs) all += of(*input);
    return all;
  }

 private:
  std::unordered_map<const Node*, std::string> known_;
};

// The operation that it is, whatever number of threads does it; empty where it changes no element.
std::string_view without_threads(std::string_view op) {
  constexpr std::string_view kParallel = "parallel_";
  if (op.starts_with(kParallel)) op.remove_prefix(kParallel.size());
  return op == "prefetch" || op.starts_with("assert_cardinality") ? "" : op;
}

}  // namespace

Fingerprint::Fingerprint(const NodePtr& node)
    : node_(node), contents_(std::async(std::launch::deferred, [node] { return Contents().of(*node); })) {}

std::string Fingerprint::of(const Context& context) const {
  StateWriter begun = StateWriter::of_ops();
  node_->iterate(context)->save(begun);
  std::string text;
  for (const std::string& op : begun.ops())
    if (const auto part = without_threads(op); !part.empty()) text += str(text.empty() ? "" : ", ", part);
  return text + contents_.get();
}

}  // namespace tutti::data::graph
