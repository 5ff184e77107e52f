#include "tutti/data/graph/content.h"

#include "tutti/core/crc32c.h"
#include "tutti/core/str.h"
#include "tutti/data/graph/call_text.h"

namespace tutti::data::graph {
namespace {

std::string form_of(const Leaf& leaf) {
  if (std::holds_alternative<NodePtr>(leaf)) return "a dataset";
  const auto* tensor = std::get_if<Tensor>(&leaf);
  if (tensor && !tensor->defined()) return "nothing";
  return str(tensor ? c10::toString(tensor->scalar_type()) : "Strings", ' ', str_list(shape_of(leaf)));
}

uint32_t checksum_of_tensor(const Tensor& tensor, uint32_t before) {
  if (tensor.is_sparse()) return checksum_of_tensor(tensor._values(), checksum_of_tensor(tensor._indices(), before));
  const Tensor dense = tensor.layout() == at::kStrided ? tensor : tensor.to_dense();
  const Tensor values = std::get<Tensor>(packed(dense.cpu()));
  return crc32c(values.const_data_ptr(), values.nbytes(), before);
}

}  // namespace

std::string form_of(const std::vector<Leaf>& leaves, const Keys& keys) {
  std::string form;
  for (const Leaf& leaf : leaves) form += str(form.empty() ? "" : " ", form_of(leaf));
  return keys ? str(form, call_text(" by", *keys)) : form;
}

uint32_t checksum_of_text(std::string_view text, uint32_t before) {
  const uint64_t size = text.size();
  return crc32c(text.data(), text.size(), crc32c(&size, sizeof size, before));
}

uint32_t checksum_of(const Leaf& leaf, uint32_t before) {
  if (const auto* text = std::get_if<Strings>(&leaf))
    for (const std::string& value : text->values()) before = checksum_of_text(value, before);
  const auto* tensor = std::get_if<Tensor>(&leaf);
  return tensor && tensor->defined() ? checksum_of_tensor(*tensor, before) : before;
}

}  // namespace tutti::data::graph
