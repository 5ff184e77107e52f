// tests/oracle/records.json: files of records byte for byte, what is read of damaged ones, messages of
// tf.train.Example, and TensorBoard's event files.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <map>

#include "tests/support/oracle_cases.h"
#include "tests/support/temporary_folder.h"
#include "tutti/core/crc32c.h"
#include "tutti/data/event_file_writer.h"
#include "tutti/data/parse_example.h"
#include "tutti/data/tfrecord.h"

namespace tutti::data {
namespace {

using oracle::Json;

std::string bytes_of(const Json& hex) {
  const std::string digits = hex.get<std::string>();
  std::string bytes;
  for (size_t i = 0; i < digits.size(); i += 2) bytes += static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16));
  return bytes;
}

std::vector<std::string> all_bytes_of(const Json& list) {
  std::vector<std::string> all;
  for (const Json& hex : list) all.push_back(bytes_of(hex));
  return all;
}

// The records of a file, until the error, if there is one.
struct Read {
  std::vector<std::string> records;
  std::optional<ErrorCode> error;
};

Read read_file(const std::filesystem::path& path, const TFRecordOptions& options = {}) {
  Read read;
  try {
    for (const Strings& record : tfrecord_dataset({path}, options)) read.records.push_back(record.item());
  } catch (const Error& error) {
    read.error = error.code();
  }
  return read;
}

bool gives(const Read& read, const std::vector<std::string>& records) { return read.records == records && !read.error; }

// Whether what the writer makes of the records gives them back.
bool write_file(const std::filesystem::path& file, const std::vector<std::string>& records,
                const TFRecordOptions& options) {
  TFRecordWriter writer(file, options);
  for (const std::string& record : records) writer.write(record);
  writer.close();
  return gives(read_file(file, options), records);
}

bool tfrecord(const Json& test) {
  const auto records = all_bytes_of(test.at("records_hex"));
  const Json& checksums = test.at("expected").at("crc");
  bool equal = checksums.size() == records.size();
  for (size_t i = 0; equal && i < records.size(); ++i) {
    const uint64_t length = records[i].size();
    const uint32_t of_bytes = crc32c(records[i].data(), length);
    equal = checksums[i].at("length_masked") == mask_crc32c(crc32c(&length, sizeof length)) &&
            checksums[i].at("data_crc32c") == of_bytes && checksums[i].at("data_masked") == mask_crc32c(of_bytes);
  }
  const TemporaryFolder folder;
  return equal && write_file(folder / "file", records, {}) &&
         folder.read("file") == bytes_of(test.at("expected").at("file_hex"));
}

// The bytes may differ between builds of zlib.
bool tfrecord_compressed(const Json& test) {
  const auto compression = test.at("compression") == "GZIP" ? Compression::gzip : Compression::zlib;
  const auto records = all_bytes_of(test.at("records_hex"));
  const TemporaryFolder folder;
  const auto theirs = folder.write("theirs", bytes_of(test.at("expected").at("file_hex")));
  return gives(read_file(theirs, {.compression = compression}), records) &&
         write_file(folder / "ours", records, {.compression = compression});
}

bool tfrecord_read(const Json& test) {
  const TemporaryFolder folder;
  const Read read = read_file(folder.write("file", bytes_of(test.at("file_hex"))));
  const Json& expected = test.at("expected");
  if (read.records != all_bytes_of(expected.at("records_before_error"))) return false;
  if (expected.at("error").is_null()) return !read.error;
  return read.error && oracle::same_family(*read.error, expected.at("error"));
}

Feature feature_of(const Json& value) {
  if (!value.at("int64").empty()) return value.at("int64").get<Int64List>();
  if (!value.at("float").empty()) return value.at("float").get<FloatList>();
  if (!value.at("bytes_hex").empty()) return all_bytes_of(value.at("bytes_hex"));
  return {};
}

bool is_message_of(const Example& example, const std::string& bytes) {
  return example.serialize() == bytes && Example::parse(bytes) == example;
}

bool example(const Json& test) {
  return is_message_of({{{test.at("feature"), feature_of(test.at("value"))}}},
                       bytes_of(test.at("expected").at("message_hex")));
}

// The features of the cases of one feature, together.
bool example_map(const Json& test) {
  Example all;
  for (const Json& one : oracle::cases("records.json"))
    if (one.at("kind") == "example") all.features[one.at("feature")] = feature_of(one.at("value"));
  return is_message_of(all, bytes_of(test.at("expected").at("message_hex")));
}

bool same(const Tensor& parsed, const Json& recorded) { return oracle::equals(parsed, recorded); }
bool same(const Strings& parsed, const Json& recorded) {
  return parsed ==
         Strings(recorded.at("data").get<std::vector<std::string>>(), recorded.at("shape").get<std::vector<int64_t>>());
}

