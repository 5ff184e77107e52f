// TensorFlow's text of a layout. TF: Layout.from_string, Layout.to_string.
#include "tutti/core/str.h"
#include "tutti/mesh/layout.h"
#include "tutti/mesh/text_reader.h"

namespace tutti {
namespace {

constexpr size_t kMaxRank = 64;  // as LibTorch's tensors have at most

// "x,unsharded, " or nothing, each entry with a comma behind it, then a space.
std::vector<std::string> read_entries(TextReader& reader) {
  std::vector<std::string> entries;
  while (!reader.take(" ")) {
    entries.emplace_back(reader.read_until(", "));
    reader.expect(",");
    if (entries.size() > kMaxRank) reader.fail(str("has more than ", kMaxRank, " entries"));
  }
  return entries;
}

std::string written(const std::vector<std::string>& entries) {
  std::string text;
  for (const auto& entry : entries) text += entry + ',';
  return text + ' ';
}

}  // namespace

Layout Layout::parse(std::string_view text, MeshOptions options) {
  TextReader reader("Layout::parse", text);
  if (text.starts_with("parted:") || text.starts_with("maximal:"))
    reader.fail("is of a kind that is not needed here: a tensor of one device has a mesh of one, and none is parted");
  reader.expect("sharding_specs:");
  const auto axes = read_entries(reader);
  std::vector<std::string> unreduced;
  if (reader.take("unreduced:")) unreduced = read_entries(reader);
  reader.expect("mesh:");
  return Layout(axes, Mesh::parse(reader.rest(), std::move(options)), unreduced);
}

std::string Layout::serialize() const {
  std::string text = "sharding_specs:" + written(sharding_specs());
  if (unreduced_) text += "unreduced:" + written(unreduced_names());
  return text + "mesh:" + mesh_.serialize();
}

}  // namespace tutti
