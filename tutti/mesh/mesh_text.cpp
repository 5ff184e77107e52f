// TensorFlow's text of a mesh. TF: Mesh.from_string, Mesh.to_string.
#include "tutti/core/str.h"
#include "tutti/mesh/mesh.h"
#include "tutti/mesh/text_reader.h"

namespace tutti {
namespace {

std::vector<MeshDimension> read_dimensions(TextReader& reader) {
  std::vector<MeshDimension> dimensions;
  if (reader.at('|')) return dimensions;
  do {
    const std::string_view name = reader.read_until("=,|");
    reader.expect("=");
    dimensions.push_back({std::string(name), reader.read_number()});
    if (dimensions.size() > static_cast<size_t>(Mesh::kMaxDimensions))
      reader.fail(str("has more than ", Mesh::kMaxDimensions, " dimensions"));
  } while (reader.take(","));
  return dimensions;
}

size_t read_ids(TextReader& reader) {
  const auto ids = reader.read_numbers();
  for (size_t i = 0; i < ids.size(); ++i)
    if (ids[i] != static_cast<int64_t>(i)) reader.fail("has device ids that are not 0, 1, 2, …");
  return ids.size();
}

std::vector<Device> read_devices(TextReader& reader) {
  std::vector<Device> devices;
  for (const std::string_view word : reader.read_words("|")) devices.push_back(Device::parse(word));
  return devices;
}

void write_ids(std::string& text, int64_t count) {
  for (int64_t id = 0; id < count; ++id) text += str(id ? "," : "", id);
}

}  // namespace

Mesh Mesh::parse(std::string_view text, MeshOptions options) {
  TextReader reader("Mesh::parse", text);
  options.name = reader.read_until("|");
  reader.expect("|");
  auto dimensions = read_dimensions(reader);
  reader.expect("|");
  const size_t num_global = read_ids(reader);
  reader.expect("|");
  const size_t num_local = read_ids(reader);
  reader.expect("|");
  auto devices = read_devices(reader);
  if (num_global != devices.size() || num_local != devices.size())
    reader.fail(str("has ", num_global, " global ids, ", num_local, " local ids and ", devices.size(),
                    " local devices; there must be one of each for every device"));
  if (reader.take("|") && !reader.at_end() && read_devices(reader) != devices)
    reader.fail("has other global devices than local ones; a mesh has the devices of one process");
  if (!reader.at_end()) reader.fail("has something after the devices");
  return Mesh(std::move(dimensions), std::move(devices), std::move(options));
}

std::string Mesh::serialize() const {
  std::string text = name() + '|';
  const auto& all = dimensions();
  for (size_t d = 0; d < all.size(); ++d) text += str(d ? "," : "", all[d].name, '=', all[d].size);
  text += '|';
  write_ids(text, num_devices());
  text += '|';
  write_ids(text, num_devices());
  text += '|';
  for (size_t i = 0; i < devices().size(); ++i)
    text += str(i ? "," : "", "/job:localhost/replica:0/task:0", devices()[i]);
  return text;
}

}  // namespace tutti