// "fixed [3] int64", "variable float32", "fixed [1] float32, default 7.0".
template <class T>
bool parses_to(const std::string& message, const std::string& name, const std::string& spec, const Json& recorded) {
  if (spec.starts_with("variable")) return same(parse_single_example(message, VarLenFeature<T>{name}), recorded);
  FixedLenFeature<T> feature{name};
  const size_t open = spec.find('['), close = spec.find(']');
  feature.shape = Json::parse(spec.substr(open, close - open + 1)).get<std::vector<int64_t>>();
  if (const size_t at = spec.find("default "); at != std::string::npos)
    feature.default_value = {Json::parse(spec.substr(at + 8)).get<T>()};
  return same(parse_single_example(message, feature), recorded);
}

bool parse_example_case(const Json& test) {
  const std::string message = bytes_of(test.at("message_hex"));
  for (const auto& [name, json] : test.at("spec").items()) {
    const std::string spec = json.get<std::string>();
    const auto parses = spec.find("int64") != std::string::npos     ? parses_to<int64_t>
                        : spec.find("float32") != std::string::npos ? parses_to<float>
                                                                    : parses_to<std::string>;
    if (!parses(message, name, spec, test.at("expected").at(name))) return false;
  }
  return true;
}

// The value in a recorded tensor of an event: float [], string [] or double [n, 3]. Its bytes end the message.
SummaryValue summary_value(const Json& recorded) {
  SummaryValue value{recorded.at("tag"), {}, recorded.at("description")};
  const std::string message = bytes_of(recorded.at("tensor_message_hex"));
  const int dtype = recorded.at("tensor_dtype");
  if (dtype == 7) {
    size_t first = 5;  // behind dtype, shape and the tag, where the length begins
    while (message[first++] & 0x80) continue;
    value.value = message.substr(first);
  } else if (dtype == 1) {
    std::memcpy(&value.value.emplace<float>(), message.data() + message.size() - sizeof(float), sizeof(float));
  } else {
    auto& buckets = value.value.emplace<HistogramBuckets>(recorded.at("tensor_shape")[0].get<size_t>());
    const size_t size = buckets.size() * sizeof buckets[0];
    std::memcpy(buckets.data(), message.data() + message.size() - size, size);
  }
  return value;
}

bool events(const Json& test) {
  const Json& expected = test.at("expected");
  const auto messages = all_bytes_of(expected.at("messages_wall_time_1000_hex"));
  const TemporaryFolder folder;
  TFRecordWriter writer(folder / "file");
  for (size_t i = 0; i < messages.size(); ++i) {
    const Json& decoded = expected.at("decoded")[i];
    Event event{.wall_time = 1000, .step = decoded.at("step")};
    if (decoded.contains("values"))
      for (const Json& value : decoded.at("values")) event.values.push_back(summary_value(value));
    const std::string bytes =
        decoded.at("file_version").is_null() ? event.serialize() : serialize_file_version(event.wall_time);
    if (bytes != messages[i]) return false;
    writer.write(bytes);
  }
  writer.close();
  const std::string name = EventFileWriter(folder / "run").path().filename().string();
  return folder.read("file") == bytes_of(expected.at("file_wall_time_1000_hex")) &&
         name.starts_with(test.at("file_name_prefix").get<std::string>() + '.') &&
         name.ends_with('.' + test.at("file_name_suffix").get<std::string>());
}

TEST(RecordsOracle, IsMet) {
  const std::map<std::string, std::function<bool(const Json&)>> kinds{
      {"tfrecord", tfrecord}, {"tfrecord_read", tfrecord_read}, {"tfrecord_compressed", tfrecord_compressed},
      {"example", example},   {"example_map", example_map},     {"parse_example", parse_example_case},
      {"events", events},
  };
  oracle::run_cases("records.json", [&](const Json& test) { return kinds.at(test.at("kind"))(test); });
}

// What TensorFlow takes for the end of a file, inside the 12 bytes before a record, is an error here.
TEST(RecordsOracle, IsBettered) {
  for (const Json& test : oracle::cases("records.json")) {
    if (test.at("kind") != "tfrecord_read" || !test.at("expected").at("error").is_null()) continue;
    const auto whole = all_bytes_of(test.at("expected").at("records_before_error"));
    const std::string bytes = bytes_of(test.at("file_hex"));
    size_t end = 0;
    for (const std::string& record : whole) end += record.size() + 16;
    const TemporaryFolder folder;
    const Read read = read_file(folder.write("file", bytes));
    EXPECT_EQ(read.records, whole) << test.dump();
    EXPECT_EQ(read.error, end == bytes.size() ? std::nullopt : std::optional(ErrorCode::data_loss)) << test.dump();
  }
}

}  // namespace
}  // namespace tutti::data
