#include "tutti/export/onnx/model.h"

#include <bit>
#include <limits>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/export/onnx/model.pb.h"

namespace tutti::saved_model::onnx {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr int64_t kIrVersion = 8;  // that which ONNX released with the set 17

struct WriteAttribute {
  proto::Attribute& attribute;

  void operator()(int64_t value) const {
    attribute.set_type(proto::Attribute::INT);
    attribute.set_i(value);
  }
  void operator()(float value) const {
    attribute.set_type(proto::Attribute::FLOAT);
    attribute.set_f(value);
  }
  void operator()(const std::string& value) const {
    attribute.set_type(proto::Attribute::STRING);
    attribute.set_s(value);
  }
  void operator()(const std::vector<int64_t>& values) const {
    attribute.set_type(proto::Attribute::INTS);
    for (const int64_t value : values) attribute.add_ints(value);
  }
  void operator()(const std::vector<std::string>& values) const {
    attribute.set_type(proto::Attribute::STRINGS);
    for (const std::string& value : values) attribute.add_strings(value);
  }
};

void write(const Node& node, const std::string& name, proto::Node& to) {
  to.set_name(name);
  to.set_op_type(node.op);
  for (const std::string& input : node.inputs) to.add_input(input);
  for (const std::string& output : node.outputs) to.add_output(output);
  for (const Attribute& attribute : node.attributes) {
    proto::Attribute& added = *to.add_attribute();
    added.set_name(attribute.name);
    std::visit(WriteAttribute{added}, attribute.value);
  }
}

void write(const Initializer& initializer, proto::Tensor& to) {
  to.set_name(initializer.name);
  to.set_data_type(initializer.data_type);
  for (const int64_t size : initializer.dims) to.add_dims(size);
  if (initializer.bytes.empty()) return;  // ONNX wants no data at all then
  if (!initializer.place) return to.set_raw_data(initializer.bytes.data(), initializer.bytes.size());
  to.set_data_location(proto::Tensor::EXTERNAL);
  const auto add = [&](const char* key, const std::string& value) {
    proto::StringStringEntry& entry = *to.add_external_data();
    entry.set_key(key);
    entry.set_value(value);
  };
  add("location", initializer.place->file);
  add("offset", str(initializer.place->offset));
  add("length", str(initializer.bytes.size()));
}

void write(const ValueInfo& value, proto::ValueInfo& to) {
  to.set_name(value.name);
  proto::Type::Tensor& type = *to.mutable_type()->mutable_tensor_type();
  type.set_elem_type(value.data_type);
  proto::TensorShape& shape = *type.mutable_shape();  // also of a value without axes
  for (const auto& dim : value.dims) {
    proto::TensorShape::Dimension& added = *shape.add_dim();
    if (const auto* const size = std::get_if<int64_t>(&dim))
      added.set_dim_value(*size);
    else if (const std::string& name = std::get<std::string>(dim); !name.empty())
      added.set_dim_param(name);
  }
}

}  // namespace

std::string serialize(const Model& model) {
  proto::Model written;
  written.set_ir_version(kIrVersion);
  written.set_producer_name("tutti");
  proto::OperatorSetId& set = *written.add_opset_import();
  set.set_domain("");
  set.set_version(kOpset);
  proto::Graph& graph = *written.mutable_graph();
  graph.set_name(model.name);
  for (const Node& node : model.nodes) write(node, node.outputs[0], *graph.add_node());
  for (const Initializer& initializer : model.initializers) write(initializer, *graph.add_initializer());
  for (const ValueInfo& input : model.inputs) write(input, *graph.add_input());
  for (const ValueInfo& output : model.outputs) write(output, *graph.add_output());
  const size_t size = written.ByteSizeLong();
  if (size > std::numeric_limits<int32_t>::max())
    throw Error(ErrorCode::resource_exhausted,
                str("saved_model: '", model.name, "' takes ", size,
                    " bytes as one ONNX file, which may have 2 GiB; have it read its weights from the file of the "
                    "variables, by .external_weights_above of OnnxOptions"));
  return written.SerializeAsString();
}

}  // namespace tutti::saved_model::onnx
