#include "tutti/data/example.h"

#include <climits>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/data/example.pb.h"

namespace tutti::data {
namespace {

template <class Message>
std::string to_bytes(const Message& message, const char* what) {
  std::string bytes;
  if (message.ByteSizeLong() > INT_MAX || !message.SerializeToString(&bytes))
    throw Error(ErrorCode::invalid_argument,
                str("serialize: a ", what, " of ", message.ByteSizeLong(), " bytes; protocol buffers end at 2 GB"));
  return bytes;
}

template <class Message>
bool read_message(std::string_view bytes, Message& message) {
  return bytes.size() <= INT_MAX && message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
}

template <class Message>
Message parsed(std::string_view bytes, const char* what) {
  Message message;
  if (!read_message(bytes, message))
    throw Error(ErrorCode::invalid_argument, str("parse: these ", bytes.size(), " bytes are no ", what));
  return message;
}

void write(const Feature& feature, proto::Feature& message) {
  if (const auto* text = std::get_if<BytesList>(&feature)) {
    message.mutable_bytes_list()->mutable_value()->Add(text->begin(), text->end());
  } else if (const auto* floats = std::get_if<FloatList>(&feature)) {
    message.mutable_float_list()->mutable_value()->Add(floats->begin(), floats->end());
  } else if (const auto* integers = std::get_if<Int64List>(&feature)) {
    message.mutable_int64_list()->mutable_value()->Add(integers->begin(), integers->end());
  }
}

void write(const std::map<std::string, Feature>& features, proto::Features& message) {
  for (const auto& [name, feature] : features) {
    proto::FeatureEntry& entry = *message.add_feature();
    entry.set_key(name);
    write(feature, *entry.mutable_value());
  }
}

ExampleReader::View view(const proto::Feature& message) {
  const auto span = [](const auto& values) { return std::span(values.data(), static_cast<size_t>(values.size())); };
  switch (message.kind_case()) {
    case proto::Feature::kBytesList: return span(message.bytes_list().value());
    case proto::Feature::kFloatList: return span(message.float_list().value());
    case proto::Feature::kInt64List: return span(message.int64_list().value());
    case proto::Feature::KIND_NOT_SET: break;
  }
  return {};
}

struct Copy {
  Feature operator()(std::monostate) const { return {}; }
  Feature operator()(std::span<const std::string* const> values) const {
    BytesList list;
    for (const std::string* value : values) list.push_back(*value);
    return list;
  }
  Feature operator()(std::span<const float> values) const { return FloatList(values.begin(), values.end()); }
  Feature operator()(std::span<const int64_t> values) const { return Int64List(values.begin(), values.end()); }
};

std::map<std::string, Feature> read(const proto::Features& message) {
  std::map<std::string, Feature> features;
  for (const proto::FeatureEntry& entry : message.feature())
    features.insert_or_assign(entry.key(), std::visit(Copy(), view(entry.value())));
  return features;
}

}  // namespace

std::string Example::serialize() const {
  proto::Example message;
  if (!features.empty()) write(features, *message.mutable_features());
  return to_bytes(message, "Example");
}

Example Example::parse(std::string_view bytes) {
  return {.features = read(parsed<proto::Example>(bytes, "Example").features())};
}

std::string SequenceExample::serialize() const {
  proto::SequenceExample message;
  if (!context.empty()) write(context, *message.mutable_context());
  for (const auto& [name, steps] : feature_lists) {
    proto::FeatureListEntry& entry = *message.mutable_feature_lists()->add_feature_list();
    entry.set_key(name);
    entry.mutable_value();
    for (const Feature& step : steps) write(step, *entry.mutable_value()->add_feature());
  }
  return to_bytes(message, "SequenceExample");
}

SequenceExample SequenceExample::parse(std::string_view bytes) {
  const auto message = parsed<proto::SequenceExample>(bytes, "SequenceExample");
  SequenceExample example{.context = read(message.context()), .feature_lists = {}};
  for (const proto::FeatureListEntry& entry : message.feature_lists().feature_list()) {
    std::vector<Feature>& steps = example.feature_lists[entry.key()];
    steps.clear();
    for (const proto::Feature& step : entry.value().feature()) steps.push_back(std::visit(Copy(), view(step)));
  }
  return example;
}

struct ExampleReader::Message {
  proto::Example example;
};

ExampleReader::ExampleReader() : message_(std::make_unique<Message>()) {}
ExampleReader::~ExampleReader() = default;

bool ExampleReader::read(std::string_view bytes) { return read_message(bytes, message_->example); }

ExampleReader::View ExampleReader::find(std::string_view name) const {
  const auto& entries = message_->example.features().feature();
  for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry)
    if (entry->key() == name) return view(entry->value());
  return {};
}

}  // namespace tutti::data
