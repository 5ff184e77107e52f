#include "tutti/device/device.h"

#include <algorithm>
#include <charconv>
#include <ostream>

#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti {
namespace {

constexpr size_t kMaxTextLength = 256;

// ASCII only: what a name means must not depend on the locale.
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
char to_upper(char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; }

// The beginning of the text in quotes, fit to be printed.
std::string quoted(std::string_view text) {
  std::string shown(text.substr(0, 60));
  std::ranges::replace_if(
      shown, [](char c) { return c < ' ' || c > '~'; }, '?');
  return '"' + shown + (shown.size() < text.size() ? "…\"" : "\"");
}

// Reads a name from left to right: parts are separated by '/', a part is KEY:VALUE.
class DeviceParser {
 public:
  explicit DeviceParser(std::string_view text) : text_(text) {}

  Device parse() {
    if (text_.size() > kMaxTextLength) fail(str("has ", text_.size(), " characters, at most ", kMaxTextLength));
    position_ = text_.starts_with('/') ? 1 : 0;
    read_part();
    while (take('/')) read_part();
    if (position_ < text_.size()) fail("has something after the part that ends here");
    if (!has_type_) fail("has no device type");
    return device_;
  }

 private:
  void read_part() {
    const size_t begin = position_;
    const std::string_view word = read_word();
    if (word.empty()) fail("has an empty part");
    if (word == "job") {
      if (!device_.job.empty()) fail("names the job twice", begin);
      expect_colon();
      device_.job = read_job();
    } else if (word == "replica") {
      read_index_once(device_.replica, begin);
    } else if (word == "task") {
      read_index_once(device_.task, begin);
    } else if (word == "device") {
      expect_colon();
      const size_t type_begin = position_;
      read_device(read_word(), type_begin);
    } else {
      read_device(word, begin);
    }
  }

  void read_device(std::string_view word, size_t begin) {
    if (has_type_) fail("names the device twice", begin);
    device_.type = to_type(word, begin);
    has_type_ = true;
    if (take(':')) device_.index = read_number();
  }

  void read_index_once(std::optional<int>& index, size_t begin) {
    if (index) fail("names a part twice", begin);
    expect_colon();
    index = read_number();
  }

  std::string_view read_word() {
    const size_t begin = position_;
    while (position_ < text_.size() &&
           (is_letter(text_[position_]) || is_digit(text_[position_]) || text_[position_] == '_'))
      ++position_;
    return text_.substr(begin, position_ - begin);
  }

  std::string read_job() {
    const size_t begin = position_;
    const std::string_view job = read_word();
    if (job.empty() || !is_letter(job.front())) fail("has no job name; one starts with a letter", begin);
    return std::string(job);
  }

  int read_number() {
    int number = 0;
    if (position_ == text_.size() || !is_digit(text_[position_])) fail("has no number");
    const char* begin = text_.data() + position_;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), number);
    if (error != std::errc()) fail("has a number that is too large");
    position_ += static_cast<size_t>(end - begin);
    return number;
  }

  DeviceType to_type(std::string_view word, size_t begin) const {
    std::string name(word);
    std::ranges::transform(name, name.begin(), to_upper);
    for (const DeviceType type : {DeviceType::cpu, DeviceType::gpu, DeviceType::tpu})
      if (name == to_string(type)) return type;
    fail("has an unknown device type; the types are CPU, GPU and TPU", begin);
  }

  bool take(char c) {
    if (position_ == text_.size() || text_[position_] != c) return false;
    ++position_;
    return true;
  }

  void expect_colon() {
    if (!take(':')) fail("lacks a ':'");
  }

  [[noreturn]] void fail(const std::string& what) const { fail(what, position_); }
  [[noreturn]] void fail(const std::string& what, size_t position) const {
    throw Error(ErrorCode::invalid_argument,
                str("Device: ", quoted(text_), " ", what, " (at character ", position, "); right forms are \"GPU:0\", ",
                    "\"/CPU:3\", \"/job:worker/replica:0/task:1/device:GPU:2\""));
  }

  std::string_view text_;
  size_t position_ = 0;
  Device device_;
  bool has_type_ = false;
};

}  // namespace

std::string_view to_string(DeviceType type) {
  switch (type) {
    case DeviceType::cpu: return "CPU";
    case DeviceType::gpu: return "GPU";
    case DeviceType::tpu: return "TPU";
  }
  return "unknown";
}

Device Device::parse(std::string_view text) { return DeviceParser(text).parse(); }

std::string to_string(const Device& device) {
  std::string text;
  if (!device.job.empty()) text += "/job:" + device.job;
  if (device.replica) text += str("/replica:", *device.replica);
  if (device.task) text += str("/task:", *device.task);
  return text + str("/device:", to_string(device.type), ':', device.index);
}

std::ostream& operator<<(std::ostream& out, const Device& device) { return out << to_string(device); }

}  // namespace tutti
